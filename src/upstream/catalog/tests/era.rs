//! How long the era of a server holds, and what is known of it before anybody has asked.

use std::{path::Path, time::Duration};

use super::*;

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

/// As servers do whose clients log in by OAuth.
#[tokio::test]
async fn one_that_refuses_the_gateway_is_asked_with_what_a_call_brings() {
    let (peer, grown) = (Peer::telling(&["t"]), Arc::new(AtomicBool::new(false)));
    let is_grown = Arc::clone(&grown);
    let server = Server::start(move |seen| match seen.header("authorization") {
        Some("Bearer theirs") if is_grown.load(SeqCst) => peer.modern(seen),
        Some("Bearer theirs") => peer.legacy(seen),
        _ => empty(401),
    })
    .await;
    let running = Running::of(&server);
    let catalog = &running.catalog;
    until("a refusal", || matches!(catalog.state(), State::Unauthorized { .. })).await;
    let call = async |token: Option<&'static str>| {
        let token = token.map(|t| (http::header::AUTHORIZATION, http::HeaderValue::from_static(t)));
        catalog.before(Era::Modern, &running.upstream, &token.into_iter().collect()).await;
        catalog.era()
    };
    assert_eq!((call(None).await, call(Some("Bearer wrong")).await), (None, None));
    assert_eq!(call(Some("Bearer theirs")).await, Some(Era::Legacy));
    assert_eq!(server.count("initialize"), 1);
    until("its session has ended", || server.all().iter().any(|seen| seen.verb == Method::DELETE)).await;
    // Nothing speaks against it.
    grown.store(true, SeqCst);
    let asked = server.count("server/discover");
    assert_eq!(
        (call(Some("Bearer theirs")).await, server.count("server/discover")),
        (Some(Era::Legacy), asked)
    );
    tokio::time::sleep(Duration::from_millis(1_100)).await;
    catalog.nudge();
    // Whoever was refused is not asked with again, and takes nobody's turn; nor does somebody else who is refused.
    for (token, asks, era) in [
        ("Bearer wrong", 0, Era::Legacy),
        ("Bearer other", 1, Era::Legacy),
        ("Bearer theirs", 1, Era::Modern),
        ("Bearer theirs", 0, Era::Modern),
    ] {
        let before = server.count("server/discover");
        assert_eq!(call(Some(token)).await, Some(era), "{token}");
        assert_eq!(server.count("server/discover") - before, asks, "{token}");
    }
    running.end().await;
}

#[tokio::test]
async fn a_fixed_era_is_known_before_anybody_has_asked() {
    let folder = tempfile::tempdir().expect("a folder");
    keep(folder.path(), Some("2026-07-28")).await;
    for (protocol, era, other) in
        [("2025-06-18", Era::Legacy, Era::Modern), ("2026-07-28", Era::Modern, Era::Legacy)]
    {
        let catalog =
            Catalog::new("peer".into(), Some(protocol), Duration::ZERO).kept_in(folder.path(), "here");
        assert_eq!((catalog.era(), catalog.version().as_deref()), (Some(era), Some(protocol)));
        assert!(catalog.speaks(era) && !catalog.speaks(other));
        // Nor does what was known before the restart count against it.
        catalog.remember().await;
        assert_eq!((catalog.era(), catalog.tools().len()), (Some(era), 1));
    }
    let asking = Catalog::new("peer".into(), None, Duration::ZERO);
    assert!(asking.era().is_none() && asking.speaks(Era::Modern) && asking.speaks(Era::Legacy));
}

/// Keeps one tool, and the era of this revision.
async fn keep(folder: &Path, protocol: Option<&str>) {
    let catalog = Catalog::new("peer".into(), protocol, Duration::ZERO).kept_in(folder, "here");
    catalog.suppose(br#"{"tools":[{"name":"a"}]}"#).await.expect("a list");
    let kept = catalog.kept.as_ref().expect("it is kept");
    kept.save(catalog.offers(), catalog.found.load_full()).await;
}

#[tokio::test]
async fn the_era_of_before_a_restart_is_known_from_the_first_moment() {
    let folder = tempfile::tempdir().expect("a folder");
    keep(folder.path(), Some("2025-06-18")).await;
    let again =
        |origin: &str| Catalog::new("peer".into(), None, Duration::ZERO).kept_in(folder.path(), origin);
    let catalog = again("here");
    assert_eq!((catalog.era(), catalog.version().as_deref()), (Some(Era::Legacy), Some("2025-06-18")));
    catalog.remember().await;
    assert_eq!((catalog.era(), catalog.tools().len()), (Some(Era::Legacy), 1));
    // Of another server behind the same name nothing is known.
    let other = again("there");
    other.remember().await;
    assert_eq!((other.era(), other.tools().len()), (None, 0));
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let mode = std::fs::metadata(folder.path().join("peer.json")).expect("a file").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }
}

#[tokio::test]
async fn a_file_that_cannot_be_read_or_written_is_none() {
    let folder = tempfile::tempdir().expect("a folder");
    let (whole, no_folder) = (folder.path().join("peer.json"), folder.path().join("file"));
    std::fs::write(&no_folder, "").expect("a file");
    keep(&no_folder, Some("2025-06-18")).await;
    keep(&no_folder.join("below"), Some("2025-06-18")).await;
    keep(folder.path(), Some("2025-06-18")).await;
    let text = std::fs::read(&whole).expect("what was kept");
    let head = memchr::memchr(b'\n', &text).expect("two lines");
    let cuts =
        [&text[..0], &text[..head - 1], &text[..head + 1], &text[..text.len() - 1], b"\n\n", b"[]\n[]"];
    for cut in cuts {
        std::fs::write(&whole, cut).expect("it can be written");
        let catalog = Catalog::new("peer".into(), None, Duration::ZERO).kept_in(folder.path(), "here");
        // The first line stands by itself.
        assert_eq!(catalog.era().is_some(), cut.len() > head, "{}", String::from_utf8_lossy(cut));
        catalog.remember().await;
        assert!(catalog.tools().is_empty());
    }
}
