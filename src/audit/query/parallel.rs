//! Work on a list by all processors, in any order, folded together at the end.

use std::{
    sync::atomic::{AtomicUsize, Ordering},
    thread,
};

/// How many threads there are to share work.
pub(super) fn threads() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

/// Each thread begins with a `T` of its own and adds items to it; all are given back.
pub(super) fn fold<I: Sync, T: Default + Send, E: Send>(
    items: &[I],
    step: impl Fn(&mut T, &I) -> Result<(), E> + Sync,
) -> Result<Vec<T>, E> {
    let next = AtomicUsize::new(0);
    let work = || {
        let mut folded = T::default();
        while let Some(item) = items.get(next.fetch_add(1, Ordering::Relaxed)) {
            step(&mut folded, item)?;
        }
        Ok(folded)
    };
    if threads().min(items.len()) < 2 {
        return work().map(|one| vec![one]);
    }
    thread::scope(|scope| {
        let others: Vec<_> = (1..threads().min(items.len())).map(|_| scope.spawn(work)).collect();
        let mut all = vec![work()];
        all.extend(others.into_iter().map(|thread| match thread.join() {
            Ok(result) => result,
            Err(panic) => std::panic::resume_unwind(panic),
        }));
        all.into_iter().collect()
    })
}
