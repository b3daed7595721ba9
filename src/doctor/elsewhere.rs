//! Where else than at the given path the server may speak MCP. Owns the places that are tried.

use std::collections::BTreeSet;

use http::uri::PathAndQuery;

use super::wire::Wire;
use crate::mcp::version::LATEST_LEGACY;

/// What to try instead of `path`, as the end of a sentence.
pub(super) async fn advice(wire: &Wire<'_>, path: &str) -> String {
    let tail = path.trim_end_matches('/');
    let folder = tail.strip_suffix("/mcp").or_else(|| tail.strip_suffix("/sse")).unwrap_or(tail);
    let mut places: Vec<String> = ["/mcp", "/sse"].map(|leaf| format!("{folder}{leaf}")).into();
    places.extend(["/mcp", "/sse", "/"].map(str::to_owned));
    let mut seen = BTreeSet::from([path.to_owned()]);
    places.retain(|place| seen.insert(place.clone()));
    for place in &places {
        if let Ok(at) = place.parse::<PathAndQuery>()
            && speaks(&wire.at(at)).await
        {
            return format!(
                "nothing speaks MCP at {path}, but at {place} something does: give the URL with that path"
            );
        }
    }
    let tried = places.join(", ");
    format!("nothing speaks MCP at {path}, nor at {tried}: look up the path in the server's documentation")
}

async fn speaks(wire: &Wire<'_>) -> bool {
    match wire.initialize(LATEST_LEGACY).await {
        Ok((answer, session)) if answer.outcome.is_some() && !matches!(answer.status, 404 | 405) => {
            session.end().await;
            true
        }
        _ => wire.http_sse().await.is_some(),
    }
}
