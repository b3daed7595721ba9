//! The levels of all accounts, the holds and the runs. Pure: the caller brings the time.
//!
//! Invariants: a reservation takes from every wall or from none, and never makes `used + held` pass a limit. A
//! hold that lives over the end of a window counts in the next one; what is used counts when it is settled.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
};

use super::{
    calendar::Window,
    handles::{Fault, Handles, Hold, Run, known, room},
    wall::{Account, Scope, Unit, View, Wall},
};

/// Levels stay below this, so that they fit the storage's integers.
const TOP: u64 = i64::MAX as u64;

/// Where an account stands.
#[derive(Debug, Clone, Copy)]
struct Level {
    begins: i64,
    ends: i64,
    used: u64,
    held: u64,
}

impl Level {
    fn new(window: Window, now: i64) -> Self {
        let (begins, ends) = window.bounds(now);
        Self { begins, ends, used: 0, held: 0 }
    }

    /// Begins anew when the window is over. A clock that was set back begins nothing.
    fn roll(&mut self, window: Window, now: i64) {
        if now >= self.ends {
            *self = Self { held: self.held, ..Self::new(window, now) };
        }
    }
}

/// Why tokens may not be had.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    /// The wall that refused.
    pub wall: View,
    /// What was asked for, in its unit.
    pub requested: u64,
}

#[derive(Debug, Default)]
pub(super) struct Book {
    levels: HashMap<Account, Level>,
    tenants: HashMap<Arc<str>, Handles>,
    /// When holds and runs end, soonest first: time, tenant, handle.
    ends: BTreeSet<(i64, Arc<str>, Arc<str>)>,
    unsaved: HashMap<(Account, i64), u64>,
    /// Whether a write is queued that has not begun.
    saving: bool,
}

impl Book {
    /// Takes over what the storage knows.
    pub(super) fn load(&mut self, account: Account, begins: i64, used: u64, now: i64) {
        let level = Level::new(account.window, now);
        if level.begins == begins {
            self.levels.insert(account, Level { used: used.min(TOP), ..level });
        }
    }

    /// Whether a write must be queued for what is not saved: none waits, and there is something.
    pub(super) fn begin_saving(&mut self) -> bool {
        let begins = !self.saving && !self.unsaved.is_empty();
        self.saving |= begins;
        begins
    }

    /// What was used since it was last asked for, by account and begin of its window.
    pub(super) fn take_unsaved(&mut self) -> HashMap<(Account, i64), u64> {
        self.saving = false;
        std::mem::take(&mut self.unsaved)
    }

    /// Gives back what could not be saved, also if nothing was taken.
    pub(super) fn keep_unsaved(&mut self, failed: HashMap<(Account, i64), u64>) {
        self.saving = false;
        for (at, used) in failed {
            *self.unsaved.entry(at).or_default() += used;
        }
    }

    /// Where the walls stand.
    pub(super) fn views(&mut self, walls: &[Wall], now: i64) -> Vec<View> {
        self.expire(now);
        walls.iter().map(|wall| self.view(wall, now)).collect()
    }

    /// Holds `tokens` on every wall, or on none.
    pub(super) fn hold(&mut self, walls: &[Wall], tokens: u64, now: i64) -> Result<(), Refused> {
        self.expire(now);
        for wall in walls {
            let view = self.view(wall, now);
            if !view.fits(tokens) {
                return Err(Refused { requested: wall.account.unit.of(tokens), wall: view });
            }
        }
        self.take(walls, tokens, now);
        Ok(())
    }

    /// Holds `to` tokens in the place of `from`, or goes on to hold these.
    pub(super) fn raise(&mut self, walls: &[Wall], from: u64, to: u64, now: i64) -> Result<(), Refused> {
        self.settle(walls, from, None, now);
        let raised = self.hold(walls, to, now);
        if raised.is_err() {
            self.take(walls, from, now);
        }
        raised
    }

    fn take(&mut self, walls: &[Wall], tokens: u64, now: i64) {
        for wall in walls {
            if let Some(level) = self.level(&wall.account, now) {
                level.held += wall.account.unit.of(tokens);
            }
        }
    }

    /// Ends a hold: `used` tokens count from now on, the rest is free; `None` frees it all.
    pub(super) fn settle(&mut self, walls: &[Wall], held: u64, used: Option<u64>, now: i64) {
        for wall in walls {
            if let Some(level) = self.level(&wall.account, now) {
                level.held = level.held.saturating_sub(wall.account.unit.of(held));
            }
        }
        if let Some(used) = used {
            self.record(walls, used, now);
        }
    }

    /// Counts what was used, whether it fits or not.
    pub(super) fn record(&mut self, walls: &[Wall], tokens: u64, now: i64) {
        for Wall { account, .. } in walls {
            let Some(level) = self.level(account, now) else { continue };
            let added = account.unit.of(tokens).min(TOP - level.used);
            level.used += added;
            let begins = level.begins;
            if account.scope != Scope::Run && added > 0 {
                *self.unsaved.entry((account.clone(), begins)).or_default() += added;
            }
        }
    }

