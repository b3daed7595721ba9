//! How long the era of a server holds, and what is known of it before anybody has asked.

use std::time::Duration;

use super::*;
use crate::store::Store;

/// A server without sessions that serves modern clients as well from some moment on: nothing fails by it.
#[tokio::test]
async fn an_era_is_asked_for_again_when_it_is_old() {
    let (peer, grown) = (Peer::new(&["read"]), Arc::new(AtomicBool::new(false)));
    let is_grown = Arc::clone(&grown);
    let server = Server::start(move |seen| {
        let is_modern = seen.header("mcp-protocol-version") == Some("2026-07-28");
        if is_modern && is_grown.load(SeqCst) { peer.modern(seen) } else { peer.legacy(seen) }
    })
    .await;
    let running = Running::of(&server);
    running.knows(&["read"]).await;
    running.is_ready().await;
    grown.store(true, SeqCst);
    running.catalog.nudge();
    until("another look", || server.count("tools/list") >= 2).await;
    assert_eq!((running.catalog.era(), server.count("server/discover")), (Some(Era::Legacy), 1));
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(3_600)).await;
    tokio::time::resume();
    until("the other era", || {
        // The look of before may have ended after the leap, and the next is a while away.
        running.catalog.nudge();
        running.catalog.era() == Some(Era::Modern)
    })
    .await;
    running.is_ready().await;
    assert_eq!((running.names(), server.count("server/discover")), (vec!["read".to_owned()], 2));
    running.end().await;
}

#[tokio::test]
async fn a_fixed_era_is_known_before_anybody_has_asked() {
    let store = Store::open(None, 1 << 20).expect("in memory");
    let other =
        Catalog::new("peer".into(), Some("2026-07-28"), Duration::ZERO).kept_in(store.clone(), "here");
    other.suppose(br#"{"tools":[{"name":"a"}]}"#).await.expect("a list");
    let kept = other.kept.as_ref().expect("it is kept");
    kept.save(&other.name, other.offers(), other.found.load_full());
    for (protocol, era, other) in
        [("2025-06-18", Era::Legacy, Era::Modern), ("2026-07-28", Era::Modern, Era::Legacy)]
    {
        let catalog =
            Catalog::new("peer".into(), Some(protocol), Duration::ZERO).kept_in(store.clone(), "here");
        assert_eq!((catalog.era(), catalog.version().as_deref()), (Some(era), Some(protocol)));
        assert!(catalog.speaks(era) && !catalog.speaks(other));
        // Nor does what was known before the restart count against it.
        catalog.remember().await;
        assert_eq!((catalog.era(), catalog.tools().len()), (Some(era), 1));
    }
    let asking = Catalog::new("peer".into(), None, Duration::ZERO);
    assert!(asking.era().is_none() && asking.speaks(Era::Modern) && asking.speaks(Era::Legacy));
}
