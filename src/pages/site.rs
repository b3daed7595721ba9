//! Paths of the pages and of their API, behind the door. Owns which answer a path has; not what a page looks like.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use http::{Method, Request, StatusCode, header, request::Parts};
use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming;
use jiff::Timestamp;
use serde_json::json;
use tokio::time::timeout;
use url::form_urlencoded;

use super::{
    Pages,
    answer::{self, Answer},
    budgets,
    call::Call,
    door::{Pass, Shut},
    events::{Events, position},
    filter::Filter,
    history::Busy,
    html,
    stats::Stats,
};
use crate::{
    hosts::{Endpoints, HOSTS, Host},
    server::Peer,
};

/// Largest form.
const FORM: usize = 4 * 1024;
/// Time for a form to arrive.
const FORM_TIME: Duration = Duration::from_secs(10);
/// Rows of the table, and of the API unless it is asked for another number.
const ROWS: usize = 100;

/// Of a request that says something else than it could mean.
const INVALID: &str = "invalid_request";

/// Answers everything that is neither a probe nor metrics.
pub(super) async fn answer(pages: &Pages, req: Request<Incoming>, peer: Peer) -> Answer {
    let (head, body) = req.into_parts();
    if let Err(shut) = pages.door.admit(&head) {
        return turned_away(shut, &head);
    }
    let reads = head.method == Method::GET || head.method == Method::HEAD;
    match head.uri.path() {
        "/login" | "/logout" if head.method == Method::POST => post(pages, &head, body, peer).await,
        _ if !reads => {
            let answer =
                answer::refusal(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", "use GET or HEAD");
            answer::and(answer, header::ALLOW, "GET, HEAD")
        }
        "/assets/pages.css" => file("text/css; charset=utf-8", include_str!("assets/pages.css")),
        "/assets/pages.js" => file("text/javascript; charset=utf-8", include_str!("assets/pages.js")),
        "/assets/icon.svg" => file("image/svg+xml", include_str!("assets/icon.svg")),
        "/login" if pages.door.asks() => answer::page(StatusCode::OK, html::login::page(&next(&head), None)),
        "/login" | "/logout" | "/" => answer::see("/activity"),
        _ => match pages.door.pass(&head, peer) {
            Ok(pass) => known(pages, &head, pass).await,
            Err(shut) => turned_away(shut, &head),
        },
    }
}

async fn known(pages: &Pages, head: &Parts, pass: Pass) -> Answer {
    let segments: Vec<&str> = head.uri.path().split('/').skip(1).collect();
    let filter = match segments.as_slice() {
        ["api", place] => Filter::strict(head.uri.query(), own_parameters(place)),
        _ => Ok(Filter::of(head.uri.query())),
    };
    let filter = match filter {
        Ok(filter) => filter,
        Err(why) => return answer::refusal(StatusCode::BAD_REQUEST, INVALID, &why),
    };
    match segments.as_slice() {
        ["activity"] => activity(pages, &filter, pass),
        ["activity", boot, seq] => match find(pages, boot, seq).await {
            Found::Call(call) => answer::page(StatusCode::OK, html::call::page(&call, pass)),
            Found::Nothing => answer::page(StatusCode::NOT_FOUND, html::call::missing(boot, seq, pass)),
            Found::Later => busy(),
        },
        ["connect"] => connect(pages, &filter, pass),
        ["api", "calls"] => calls(pages, head, &filter),
        ["api", "calls", boot, seq] => match find(pages, boot, seq).await {
            Found::Call(call) => {
                let line = call.line.as_deref().unwrap_or_default();
                answer::with(StatusCode::OK, "application/json", Bytes::copy_from_slice(line))
            }
            Found::Nothing => {
                answer::refusal(StatusCode::NOT_FOUND, "not_found", "the journal has no such call")
            }
            Found::Later => busy(),
        },
        ["api", "events"] if head.method == Method::GET => events(pages, head, filter, pass),
        ["api", "activity"] => answer::json(
            StatusCode::OK,
            &json!({
                "gateway": crate::server::admin::AdminState::readiness(pages),
                "budgets": budgets::bars(&pages.gateway.snapshot.load()),
                "calls": Stats::of(&chosen(pages, &filter).0, Timestamp::now()),
            }),
        ),
        ["api", "connect"] => {
            let to = endpoints(pages);
            let host = |h: &Host| {
                json!({ "name": h.name, "title": h.title, "place": h.place, "block": h.block(&to),
                        "first_call": first(pages, &filter.with("host", h.name)).map(|c| json!(c.row())) })
            };
            let hosts: Vec<_> = HOSTS.iter().map(host).collect();
            answer::json(StatusCode::OK, &json!({ "endpoint": to.url, "key": to.key, "hosts": hosts }))
        }
        _ => answer::refusal(StatusCode::NOT_FOUND, "no_route", "there is /activity, /connect and /api"),
    }
}

/// What a path of the API takes beside the filters.
fn own_parameters(place: &str) -> &'static [&'static str] {
    match place {
        "calls" => &["limit"],
        "events" => &["after"],
        _ => &[],
    }
}

