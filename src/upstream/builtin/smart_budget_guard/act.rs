//! The actions on the ledger, and the form of their answers.

use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::{
    count::Counted,
    read::{Action, MAX_TTL, Request},
};
use crate::{
    policy::budget::{Fault, Handle, Ledger, Refused, Unit, View, Wall, Window, rfc3339, tightest},
    store::now,
    upstream::builtin::{context::Context, tool::ToolError},
};

/// Seconds that a hold lasts, and lasts at most.
const HOLD: (u64, u64) = (120, 3_600);
/// Seconds that a run lasts.
const RUN: u64 = 3_600;

/// What an action did.
#[derive(Default)]
struct Acted {
    walls: Vec<View>,
    /// Tokens that `allowed` is about.
    asked: u64,
    refused: Option<Refused>,
    reservation: Option<Handle>,
    run: Option<Handle>,
}

/// Does what is asked. Synchronous: it must not be left half done.
pub(super) fn act(
    context: &Context,
    request: &Request,
    counted: Option<Counted>,
) -> Result<Map<String, Value>, ToolError> {
    let ledger = &context.services.ledger;
    let tenant = &context.caller.tenant;
    let own = context.caller.wallet.as_ref().map_or_else(|| Arc::from([]), |w| Arc::clone(w.walls()));
    let mut acted = Acted { asked: 1, ..Acted::default() };
    let walls = match request.action {
        Action::Check | Action::Count | Action::Record | Action::Reserve => {
            let mut walls = match &request.run {
                Some(run) => ledger.run(tenant, run)?,
                None => Vec::new(),
            };
            walls.extend(own.iter().cloned());
            lower(walls, request.monthly_limit.filter(|_| !request.action.writes()))
        }
        Action::Commit => {
            let tokens = request.tokens()?.saturating_add(request.completion_tokens);
            ledger.commit(tenant, reservation(request)?, tokens)?
        }
        Action::Release => ledger.release(tenant, reservation(request)?)?,
        Action::OpenRun => {
            let run = open(ledger, tenant, request)?;
            let mut walls = ledger.run(tenant, &run.0)?;
            walls.extend(own.iter().cloned());
            acted.run = Some(run);
            walls.into()
        }
        Action::CloseRun => {
            let run = request.run.as_deref().ok_or_else(|| request.needs("run"))?;
            acted.walls = ledger.close_run(tenant, run)?;
            own
        }
    };
    match request.action {
        Action::Check => acted.asked = request.tokens.unwrap_or(1),
        Action::Count => acted.asked = counted.map_or(0, |c| c.tokens),
        Action::Record => {
            ledger.record(&walls, request.tokens()?.saturating_add(request.completion_tokens));
        }
        Action::Reserve => {
            acted.asked = request.tokens()?;
            let time = request.time(HOLD.0, HOLD.1)?;
            match ledger.reserve(tenant, Arc::clone(&walls), acted.asked, time) {
                Ok(handle) => acted.reservation = Some(handle),
                Err(Fault::Refused(refused)) => acted.refused = Some(refused),
                Err(fault) => return Err(fault.into()),
            }
        }
        _ => {}
    }
    acted.walls.extend(ledger.views(&walls));
    Ok(acted.answer(request.action, counted))
}

fn reservation(request: &Request) -> Result<&str, ToolError> {
    request.reservation.as_deref().ok_or_else(|| request.needs("reservation"))
}

fn open(ledger: &Ledger, tenant: &Arc<str>, request: &Request) -> Result<Handle, ToolError> {
    let tokens = request.limit_tokens.map(|limit| (Unit::Tokens, limit));
    let calls = request.limit_calls.map(|limit| (Unit::Calls, limit));
    let limits: Vec<_> = tokens.into_iter().chain(calls).collect();
    if limits.is_empty() {
        return Err(request.needs("limit_tokens, limit_calls or both"));
    }
    Ok(ledger.open_run(tenant, &limits, request.time(RUN, MAX_TTL)?)?)
}

