//! The ledger under many threads, against a plain model, over the ends of windows and over a restart.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use proptest::prelude::{Strategy, any, prop_oneof, proptest};

use super::*;

const SECOND: i64 = 1_000;
const HOUR: i64 = 3_600 * SECOND;
const DAY: i64 = 24 * HOUR;
/// 2026-01-01T00:00:00Z
const NEW_YEAR: i64 = 1_767_225_600_000;

fn wall(name: &str, window: Window, limit: u64) -> Wall {
    let account = Account { scope: Scope::Key, name: name.into(), window, unit: Unit::Tokens };
    Wall { account, limit }
}

fn wallet(ledger: &Arc<Ledger>, walls: &[Wall]) -> Wallet {
    Wallet::new(Arc::clone(ledger), walls.into())
}

/// A ledger whose clock the test turns.
fn clocked(store: Option<Store>) -> (Arc<Ledger>, Arc<AtomicI64>) {
    let time = Arc::new(AtomicI64::new(NEW_YEAR));
    let theirs = Arc::clone(&time);
    let clock = Box::new(move || theirs.load(Ordering::SeqCst));
    (Arc::new(Ledger::with_clock(store, clock).unwrap()), time)
}

fn levels(ledger: &Ledger, walls: &[Wall]) -> Vec<(u64, u64, u64)> {
    ledger.views(walls).iter().map(|v| (v.used, v.held, v.remaining)).collect()
}

fn adds_up(view: &View) -> bool {
    view.used + view.held + view.remaining == view.limit
}

#[test]
fn sixty_four_reservers_never_pass_a_wall() {
    let (ledger, _) = clocked(None);
    let walls = [wall("ada", Window::Month, 100_000), wall("ada", Window::Day, 60_000)];
    let wallet = wallet(&ledger, &walls);
    let (committed, refused) = (AtomicU64::new(0), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for seed in 0..64 {
            let (wallet, committed, refused) = (&wallet, &committed, &refused);
            scope.spawn(move || {
                let mut random = fastrand::Rng::with_seed(seed);
                for _ in 0..200 {
                    let Ok(held) = wallet.hold(random.u64(1..500)) else {
                        refused.fetch_add(1, Ordering::Relaxed);
                        continue;
                    };
                    let views = wallet.ledger().views(wallet.walls());
                    assert!(views.iter().all(|v| v.over_by == 0 && adds_up(v)), "{views:?}");
                    if random.bool() {
                        let used = random.u64(0..=held.tokens());
                        committed.fetch_add(used, Ordering::Relaxed);
                        held.commit(used);
                    }
                }
            });
        }
    });
    let used = committed.into_inner();
    assert_eq!(levels(&ledger, &walls), [(used, 0, 100_000 - used), (used, 0, 60_000 - used)]);
    assert!(refused.into_inner() > 0, "the walls were never reached");
}

#[test]
fn a_refusal_by_one_wall_takes_from_none() {
    let (ledger, _) = clocked(None);
    let walls = [wall("ada", Window::Month, 100), wall("ada", Window::Day, 10)];
    let refused = wallet(&ledger, &walls).hold(11).unwrap_err();
    assert_eq!((refused.wall.window, refused.requested), (Window::Day, 11));
    assert_eq!(levels(&ledger, &walls), [(0, 0, 100), (0, 0, 10)]);
}

#[test]
fn more_than_was_held_counts_and_refuses_what_comes_next() {
    let (ledger, _) = clocked(None);
    let walls = [wall("ada", Window::Day, 100)];
    let wallet = wallet(&ledger, &walls);
    let (one, two) = (wallet.hold(40).unwrap(), wallet.hold(40).unwrap());
    one.commit(90);
    let view = &ledger.views(&walls)[0];
    assert_eq!((view.used, view.held, view.remaining, view.over_by), (90, 10, 0, 30));
    assert!(adds_up(view) && view.warn);
    drop(two);
    assert_eq!(levels(&ledger, &walls), [(90, 0, 10)]);
    ledger.record(&walls, 25);
    let view = &ledger.views(&walls)[0];
    assert_eq!((view.used, view.remaining, view.over_by), (100, 0, 15));
    assert!(wallet.hold(0).is_err() && wallet.hold(1).is_err());
}