fn activity(pages: &Pages, filter: &Filter, pass: Pass) -> Answer {
    let (calls, next) = chosen(pages, filter);
    let all = pages.window.all().calls;
    let snapshot = pages.gateway.snapshot.load();
    let view = html::activity::View {
        filter,
        choices: html::activity::Choices::of(&all, &snapshot.config),
        calls: calls.iter().rev().take(ROWS).map(Arc::as_ref).collect(),
        stats: Stats::of(&calls, Timestamp::now()),
        budgets: budgets::bars(&snapshot),
        gateway: crate::server::admin::AdminState::readiness(pages),
        place: format!("{}.{next}", pages.window.feed.boot()),
        pass,
    };
    answer::page(StatusCode::OK, html::activity::page(&view))
}

fn connect(pages: &Pages, filter: &Filter, pass: Pass) -> Answer {
    let host = Host::named(&filter.host).unwrap_or(&HOSTS[0]);
    let filter = filter.with("host", host.name);
    let snapshot = pages.gateway.snapshot.load();
    // With a key chosen, whatever comes with it is the one that is waited for.
    let wanted = if filter.key.is_empty() { filter.clone() } else { filter.with("host", "") };
    let view = html::connect::View {
        host,
        filter: &filter,
        to: endpoints(pages),
        keys: snapshot.config.keys.iter().map(|key| key.name.to_string()).collect(),
        first: first(pages, &wanted),
        query: wanted.query(),
        place: format!("{}.{}", pages.window.feed.boot(), pages.window.all().next),
        pass,
    };
    answer::page(StatusCode::OK, html::connect::page(&view))
}

fn calls(pages: &Pages, head: &Parts, filter: &Filter) -> Answer {
    let most = match parameter(head, "limit").filter(|n| !n.is_empty()).map(|n| n.parse::<u32>()) {
        None => ROWS,
        Some(Ok(most)) => usize::try_from(most).unwrap_or(ROWS),
        Some(Err(_)) => {
            return answer::refusal(StatusCode::BAD_REQUEST, INVALID, "limit is a whole number of calls");
        }
    };
    let (calls, next) = chosen(pages, filter);
    let rows: Vec<_> = calls.iter().rev().take(most).map(|call| call.row()).collect();
    let next = format!("{}.{next}", pages.window.feed.boot());
    answer::json(StatusCode::OK, &json!({ "calls": rows, "matching": calls.len(), "next": next }))
}

fn events(pages: &Pages, head: &Parts, filter: Filter, pass: Pass) -> Answer {
    let Ok(place) = Arc::clone(&pages.streams).try_acquire_owned() else {
        let answer =
            answer::refusal(StatusCode::SERVICE_UNAVAILABLE, "too_many_streams", "close another page");
        return answer::and(answer, header::RETRY_AFTER, "10");
    };
    let boot = pages.window.feed.boot();
    let last = head.headers.get("last-event-id").and_then(|id| id.to_str().ok()).map(str::to_owned);
    let after = last.or_else(|| parameter(head, "after"));
    let next = after.map_or_else(|| pages.window.feed.end(), |id| position(&id, boot));
    let events = Events {
        window: Arc::clone(&pages.window),
        door: Arc::clone(&pages.door),
        pass,
        filter,
        next,
        stop: pages.stop.clone(),
        place,
    };
    events.answer()
}

async fn post(pages: &Pages, head: &Parts, body: Incoming, peer: Peer) -> Answer {
    if head.uri.path() == "/logout" {
        let pass = pages.door.pass(head, peer).unwrap_or(Pass::Free);
        return answer::and(answer::see("/login"), header::SET_COOKIE, &pages.door.log_out(pass, head, peer));
    }
    let Ok(Ok(form)) = timeout(FORM_TIME, Limited::new(body, FORM).collect()).await else {
        return answer::refusal(StatusCode::BAD_REQUEST, INVALID, "send the form of /login");
    };
    let form = form.to_bytes();
    let field = |name: &str| {
        let value = form_urlencoded::parse(&form).find(|(n, _)| n == name);
        value.map(|(_, value)| value.into_owned()).unwrap_or_default()
    };
    let next = ours(&field("next")).to_owned();
    match pages.door.log_in(&field("key"), head, peer) {
        Ok(cookie) => answer::and(answer::see(&next), header::SET_COOKIE, &cookie),
        Err(Shut::TooMany(wait)) => {
            let why = format!("Too many wrong keys. Try again in {} s.", wait.as_secs() + 1);
            let page = answer::page(StatusCode::TOO_MANY_REQUESTS, html::login::page(&next, Some(&why)));
            answer::and(page, header::RETRY_AFTER, &(wait.as_secs() + 1).to_string())
        }
        Err(_) => {
            let why = "This is not the key that admin.key names.";
            answer::page(StatusCode::UNAUTHORIZED, html::login::page(&next, Some(why)))
        }
    }
}

