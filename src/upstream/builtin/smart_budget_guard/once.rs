//! Actions under an idempotency key. Owns the remembered answers: in the storage, and in memory while it is not certain
//! that the storage has them.
//!
//! Invariant: an action under a key is done once, for as long as the process lives or the answer is kept. The look-up,
//! the action and the keeping are one job of the storage's one writer, and what a failed commit undoes is the keeping
//! alone: the next call finds the answer in memory and keeps that.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use rusqlite::{Connection, OptionalExtension, params};
use serde_json::{Map, Value};

use super::{act, read::Request};
use crate::{
    store::{self, share},
    upstream::builtin::{context::Context, tool::ToolError},
};

/// How long an answer is kept under its key, in milliseconds.
const KEPT: i64 = 24 * 3_600_000;
/// Answers that may be uncertain at a time; with more nothing is done under a key.
const MOST: usize = 10_000;

type Answer = Map<String, Value>;
/// Answers by tenant and key, with their end.
type Answers = HashMap<(Arc<str>, String), (Answer, i64)>;

/// Answers that the storage may not have.
#[derive(Debug, Default)]
pub(in super::super) struct Unconfirmed(Mutex<Answers>);

impl Unconfirmed {
    fn lock(&self) -> MutexGuard<'_, Answers> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn has_room(&self, now: i64) -> bool {
        let mut answers = self.lock();
        if answers.len() >= MOST {
            answers.retain(|_, (_, ends)| *ends > now);
        }
        answers.len() < MOST
    }
}

/// Acts, unless the tenant has the answer already.
pub(super) async fn once(context: Context, key: String, request: Request) -> Result<Answer, ToolError> {
    let services = Arc::clone(&context.services);
    // Another key of the tenant, or another action, is another request.
    let wallet = context.caller.wallet.as_ref();
    let payer = wallet.and_then(|w| w.walls().first().map(|w| w.account.name.clone()));
    let key = format!("{}\n{}\n{key}", payer.as_deref().unwrap_or_default(), request.action.name());
    let name = (Arc::clone(&context.caller.tenant), key);
    if !services.unconfirmed.has_room(store::now()) {
        let message = "the storage has failed too often to act under an idempotency_key; try again later";
        return Err(ToolError { retryable: true, ..ToolError::new("unavailable", message) });
    }
    // A task of its own: a caller that leaves does not leave the answer uncertain.
    let confirmed = tokio::spawn(async move {
        let whose = name.clone();
        let acted = services.store.write(move |c| job(c, &context, &request, &whose)).await;
        if acted.is_ok() {
            services.unconfirmed.lock().remove(&name);
        }
        acted
    });
    match confirmed.await {
        Ok(acted) => acted?,
        Err(stopped) => std::panic::resume_unwind(stopped.into_panic()),
    }
}

fn job(
    c: &Connection,
    context: &Context,
    request: &Request,
    name: &(Arc<str>, String),
) -> rusqlite::Result<Result<Answer, ToolError>> {
    let (tenant, key) = name;
    if let Some(known) = known(c, tenant, key)? {
        return Ok(Ok(known));
    }
    // Before anything is done: what cannot be kept could be done twice.
    share::open(c, tenant)?;
    share::fit_lasting(c, tenant)?;
    let now = store::now();
    let unconfirmed = &context.services.unconfirmed;
    let uncertain = unconfirmed.lock().get(name).filter(|(_, ends)| *ends > now).cloned();
    let (answer, ends) = match uncertain {
        Some(uncertain) => uncertain,
        None => match act::act(context, request, None) {
            Ok(answer) => (answer, now + KEPT),
            Err(error) => return Ok(Err(error)),
        },
    };
    unconfirmed.lock().insert(name.clone(), (answer.clone(), ends));
    keep(c, tenant, key, &answer, ends)?;
    Ok(Ok(answer))
}

fn known(c: &Connection, tenant: &str, key: &str) -> rusqlite::Result<Option<Answer>> {
    let sql = "SELECT answer FROM answers WHERE tenant = ?1 AND key = ?2 AND expires > ?3";
    let mut statement = c.prepare_cached(sql)?;
    let found = statement.query_row(params![tenant, key, store::now()], |row| row.get::<_, String>(0));
    Ok(found.optional()?.and_then(|text| serde_json::from_str(&text).ok()))
}

fn keep(c: &Connection, tenant: &str, key: &str, answer: &Answer, ends: i64) -> rusqlite::Result<()> {
    let text = serde_json::to_string(answer).expect("a map with string keys is JSON");
    let sql = "INSERT INTO answers (tenant, key, answer, expires) VALUES (?1, ?2, ?3, ?4)
        ON CONFLICT (tenant, key) DO UPDATE SET answer = excluded.answer, expires = excluded.expires";
    c.prepare_cached(sql)?.execute(params![tenant, key, text, ends]).map(drop)
}