#[test]
fn a_hold_grows_as_far_as_there_is_room() {
    let (ledger, _) = clocked(None);
    let id = ledger.open_run(&"ada".into(), &[(Unit::Calls, 2)], Duration::from_secs(60)).unwrap().0;
    let mut walls = ledger.run("ada", &id).unwrap();
    walls.push(wall("ada", Window::Day, 100));
    let wallet = wallet(&ledger, &walls);
    let (mut one, other) = (wallet.hold(10).unwrap(), wallet.hold(30).unwrap());
    one.raise(60).unwrap();
    one.raise(5).unwrap();
    assert_eq!((one.tokens(), levels(&ledger, &walls)), (60, vec![(0, 2, 0), (0, 90, 10)]));
    let refused = one.raise(71).unwrap_err();
    assert_eq!((refused.requested, refused.wall.remaining, refused.wall.held), (71, 70, 30));
    assert_eq!(levels(&ledger, &walls)[1], (0, 90, 10), "what was held still is");
    drop(other);
    one.raise(100).unwrap();
    one.commit(100);
    assert_eq!(levels(&ledger, &walls), [(1, 0, 1), (100, 0, 0)]);
}

#[test]
fn warns_at_four_fifths() {
    let (ledger, _) = clocked(None);
    let walls = [wall("ada", Window::Day, 100)];
    ledger.record(&walls, 79);
    assert!(!ledger.views(&walls)[0].warn);
    let held = wallet(&ledger, &walls).hold(1).unwrap();
    assert!(ledger.views(&walls)[0].warn);
    drop(held);
    assert!(!ledger.views(&walls)[0].warn);
}

#[test]
fn a_month_ends_and_what_is_held_goes_on() {
    let (ledger, time) = clocked(None);
    let walls = [wall("ada", Window::Month, 100)];
    let wallet = wallet(&ledger, &walls);
    time.store(NEW_YEAR + 31 * DAY - 1, Ordering::SeqCst);
    ledger.record(&walls, 70);
    let held = wallet.hold(30).unwrap();
    let refused = wallet.hold(1).unwrap_err();
    assert_eq!(refused.wall.resets_at, Some(NEW_YEAR + 31 * DAY));
    time.fetch_add(1, Ordering::SeqCst);
    assert_eq!(levels(&ledger, &walls), [(0, 30, 70)]);
    held.commit(20);
    assert_eq!(levels(&ledger, &walls), [(20, 0, 80)]);
    // A clock that is set back by a little does not bring the old month back.
    time.fetch_sub(5, Ordering::SeqCst);
    assert_eq!(levels(&ledger, &walls), [(20, 0, 80)]);
}

#[test]
fn a_hold_under_a_handle_ends_by_itself() {
    let (ledger, time) = clocked(None);
    let walls: Arc<[Wall]> = [wall("ada", Window::Day, 100)].into();
    let (ada, two_minutes) = (Arc::from("ada"), Duration::from_secs(120));
    let (id, ends) = ledger.reserve(&ada, Arc::clone(&walls), 60, two_minutes).unwrap();
    assert_eq!(ends, NEW_YEAR + 120 * SECOND);
    let second = ledger.reserve(&ada, Arc::clone(&walls), 60, two_minutes);
    assert!(matches!(second, Err(Fault::Refused(_))));
    assert_eq!(ledger.commit("bob", &id, 1), Err(Fault::NoHold));
    time.fetch_add(120 * SECOND - 1, Ordering::SeqCst);
    assert_eq!(levels(&ledger, &walls), [(0, 60, 40)]);
    time.fetch_add(1, Ordering::SeqCst);
    assert_eq!(levels(&ledger, &walls), [(0, 0, 100)]);
    assert_eq!(ledger.commit("ada", &id, 1), Err(Fault::NoHold));
    let (id, _) = ledger.reserve(&ada, Arc::clone(&walls), 60, two_minutes).unwrap();
    assert!(ledger.release("ada", &id).is_ok());
    assert_eq!(ledger.release("ada", &id), Err(Fault::NoHold));
    assert_eq!(levels(&ledger, &walls), [(0, 0, 100)]);
}

