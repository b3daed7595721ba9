//! What shows that a server may offer or speak something else than is known of it: the one place that judges answers
//! and failures of calls. Invariant: the new look is at the server that was called, also where several are one.
//!
//! Rather too much counts than too little: looks at one server are at least a second apart, whatever is judged here.

use std::sync::Arc;

use super::error::Cause;
use crate::{audit::record::Record, mcp::era::Era, snapshot::Snapshot, upstream::catalog::Catalog};

/// The catalog of the server that a record names; `None` if the call reached none of several.
pub(super) fn catalog<'a>(snapshot: &'a Snapshot, record: &Record) -> Option<&'a Arc<Catalog>> {
    Some(&snapshot.routes.get(record.upstream.as_ref()?)?.catalog)
}

/// A call that failed: the server may be away, or speak otherwise.
pub(super) fn of_failure(cause: &Cause) -> bool {
    matches!(
        cause,
        Cause::UpstreamConnect(_)
            | Cause::UpstreamProtocol(_)
            | Cause::UpstreamTimeout(_)
            | Cause::DiscoverRefused
    )
}

/// An error that the server, or an adapter before it, answered.
pub(super) fn of_error(code: i64, status: u16, era: Era, bridged: bool) -> bool {
    let about_the_call = match code {
        // It does not know the method, or the name: it may have lost a tool. A server of the other era says so, too.
        -32_602..=-32_600 | -32_700 => true,
        // Errors of the modern era.
        -32_020 => true,
        -32_022 | -32_021 => era == Era::Legacy,
        // What is translated may be refused in many words.
        -32_699..=-32_000 => bridged,
        // A status that an adapter put into a message.
        _ => u16::try_from(code).is_ok_and(of_status),
    };
    about_the_call || of_status(status)
}

/// Statuses by which servers of one era refuse what is of the other, and those of a server that is not there.
pub(super) fn of_status(status: u16) -> bool {
    matches!(status, 400 | 404 | 405 | 406 | 415 | 502..=504)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_server_says_of_itself_is_no_evidence() {
        assert!(!of_error(-32_000, 200, Era::Modern, false));
        assert!(!of_error(-32_021, 200, Era::Modern, false));
        assert!(!of_error(-32_603, 200, Era::Legacy, false));
        assert!(!of_error(-31_999, 200, Era::Legacy, true));
        assert!(!of_error(1, 200, Era::Modern, true));
        assert!([200, 401, 403, 429, 500].iter().all(|status| !of_status(*status)));
    }

    #[test]
    fn a_refusal_of_how_it_was_spoken_to_is() {
        for code in [-32_700, -32_600, -32_601, -32_602, -32_020, 502] {
            assert!(of_error(code, 200, Era::Modern, false), "{code}");
        }
        assert!(of_error(-32_022, 200, Era::Legacy, false), "a modern error in a legacy session");
        assert!(of_error(-32_603, 200, Era::Legacy, true), "after a translation");
        assert!(of_error(-32_000, 400, Era::Modern, false), "not initialized");
    }

    #[test]
    fn failures_count_but_not_refusals_of_the_gateway() {
        let why = || "gone".to_owned();
        assert!(of_failure(&Cause::UpstreamConnect(why())) && of_failure(&Cause::UpstreamProtocol(why())));
        let left_alone = Cause::UpstreamUnavailable(why(), std::time::Duration::ZERO);
        assert!(!of_failure(&left_alone) && !of_failure(&Cause::Forbidden(why())));
    }
}