    /// [`Book::hold`] under a handle that ends by itself.
    pub(super) fn reserve(
        &mut self,
        id: &Arc<str>,
        tenant: &Arc<str>,
        walls: Arc<[Wall]>,
        tokens: u64,
        (now, ends): (i64, i64),
    ) -> Result<(), Fault> {
        self.expire(now);
        room(self.of(tenant).holds.len())?;
        self.hold(&walls, tokens, now).map_err(Fault::Refused)?;
        self.ends.insert((ends, Arc::clone(tenant), Arc::clone(id)));
        self.of(tenant).holds.insert(Arc::clone(id), Hold { walls, tokens, ends });
        Ok(())
    }

    /// Ends a hold by its handle, see [`Book::settle`]; the walls it was on.
    pub(super) fn end_hold(
        &mut self,
        id: &str,
        tenant: &str,
        used: Option<u64>,
        now: i64,
    ) -> Result<Arc<[Wall]>, Fault> {
        self.expire(now);
        let (name, handles) = known(&mut self.tenants, tenant).ok_or(Fault::NoHold)?;
        let (id, hold) = handles.holds.remove_entry(id).ok_or(Fault::NoHold)?;
        self.ends.remove(&(hold.ends, name, id));
        self.settle(&hold.walls, hold.tokens, used, now);
        Ok(hold.walls)
    }

    /// Opens a run with its limits.
    pub(super) fn open_run(
        &mut self,
        id: &Arc<str>,
        tenant: &Arc<str>,
        limits: &[(Unit, u64)],
        (now, ends): (i64, i64),
    ) -> Result<(), Fault> {
        self.expire(now);
        room(self.of(tenant).runs.len())?;
        let wall = |&(unit, limit): &(Unit, u64)| Wall {
            account: Account { scope: Scope::Run, name: Arc::clone(id), window: Window::Run, unit },
            limit,
        };
        let walls: Vec<Wall> = limits.iter().map(wall).collect();
        for wall in &walls {
            self.levels.insert(wall.account.clone(), Level::new(Window::Run, now));
        }
        self.ends.insert((ends, Arc::clone(tenant), Arc::clone(id)));
        self.of(tenant).runs.insert(Arc::clone(id), Run { walls, ends });
        Ok(())
    }

    /// The walls of a run.
    pub(super) fn run(&mut self, id: &str, tenant: &str, now: i64) -> Result<&[Wall], Fault> {
        self.expire(now);
        let run = self.tenants.get(tenant).and_then(|handles| handles.runs.get(id));
        run.map(|run| run.walls.as_slice()).ok_or(Fault::NoRun)
    }

    /// Closes a run; where its walls stood.
    pub(super) fn close_run(&mut self, id: &str, tenant: &str, now: i64) -> Result<Vec<View>, Fault> {
        let walls = self.run(id, tenant, now)?.to_vec();
        let views = self.views(&walls, now);
        self.forget_run(tenant, id);
        Ok(views)
    }

    fn forget_run(&mut self, tenant: &str, id: &str) {
        let Some((name, handles)) = known(&mut self.tenants, tenant) else { return };
        let Some((id, run)) = handles.runs.remove_entry(id) else { return };
        self.ends.remove(&(run.ends, name, id));
        for wall in &run.walls {
            self.levels.remove(&wall.account);
        }
    }

    /// Frees holds and forgets runs whose time is over.
    fn expire(&mut self, now: i64) {
        while self.ends.first().is_some_and(|(ends, ..)| *ends <= now) {
            let Some((_, tenant, id)) = self.ends.pop_first() else { return };
            if let Some(hold) = self.of(&tenant).holds.remove(&id) {
                self.settle(&hold.walls, hold.tokens, None, now);
            }
            self.forget_run(&tenant, &id);
        }
    }

    fn of(&mut self, tenant: &Arc<str>) -> &mut Handles {
        self.tenants.entry(Arc::clone(tenant)).or_default()
    }

    fn view(&mut self, wall: &Wall, now: i64) -> View {
        let level = self.level(&wall.account, now).copied();
        let resets_at = level.map(|l| l.ends).filter(|_| wall.account.window != Window::Run);
        let (used, held) = level.map_or((0, 0), |l| (l.used, l.held));
        View::new(wall, used, held, resets_at)
    }

    /// The level of an account in its current window; `None` for a run that is closed.
    fn level(&mut self, account: &Account, now: i64) -> Option<&mut Level> {
        if account.scope != Scope::Run && !self.levels.contains_key(account) {
            self.levels.insert(account.clone(), Level::new(account.window, now));
        }
        let level = self.levels.get_mut(account)?;
        level.roll(account.window, now);
        Some(level)
    }
}