#[test]
fn a_run_is_a_wall_below_the_others_and_ends() {
    let (ledger, time) = clocked(None);
    let (ada, hour) = (Arc::from("ada"), Duration::from_secs(3_600));
    let (id, _) = ledger.open_run(&ada, &[(Unit::Tokens, 50), (Unit::Calls, 2)], hour).unwrap();
    assert_eq!(ledger.run("bob", &id), Err(Fault::NoRun));
    let mut walls = ledger.run("ada", &id).unwrap();
    walls.push(wall("ada", Window::Day, 1_000));
    let wallet = wallet(&ledger, &walls);
    wallet.hold(20).unwrap().commit(10);
    assert_eq!(levels(&ledger, &walls), [(10, 0, 40), (1, 0, 1), (10, 0, 990)]);
    assert_eq!(wallet.hold(41).unwrap_err().wall.scope, Scope::Run);
    let held = wallet.hold(1).unwrap();
    assert_eq!(wallet.hold(1).unwrap_err().wall.unit, Unit::Calls);
    let totals = ledger.close_run("ada", &id).unwrap();
    assert_eq!((totals[0].used, totals[1].held), (10, 1));
    // What is settled later counts where it still can.
    held.commit(5);
    assert_eq!(levels(&ledger, &walls[2..]), [(15, 0, 985)]);
    assert_eq!(ledger.close_run("ada", &id), Err(Fault::NoRun));
    let (id, _) = ledger.open_run(&ada, &[(Unit::Tokens, 50)], hour).unwrap();
    time.fetch_add(HOUR, Ordering::SeqCst);
    assert_eq!(ledger.run("ada", &id), Err(Fault::NoRun));
}

#[test]
fn a_tenant_has_a_limited_number_of_handles() {
    let (ledger, _) = clocked(None);
    let (ada, bob): (Arc<str>, Arc<str>) = ("ada".into(), "bob".into());
    let open = |tenant| ledger.open_run(tenant, &[(Unit::Tokens, 1)], Duration::from_secs(10));
    (0..1_000).for_each(|_| drop(open(&ada).unwrap()));
    assert_eq!(open(&ada), Err(Fault::TooMany(1_000)));
    assert!(open(&bob).is_ok());
}

#[test]
fn what_was_used_is_there_after_a_restart_and_what_was_held_is_free() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("smartgate.db");
    let walls = [wall("ada", Window::Month, 1_000), wall("ada", Window::Day, 500)];
    let open = || Store::open(Some(&path), 64 << 20).unwrap();
    let store = open();
    let (ledger, time) = clocked(Some(store.clone()));
    for n in 1..=20 {
        wallet(&ledger, &walls).hold(30).unwrap().commit(n);
    }
    let held = wallet(&ledger, &walls).hold(100).unwrap();
    // Writes are done in order.
    store.write_blocking(|_| Ok(())).unwrap();
    let again = clocked(Some(open())).0;
    assert_eq!(levels(&again, &walls), [(210, 0, 790), (210, 0, 290)]);
    drop(held);
    // Both processes add to what is there.
    again.record(&walls, 1);
    ledger.record(&walls, 2);
    again.store.as_ref().unwrap().write_blocking(|_| Ok(())).unwrap();
    store.write_blocking(|_| Ok(())).unwrap();
    assert_eq!(levels(&clocked(Some(open())).0, &walls), [(213, 0, 787), (213, 0, 287)]);
    // Another day: the level of the month is taken up, that of the day is not.
    time.fetch_add(DAY, Ordering::SeqCst);
    let clock = Box::new(move || time.load(Ordering::SeqCst));
    let tomorrow = Arc::new(Ledger::with_clock(Some(open()), clock).unwrap());
    assert_eq!(levels(&tomorrow, &walls), [(213, 0, 787), (0, 0, 500)]);
}

#[test]
fn what_cannot_be_saved_goes_with_the_next_write() {
    let store = Store::open(None, 64 << 20).unwrap();
    let (ledger, _) = clocked(Some(store.clone()));
    let walls = [wall("ada", Window::Month, 1_000)];
    store.write_blocking(|c| c.execute_batch("ALTER TABLE ledger RENAME TO away")).unwrap();
    ledger.record(&walls, 5);
    store.write_blocking(|_| Ok(())).unwrap();
    store.write_blocking(|c| c.execute_batch("ALTER TABLE away RENAME TO ledger")).unwrap();
    ledger.record(&walls, 7);
    store.write_blocking(|_| Ok(())).unwrap();
    let used: i64 =
        store.read_blocking(|c| c.query_row("SELECT used FROM ledger", [], |r| r.get(0))).unwrap();
    assert_eq!(used, 12);
}

#[test]
fn what_a_failed_commit_undoes_is_saved_again() {
    let store = Store::open(None, 64 << 20).unwrap();
    let (ledger, _) = clocked(Some(store.clone()));
    let walls = [wall("ada", Window::Month, 1_000)];
    // A row that has no parent when the transaction ends.
    let poison = "CREATE TABLE parents (id INTEGER PRIMARY KEY);
        CREATE TABLE children (parent REFERENCES parents DEFERRABLE INITIALLY DEFERRED);
        CREATE TRIGGER poison AFTER INSERT ON ledger BEGIN INSERT INTO children VALUES (9); END;";
    store.write_blocking(move |c| c.execute_batch(poison)).unwrap();
    ledger.record(&walls, 5);
    // It may share the transaction that fails.
    drop(store.write_blocking(|_| Ok(())));
    store.write_blocking(|c| c.execute_batch("DROP TRIGGER poison")).unwrap();
    ledger.record(&walls, 7);
    store.write_blocking(|_| Ok(())).unwrap();
    let used: i64 =
        store.read_blocking(|c| c.query_row("SELECT used FROM ledger", [], |r| r.get(0))).unwrap();
    assert_eq!(used, 12);
}

