//! Budgets: how much may be used in a day, a month or a run. Owns the ledger, which every call draws on before it
//! goes on and settles when it has ended.
//!
//! Invariant: nothing here waits for the storage. Levels live in memory under one lock, taken for moments; what was
//! used is written behind. Holds and runs are in memory alone, so the end of the process frees them.

mod book;
mod calendar;
mod estimate;
mod handles;
mod rows;
mod wall;

#[cfg(test)]
mod tests;

use std::{
    collections::HashMap,
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use crate::store::{self, Store};
use book::Book;
pub use book::Refused;
pub use calendar::{Window, rfc3339};
pub use estimate::Estimates;
pub use handles::Fault;
pub use wall::{Account, Scope, Unit, View, Wall, tightest};

/// Longer than any window, in milliseconds.
const LONGEST: i64 = 32 * 86_400_000;

type Clock = Box<dyn Fn() -> i64 + Send + Sync>;

/// All budgets of a process.
pub struct Ledger {
    book: Arc<Mutex<Book>>,
    /// What results of tools weigh as a rule.
    pub estimates: Estimates,
    store: Option<Store>,
    clock: Clock,
}

impl fmt::Debug for Ledger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ledger").field("store", &self.store).finish_non_exhaustive()
    }
}

/// A handle and when it ends, in milliseconds since 1970.
pub type Handle = (Arc<str>, i64);

impl Ledger {
    /// Reads what the storage knows of the current windows. Blocks for as long.
    ///
    /// # Errors
    /// A sentence for the user.
    pub fn open(store: Store) -> Result<Self, String> {
        Self::with_clock(Some(store), Box::new(store::now))
    }

    fn with_clock(store: Option<Store>, clock: Clock) -> Result<Self, String> {
        let mut book = Book::default();
        if let Some(store) = store.clone() {
            let now = clock();
            let read = move || {
                store.read_blocking(move |c| {
                    rows::load(c, now - LONGEST, |account, begins, used| {
                        book.load(account, begins, used, now)
                    })
                    .map(|()| book)
                })
            };
            // The caller may be a thread of the runtime, which may not block on the storage itself.
            let loaded = std::thread::spawn(read).join();
            book = loaded
                .map_err(|_| "the ledger cannot be read".to_owned())?
                .map_err(|e| format!("the ledger cannot be read: {e}"))?;
        }
        Ok(Self { book: Arc::new(Mutex::new(book)), estimates: Estimates::default(), store, clock })
    }

    /// Where walls stand.
    pub fn views(&self, walls: &[Wall]) -> Vec<View> {
        self.book().views(walls, self.now())
    }

    /// Counts what was used elsewhere, whether it fits or not.
    pub fn record(&self, walls: &[Wall], tokens: u64) {
        self.book().record(walls, tokens, self.now());
        self.save();
    }

    /// Holds `tokens` on every wall for a time, under a handle; on none if one refuses.
    ///
    /// # Errors
    /// [`Fault::Refused`] or [`Fault::TooMany`].
    pub fn reserve(
        &self,
        tenant: &Arc<str>,
        walls: Arc<[Wall]>,
        tokens: u64,
        time: Duration,
    ) -> Result<Handle, Fault> {
        let (id, times) = self.handle("bh_", time);
        self.book().reserve(&id, tenant, walls, tokens, times)?;
        Ok((id, times.1))
    }

    /// Turns a hold into use: less frees the rest, more counts too. The walls it was on.
    ///
    /// # Errors
    /// [`Fault::NoHold`].
    pub fn commit(&self, tenant: &str, id: &str, tokens: u64) -> Result<Arc<[Wall]>, Fault> {
        let walls = self.book().end_hold(id, tenant, Some(tokens), self.now())?;
        self.save();
        Ok(walls)
    }

    /// Frees a hold. The walls it was on.
    ///
    /// # Errors
    /// [`Fault::NoHold`].
    pub fn release(&self, tenant: &str, id: &str) -> Result<Arc<[Wall]>, Fault> {
        self.book().end_hold(id, tenant, None, self.now())
    }

    /// Opens a run: a budget below the others, for whoever of the tenant has its handle.
    ///
    /// # Errors
    /// [`Fault::TooMany`].
    pub fn open_run(
        &self,
        tenant: &Arc<str>,
        limits: &[(Unit, u64)],
        time: Duration,
    ) -> Result<Handle, Fault> {
        let (id, times) = self.handle("br_", time);
        self.book().open_run(&id, tenant, limits, times)?;
        Ok((id, times.1))
    }

