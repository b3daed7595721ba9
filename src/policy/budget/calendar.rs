//! Windows by the calendar, in UTC. Times are milliseconds since 1970.

use jiff::{Timestamp, civil::DateTime, tz::Offset};

/// How long an account counts before it begins anew.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Window {
    /// As long as the run lasts.
    Run,
    /// From midnight to midnight.
    Day,
    /// From the first of a month to the first of the next.
    Month,
}

impl Window {
    /// As results and the storage name it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Run => "run",
            Self::Day => "day",
            Self::Month => "month",
        }
    }

    /// When the window that holds `now` begins and ends.
    pub(super) fn bounds(self, now: i64) -> (i64, i64) {
        let whole = (i64::MIN, i64::MAX);
        let Ok(now) = Timestamp::from_millisecond(now) else { return whole };
        let today = Offset::UTC.to_datetime(now).date();
        let (first, next) = match self {
            Self::Run => return whole,
            Self::Day => (today, today.tomorrow()),
            Self::Month => (today.first_of_month(), today.last_of_month().tomorrow()),
        };
        // Beyond the last day of the calendar nothing begins.
        next.map_or(whole, |next| (millis(first.into()), millis(next.into())))
    }
}

fn millis(midnight: DateTime) -> i64 {
    Offset::UTC.to_timestamp(midnight).map_or(i64::MAX, Timestamp::as_millisecond)
}

/// The time as RFC 3339 writes it.
#[must_use]
pub fn rfc3339(millis: i64) -> String {
    Timestamp::from_millisecond(millis).unwrap_or_default().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> i64 {
        text.parse::<Timestamp>().unwrap().as_millisecond()
    }

    #[test]
    fn windows_follow_the_calendar() {
        for (window, now, begins, ends) in [
            (Window::Day, "2026-12-31T23:59:59.999Z", "2026-12-31T00:00:00Z", "2027-01-01T00:00:00Z"),
            (Window::Day, "2027-01-01T00:00:00Z", "2027-01-01T00:00:00Z", "2027-01-02T00:00:00Z"),
            (Window::Month, "2026-12-31T23:59:59.999Z", "2026-12-01T00:00:00Z", "2027-01-01T00:00:00Z"),
            (Window::Month, "2028-02-29T12:00:00Z", "2028-02-01T00:00:00Z", "2028-03-01T00:00:00Z"),
            (Window::Month, "2026-11-01T00:00:00Z", "2026-11-01T00:00:00Z", "2026-12-01T00:00:00Z"),
        ] {
            assert_eq!(window.bounds(at(now)), (at(begins), at(ends)), "{now}");
        }
        assert_eq!(rfc3339(at("2027-01-01T00:00:00Z")), "2027-01-01T00:00:00Z");
    }

    #[test]
    fn no_time_is_too_far() {
        for now in [i64::MIN, 0, i64::MAX, 253_402_300_799_000] {
            for window in [Window::Run, Window::Day, Window::Month] {
                let (begins, ends) = window.bounds(now);
                assert!(begins <= now && now <= ends);
            }
        }
    }
}
