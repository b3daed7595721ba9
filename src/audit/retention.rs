//! Which old segments are removed: by their number, their age and the size of all. Owns that rule. Invariant: whole
//! segments, oldest first, so that what is left is a chain; never the current one.

use std::{
    fs, io,
    path::Path,
    time::{Duration, SystemTime},
};

use super::segments;
use crate::config;

#[derive(Debug)]
pub(super) struct Retention {
    keep: usize,
    age: Option<Duration>,
    bytes: Option<u64>,
}

impl Retention {
    pub(super) fn of(settings: &config::Journal) -> Self {
        Self { keep: settings.keep, age: settings.keep_age, bytes: settings.keep_bytes }
    }

    /// Whether a segment that was begun then is old enough to be ended: records of a quiet gateway would otherwise
    /// stay in it long after their time.
    pub(super) fn ends_segment(&self, begun: SystemTime) -> bool {
        self.age.is_some_and(|age| is_older(begun, age / 2))
    }

    /// Removes what is too much beside the current segment at `path`, which has `current` bytes.
    pub(super) fn apply(&self, path: &Path, current: u64) -> io::Result<()> {
        let mut old = Vec::new();
        for (_, segment) in segments::old(path)? {
            let about = fs::metadata(&segment)?;
            old.push((segment, about.len(), about.modified()?));
        }
        let mut left = old.len();
        let mut all =
            old.iter().map(|(_, length, _)| length).fold(current, |all, one| all.saturating_add(*one));
        for (segment, length, newest) in &old {
            let surplus = left > self.keep
                || self.bytes.is_some_and(|most| all > most)
                || self.age.is_some_and(|age| is_older(*newest, age));
            if !surplus {
                break;
            }
            fs::remove_file(segment)?;
            tracing::info!(segment = %segment.display(), "an old journal segment was removed");
            (left, all) = (left - 1, all - length);
        }
        Ok(())
    }
}

/// A clock that was set back makes nothing older.
fn is_older(than: SystemTime, age: Duration) -> bool {
    than.elapsed().is_ok_and(|passed| passed > age)
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    const HOUR: Duration = Duration::from_secs(3_600);

    /// Five segments of 100 bytes, the last an hour old, each an hour older than the next.
    fn journal() -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("audit.jsonl");
        for number in 1..=5u32 {
            let file = fs::File::create(segments::numbered(&path, number.into())).unwrap();
            file.set_len(100).unwrap();
            file.set_modified(SystemTime::now() - HOUR * (6 - number)).unwrap();
        }
        fs::write(&path, "").unwrap();
        (folder, path)
    }

    fn left(keep: usize, age: Option<Duration>, bytes: Option<u64>) -> Vec<u64> {
        let (_folder, path) = journal();
        Retention { keep, age, bytes }.apply(&path, 50).unwrap();
        segments::old(&path).unwrap().into_iter().map(|(number, _)| number).collect()
    }

    #[test]
    fn whichever_limit_is_reached_first_decides() {
        assert_eq!(left(8, None, None), [1, 2, 3, 4, 5]);
        assert_eq!(left(2, None, None), [4, 5]);
        assert_eq!(left(0, None, None), [0u64; 0]);
        assert_eq!(left(8, Some(HOUR * 7 / 2), None), [3, 4, 5]);
        assert_eq!(left(8, None, Some(350)), [3, 4, 5]);
        assert_eq!(left(8, None, Some(349)), [4, 5]);
        assert_eq!(left(4, Some(HOUR * 9 / 2), Some(250)), [4, 5]);
    }

    #[test]
    fn a_segment_is_ended_at_half_the_age() {
        let retention = Retention { keep: 8, age: Some(HOUR), bytes: None };
        let before = |time| SystemTime::now() - time;
        assert!(!retention.ends_segment(before(HOUR / 4)));
        assert!(retention.ends_segment(before(HOUR * 3 / 4)));
        assert!(!Retention { keep: 8, age: None, bytes: None }.ends_segment(before(HOUR * 9_000)));
    }
}