    /// The walls of a run.
    ///
    /// # Errors
    /// [`Fault::NoRun`].
    pub fn run(&self, tenant: &str, id: &str) -> Result<Vec<Wall>, Fault> {
        self.book().run(id, tenant, self.now()).map(<[Wall]>::to_vec)
    }

    /// Closes a run: where its walls stood.
    ///
    /// # Errors
    /// [`Fault::NoRun`].
    pub fn close_run(&self, tenant: &str, id: &str) -> Result<Vec<View>, Fault> {
        self.book().close_run(id, tenant, self.now())
    }

    /// Milliseconds since 1970.
    #[must_use]
    pub fn now(&self) -> i64 {
        (self.clock)()
    }

    fn handle(&self, kind: &str, time: Duration) -> (Arc<str>, (i64, i64)) {
        let now = self.now();
        let ends = now.saturating_add(i64::try_from(time.as_millis()).unwrap_or(i64::MAX));
        (format!("{kind}{}", ulid::Ulid::generate()).into(), (now, ends))
    }

    /// Queues one write of everything that is not saved, unless one waits already. What fails goes with the next.
    fn save(&self) {
        let Some(store) = &self.store else { return };
        if !self.book().begin_saving() {
            return;
        }
        // The book alone: a job that held the storage could be the last to let go of it, and wait for itself.
        let (book, again) = (Arc::clone(&self.book), Arc::clone(&self.book));
        let taken = Arc::new(Mutex::new(HashMap::new()));
        let failed = Arc::clone(&taken);
        let job = move |connection: &_| {
            let mut taken = lock(&taken);
            *taken = lock(&book).take_unsaved();
            rows::add(connection, &taken)
        };
        store.write_later_or(job, move || {
            let unsaved = std::mem::take(&mut *lock(&failed));
            lock(&again).keep_unsaved(unsaved);
        });
    }

    fn book(&self) -> MutexGuard<'_, Book> {
        lock(&self.book)
    }
}

fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The walls that a caller's calls draw on. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Wallet {
    ledger: Arc<Ledger>,
    walls: Arc<[Wall]>,
}

impl Wallet {
    /// A wallet with these walls.
    #[must_use]
    pub fn new(ledger: Arc<Ledger>, walls: Arc<[Wall]>) -> Self {
        Self { ledger, walls }
    }

    /// Whose walls these are.
    #[must_use]
    pub fn ledger(&self) -> &Arc<Ledger> {
        &self.ledger
    }

    /// The walls, those that limit the most callers last.
    #[must_use]
    pub fn walls(&self) -> &Arc<[Wall]> {
        &self.walls
    }

    /// Holds `tokens` on every wall until the call has ended.
    ///
    /// # Errors
    /// The wall that refused; then nothing is held.
    pub fn hold(&self, tokens: u64) -> Result<Held, Refused> {
        self.ledger.book().hold(&self.walls, tokens, self.ledger.now())?;
        Ok(Held { wallet: self.clone(), tokens, open: true })
    }

    /// Tokens left on the tightest wall for a call that itself holds `own` of them.
    #[must_use]
    pub fn remaining(&self, own: u64) -> Option<u64> {
        let views = self.ledger.views(&self.walls);
        let tokens = views.iter().filter(|v| v.unit == Unit::Tokens);
        tokens.map(|v| v.remaining.saturating_add(own).saturating_sub(v.over_by)).min()
    }
}

/// What one call holds. Dropping it frees it.
#[derive(Debug)]
pub struct Held {
    wallet: Wallet,
    tokens: u64,
    open: bool,
}

impl Held {
    /// Tokens held.
    #[must_use]
    pub fn tokens(&self) -> u64 {
        self.tokens
    }

    /// Where it is held.
    #[must_use]
    pub fn ledger(&self) -> &Arc<Ledger> {
        &self.wallet.ledger
    }

    /// Holds `tokens` in all from now on, if they are more.
    ///
    /// # Errors
    /// The wall that refused; then what was held still is.
    pub fn raise(&mut self, tokens: u64) -> Result<(), Refused> {
        if tokens > self.tokens {
            let ledger = &self.wallet.ledger;
            ledger.book().raise(&self.wallet.walls, self.tokens, tokens, ledger.now())?;
            self.tokens = tokens;
        }
        Ok(())
    }

    /// Counts what the call used in the end, less or more than was held.
    pub fn commit(mut self, tokens: u64) {
        self.end(Some(tokens));
        self.wallet.ledger.save();
    }

    fn end(&mut self, used: Option<u64>) {
        if std::mem::take(&mut self.open) {
            let ledger = &self.wallet.ledger;
            ledger.book().settle(&self.wallet.walls, self.tokens, used, ledger.now());
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.end(None);
    }
}