fn turned_away(shut: Shut, head: &Parts) -> Answer {
    match shut {
        Shut::Off => answer::refusal(
            StatusCode::FORBIDDEN,
            "pages_off",
            "set admin.key to have the pages on an address that is not loopback",
        ),
        Shut::ForeignHost => answer::refusal(
            StatusCode::FORBIDDEN,
            "forbidden_origin",
            "this listener is for this machine: use its address, or localhost, as the host",
        ),
        Shut::ForeignSite => {
            answer::refusal(StatusCode::FORBIDDEN, "forbidden_origin", "sent by a page that is not ours")
        }
        Shut::TooMany(wait) => {
            let answer =
                answer::refusal(StatusCode::TOO_MANY_REQUESTS, "rate_limited", "too many wrong keys");
            answer::and(answer, header::RETRY_AFTER, &(wait.as_secs() + 1).to_string())
        }
        Shut::Unknown if head.uri.path().starts_with("/api/") => {
            let answer =
                answer::refusal(StatusCode::UNAUTHORIZED, "unauthenticated", "send admin.key as a bearer");
            answer::and(answer, header::WWW_AUTHENTICATE, "Bearer")
        }
        Shut::Unknown => {
            let place = head.uri.path_and_query().map_or("/activity", |place| place.as_str());
            let next = form_urlencoded::byte_serialize(ours(place).as_bytes()).collect::<String>();
            answer::see(&format!("/login?next={next}"))
        }
    }
}

/// The calls that a filter lets through, the oldest first, and the position behind the last.
fn chosen(pages: &Pages, filter: &Filter) -> (Vec<Arc<Call>>, u64) {
    let all = pages.window.all();
    (all.calls.into_iter().filter(|call| filter.lets(call)).collect(), all.next)
}

/// The first call that came through, of those that are wanted.
fn first(pages: &Pages, wanted: &Filter) -> Option<Arc<Call>> {
    pages.window.all().calls.into_iter().find(|call| wanted.lets(call) && call.outcome != "rejected")
}

/// What came of looking for a call.
enum Found {
    Call(Arc<Call>),
    Nothing,
    Later,
}

/// A call of the window, else of the journal.
async fn find(pages: &Pages, boot: &str, seq: &str) -> Found {
    let Ok(seq) = seq.parse() else { return Found::Nothing };
    if let Some(call) = pages.window.find(boot, seq) {
        return Found::Call(call);
    }
    match pages.history.find(boot, seq).await {
        Ok(found) => found.map_or(Found::Nothing, Found::Call),
        Err(Busy) => Found::Later,
    }
}

fn busy() -> Answer {
    let answer =
        answer::refusal(StatusCode::SERVICE_UNAVAILABLE, "busy", "somebody else is looking; ask again");
    answer::and(answer, header::RETRY_AFTER, "2")
}

fn endpoints(pages: &Pages) -> Endpoints {
    let mut config = pages.gateway.snapshot.load().config.clone();
    config.server.listen = pages.listen;
    Endpoints::of(&config)
}

fn parameter(head: &Parts, name: &str) -> Option<String> {
    let pairs = form_urlencoded::parse(head.uri.query().unwrap_or_default().as_bytes());
    pairs.into_iter().find(|(n, _)| n == name).map(|(_, value)| value.into_owned())
}

fn next(head: &Parts) -> String {
    ours(&parameter(head, "next").unwrap_or_default()).to_owned()
}

/// A place of ours to go to after the login; whoever made the link cannot send people elsewhere.
fn ours(place: &str) -> &str {
    let plain = place.bytes().all(|b| b.is_ascii_graphic() && b != b'\\');
    let known = ["/activity", "/connect"].into_iter().any(|ours| {
        place.strip_prefix(ours).is_some_and(|rest| rest.is_empty() || rest.starts_with(['/', '?']))
    });
    if plain && known { place } else { "/activity" }
}

fn file(content_type: &'static str, text: &'static str) -> Answer {
    answer::with(StatusCode::OK, content_type, Bytes::from_static(text.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_login_leads_to_our_own_pages_only() {
        for place in ["/activity", "/activity?key=a", "/connect?host=cursor", "/activity/B/1"] {
            assert_eq!(ours(place), place);
        }
        for place in [
            "",
            "//evil.example",
            "https://evil.example",
            "/activity\\..",
            "/activityevil",
            "/login",
            "/connect\n",
        ] {
            assert_eq!(ours(place), "/activity", "{place:?}");
        }
    }
}