/// The walls with the limits of months lowered, for this one answer.
fn lower(mut walls: Vec<Wall>, monthly: Option<u64>) -> Arc<[Wall]> {
    if let Some(monthly) = monthly {
        let months = walls.iter_mut().filter(|w| w.account.window == Window::Month);
        months.filter(|w| w.account.unit == Unit::Tokens).for_each(|w| w.limit = w.limit.min(monthly));
    }
    walls.into()
}

impl Acted {
    fn answer(self, action: Action, counted: Option<Counted>) -> Map<String, Value> {
        let blocking = match &self.refused {
            Some(refused) => Some(&refused.wall),
            // What a reservation got is no longer there to be had, and is allowed all the same.
            None if self.reservation.is_some() => None,
            // What is done needs no leave.
            None if matches!(
                action,
                Action::Commit | Action::Release | Action::OpenRun | Action::CloseRun
            ) =>
            {
                None
            }
            None => self.walls.iter().find(|wall| !wall.fits(self.asked)),
        };
        let mut answer = Map::new();
        let mut put = |name: &str, value: Value| answer.insert(name.to_owned(), value);
        put("action", action.name().into());
        put("allowed", blocking.is_none().into());
        if let Some(wall) = blocking {
            put("reason", reason(wall, self.asked).into());
        }
        if let Some(counted) = counted {
            put("counted_tokens", counted.tokens.into());
            put("exact", counted.exact.into());
        }
        for (name, handle) in [("reservation", &self.reservation), ("run", &self.run)] {
            if let Some((id, ends)) = handle {
                put(name, (**id).into());
                put("expires_at", rfc3339(*ends).into());
            }
        }
        put("walls", self.walls.iter().map(shown).collect());
        let effective = blocking.or_else(|| tightest(&self.walls));
        put("effective", effective.map_or(Value::Null, |wall| {
            json!({"scope": wall.scope.as_str(), "window": wall.window.as_str(), "remaining": wall.remaining})
        }));
        put("warn", self.walls.iter().any(|wall| wall.warn).into());
        let over = self.walls.iter().map(|wall| wall.over_by).max().unwrap_or(0);
        if over > 0 {
            put("over_by", over.into());
        }
        answer
    }
}

fn reason(wall: &View, asked: u64) -> String {
    let until = wall.resets_at.map(|at| format!("; it begins anew at {}", rfc3339(at)));
    let (window, scope, unit) = (wall.window.as_str(), wall.scope.as_str(), wall.unit.as_str());
    let asked = if wall.unit == Unit::Calls { 1 } else { asked };
    format!(
        "the {window} budget of this {scope} has {} of {} {unit} left, {asked} were asked for{}",
        wall.remaining,
        wall.limit,
        until.unwrap_or_default()
    )
}

fn shown(wall: &View) -> Value {
    json!({
        "scope": wall.scope.as_str(),
        "window": wall.window.as_str(),
        "unit": wall.unit.as_str(),
        "limit": wall.limit,
        "used": wall.used,
        "held": wall.held,
        "remaining": wall.remaining,
        "over_by": wall.over_by,
        "resets_at": wall.resets_at.map(rfc3339),
    })
}

impl From<Fault> for ToolError {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::Refused(refused) => {
                let left = refused.wall.resets_at.map(|at| at.saturating_sub(now()).max(0));
                let error = Self::new("budget_exhausted", reason(&refused.wall, refused.requested));
                Self {
                    retry_after_ms: left.map(i64::unsigned_abs),
                    ..error.with_details(shown(&refused.wall))
                }
            }
            Fault::NoHold => Self::new(
                "reservation_not_found",
                "this reservation is unknown, settled or expired; use record for what was spent",
            ),
            Fault::NoRun => Self::new("run_not_found", "this run is unknown or expired; open another"),
            Fault::TooMany(most) => Self::new(
                "too_many_items",
                format!("this tenant has {most} of these already; settle or close some first"),
            ),
        }
    }
}