#[derive(Debug, Clone)]
enum Step {
    Raise(usize, u64),
    Hold(u64),
    Commit(usize, u64),
    Release(usize),
    Record(u64),
    Wait(i64),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0..600_u64).prop_map(Step::Hold),
        3 => (any::<usize>(), 0..700_u64).prop_map(|(n, t)| Step::Commit(n, t)),
        2 => (any::<usize>(), 0..900_u64).prop_map(|(n, t)| Step::Raise(n, t)),
        2 => any::<usize>().prop_map(Step::Release),
        1 => (0..300_u64).prop_map(Step::Record),
        1 => (1..40 * HOUR).prop_map(Step::Wait),
    ]
}

/// Plain integers: what a day and a month have used, and what is held.
#[derive(Default)]
struct Model {
    day: i64,
    month: usize,
    used: [u64; 2],
    held: u64,
}

impl Model {
    const LIMITS: [u64; 2] = [1_000, 4_000];
    /// Days of the year on which its months end.
    const MONTHS: [i64; 6] = [31, 59, 90, 120, 151, 181];

    fn at(&mut self, now: i64) {
        let day = (now - NEW_YEAR) / DAY;
        let month = Self::MONTHS.iter().filter(|end| day >= **end).count();
        if day != self.day {
            self.used[0] = 0;
        }
        if month != self.month {
            self.used[1] = 0;
        }
        (self.day, self.month) = (day, month);
    }

    fn has_room(&self, tokens: u64) -> bool {
        (0..2).all(|at| self.used[at] + self.held + tokens <= Self::LIMITS[at])
    }

    fn add(&mut self, tokens: u64) {
        self.used.iter_mut().for_each(|used| *used += tokens);
    }
}

proptest! {
    #[test]
    fn the_ledger_does_as_plain_integers_do(steps in proptest::collection::vec(step(), 1..120)) {
        let (ledger, time) = clocked(None);
        let walls = [
            wall("ada", Window::Day, Model::LIMITS[0]),
            wall("ada", Window::Month, Model::LIMITS[1]),
        ];
        let wallet = wallet(&ledger, &walls);
        let (mut model, mut holds) = (Model::default(), Vec::new());
        for step in steps {
            match step {
                Step::Hold(tokens) => {
                    let held = wallet.hold(tokens);
                    assert_eq!(held.is_ok(), model.has_room(tokens));
                    if let Ok(held) = held {
                        model.held += tokens;
                        holds.push(held);
                    }
                }
                Step::Raise(n, tokens) if !holds.is_empty() => {
                    let at = n % holds.len();
                    let held: &mut Held = &mut holds[at];
                    let before = held.tokens();
                    model.held -= before;
                    let has_room = model.has_room(tokens);
                    let raised = held.raise(tokens).is_ok();
                    assert_eq!(raised, tokens <= before || has_room);
                    model.held += if raised { tokens.max(before) } else { before };
                    assert_eq!(held.tokens(), if raised { tokens.max(before) } else { before });
                }
                Step::Commit(n, tokens) if !holds.is_empty() => {
                    let held = holds.swap_remove(n % holds.len());
                    model.held -= held.tokens();
                    model.add(tokens);
                    held.commit(tokens);
                }
                Step::Release(n) if !holds.is_empty() => {
                    let held = holds.swap_remove(n % holds.len());
                    model.held -= held.tokens();
                }
                Step::Record(tokens) => {
                    model.add(tokens);
                    ledger.record(&walls, tokens);
                }
                Step::Wait(millis) => {
                    let now = time.fetch_add(millis, Ordering::SeqCst) + millis;
                    model.at(now);
                }
                _ => {}
            }
            for (at, view) in ledger.views(&walls).iter().enumerate() {
                let taken = model.used[at] + model.held;
                assert!(adds_up(view), "{view:?}");
                assert_eq!(view.over_by, taken.saturating_sub(view.limit));
                assert_eq!(view.used, model.used[at].min(view.limit));
                assert_eq!(view.remaining, view.limit.saturating_sub(taken));
            }
        }
    }
}
