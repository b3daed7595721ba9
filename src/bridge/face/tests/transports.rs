//! Batches of 2025-03-26, HTTP+SSE of 2024-11-05, and the face behind a real socket.

use std::convert::Infallible;

use http_body_util::Full;
use hyper::{body::Incoming, service::service_fn};
use hyper_util::{
    client::legacy::Client as HttpClient,
    rt::{TokioExecutor, TokioIo},
};

use super::*;
use crate::bridge::face::{HttpSse, split_batch};

fn call(id: u32) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": "t"}})
}

#[tokio::test]
async fn a_batch_is_answered_as_one_array() {
    let (server, client) = joined("2025-03-26").await;
    server.say("tools/call", Said::Result(json!({"content": []})));
    server.say("tools/call", Said::Unreachable);
    let initialize = json!({"jsonrpc": "2.0", "id": 5, "method": "initialize", "params": {}});
    let ping = json!({"jsonrpc": "2.0", "id": 3, "method": "ping"});
    let note = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
    let batch = json!([call(1), note, call(2), ping, initialize, 4]);
    let reply = client.post(batch.to_string()).await;
    let body = reply.body();
    let told: Vec<_> =
        body.as_array().unwrap().iter().map(|m| (m["id"].clone(), m["error"]["code"].clone())).collect();
    let null = Value::Null;
    // Which of the two calls came first is open.
    let mut calls = [told[0].1.clone(), told[1].1.clone()];
    calls.sort_by_key(Value::is_null);
    assert_eq!(calls, [json!(502), null.clone()]);
    assert_eq!(told[2..], [(json!(3), null.clone()), (json!(5), json!(-32600)), (null, json!(-32600))]);
}

#[tokio::test]
async fn a_batch_with_a_stream_in_it_is_a_stream() {
    let (server, client) = joined("2025-03-26").await;
    server.say(
        "tools/call",
        Said::Events(vec![
            r#"{"jsonrpc":"2.0","id":$ID,"result":{"resultType":"complete","content":[]}}"#.into(),
        ]),
    );
    let batch = json!([call(1), {"jsonrpc": "2.0", "id": 2, "method": "ping"}]);
    let mut stream = events(client.open(Method::POST, batch.to_string()).await);
    let mut ids = Vec::new();
    while let Some(message) = next(&mut stream).await {
        ids.push(message["id"].as_u64().unwrap());
    }
    assert_eq!(ids, [2, 1]);
}

#[tokio::test]
async fn batches_have_their_revision_and_their_bounds() {
    let (_, mut client) = joined("2025-03-26").await;
    let note = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
    let reply = client.post(json!([note]).to_string()).await;
    assert_eq!((reply.status, reply.text.as_str()), (202, ""));
    let many = format!("[{}]", vec!["{}"; 101].join(","));
    for body in ["[]", &many] {
        let reply = client.post(body.to_owned()).await;
        assert_eq!((reply.status, &reply.body()["error"]["code"]), (400, &json!(-32600)));
        assert!(split_batch(body.as_bytes()).is_err());
    }
    client.session = Some("gone".into());
    assert_eq!(client.post(json!([note]).to_string()).await.status, 404);
    let (_, client) = joined("2025-06-18").await;
    assert_eq!(client.post(json!([note]).to_string()).await.status, 400);
}

/// One client of HTTP+SSE, with the address that it was given.
async fn open_sse(client: &Client, transport: &HttpSse) -> (Messages, String) {
    let mut body = transport.open(client.request(Method::GET, ""), "/message").into_body();
    let first = body.frame().await.unwrap().unwrap().into_data().unwrap();
    let first = String::from_utf8(first.to_vec()).unwrap();
    let address = first.strip_prefix("event: endpoint\ndata: ").unwrap().trim_end().to_owned();
    assert!(address.starts_with("/message?sessionId="));
    (Messages::new(body), address)
}

async fn post_sse(client: &Client, transport: &HttpSse, address: &str, message: &Value) -> Reply {
    let mut request = client.request(Method::POST, message.to_string());
    *request.uri_mut() = address.parse().unwrap();
    Reply::of(transport.post(request)).await
}

#[tokio::test]
async fn http_sse_answers_on_its_stream() {
    let (server, client) = setup();
    let transport = HttpSse::new(Arc::clone(&client.face) as Arc<dyn Upstream>, sealer());
    let (mut stream, address) = open_sse(&client, &transport).await;
    let initialize = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize",
        "params": {"protocolVersion": "2024-11-05", "capabilities": {"roots": {}}, "clientInfo": {"name": "old", "version": "1"}}});
    let reply = post_sse(&client, &transport, &address, &initialize).await;
    assert_eq!((reply.status, reply.text.as_str()), (202, ""));
    assert_eq!(next(&mut stream).await.unwrap()["result"]["protocolVersion"], "2024-11-05");

    let say = server.live("subscriptions/listen");
    let granted = json!({"notifications": {"toolsListChanged": true}});
    say.send(
        json!({"jsonrpc": "2.0", "method": "notifications/subscriptions/acknowledged", "params": granted})
            .to_string(),
    )
    .unwrap();
    say.send(json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}).to_string()).unwrap();
    post_sse(
        &client,
        &transport,
        &address,
        &json!({"jsonrpc": "2.0", "method": "notifications/initialized"}),
    )
    .await;
    assert_eq!(next(&mut stream).await.unwrap()["method"], "notifications/tools/list_changed");

    let asks = json!({"resultType": "input_required", "inputRequests": {"r": {"method": "roots/list"}}});
    server.say("tools/call", Said::Result(asks));
    server.say("tools/call", Said::Result(json!({"content": []})));
    post_sse(&client, &transport, &address, &call(2)).await;
    let ask = next(&mut stream).await.unwrap();
    assert_eq!(ask["method"], "roots/list");
    post_sse(
        &client,
        &transport,
        &address,
        &json!({"jsonrpc": "2.0", "id": ask["id"], "result": {"roots": []}}),
    )
    .await;
    assert_eq!(
        next(&mut stream).await.unwrap(),
        json!({"jsonrpc": "2.0", "id": 2, "result": {"content": []}})
    );
    assert_eq!(server.seen("tools/call")[0].meta("clientInfo")["name"], "old");
    server.say("tools/call", Said::Unreachable);
    post_sse(&client, &transport, &address, &call(3)).await;
    assert_eq!(next(&mut stream).await.unwrap()["error"]["code"], 502);
    drop(stream);
    server.seen("subscriptions/listen")[0].gone.cancelled().await;
    assert_eq!(post_sse(&client, &transport, &address, &call(4)).await.status, 404);
}

#[tokio::test]
async fn an_http_sse_address_is_its_clients_alone() {
    let (_, client) = setup();
    let transport = HttpSse::new(Arc::clone(&client.face) as Arc<dyn Upstream>, sealer());
    let (_stream, address) = open_sse(&client, &transport).await;
    let bob = Client { principal: "bob", ..client.clone() };
    let replica = HttpSse::new(Arc::clone(&client.face) as Arc<dyn Upstream>, sealer());
    assert_eq!(post_sse(&bob, &transport, &address, &call(1)).await.status, 404);
    assert_eq!(post_sse(&client, &transport, "/message", &call(1)).await.status, 404);
    assert_eq!(post_sse(&client, &replica, &address, &call(1)).await.status, 404);
    assert_eq!(post_sse(&client, &transport, &address, &json!([])).await.status, 400);
    assert_eq!(post_sse(&client, &transport, &address, &call(1)).await.status, 202);
}

/// Serves the face on a socket of the loopback; gives its address.
async fn serve(face: Arc<Face>) -> String {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((socket, _)) = listener.accept().await {
            let face = Arc::clone(&face);
            let service = service_fn(move |request: Request<Incoming>| {
                let face = Arc::clone(&face);
                async move {
                    let (head, body) = request.into_parts();
                    let body = body.collect().await.unwrap().to_bytes();
                    Ok::<_, Infallible>(face.call(Request::from_parts(head, body)).await.unwrap())
                }
            });
            tokio::spawn(
                hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(socket), service),
            );
        }
    });
    format!("http://{address}/mcp")
}

#[tokio::test]
async fn a_question_makes_its_round_over_real_sockets() {
    let (server, client) = setup();
    let url = serve(Arc::clone(&client.face)).await;
    let http: HttpClient<_, Full<Bytes>> = HttpClient::builder(TokioExecutor::new()).build_http();
    let send = async |session: Option<&str>, body: Value| {
        let mut request = Request::post(&url).header("accept", "application/json, text/event-stream");
        if let Some(session) = session {
            request = request.header("mcp-session-id", session);
        }
        http.request(request.body(Full::new(body.to_string().into())).unwrap()).await.unwrap()
    };
    let initialize = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize",
        "params": {"protocolVersion": "2025-06-18", "capabilities": {"roots": {}}, "clientInfo": {"name": "c", "version": "1"}}});
    let response = send(None, initialize).await;
    let session = response.headers()["mcp-session-id"].to_str().unwrap().to_owned();
    let asks = json!({"resultType": "input_required", "inputRequests": {"r": {"method": "roots/list"}}, "requestState": "s"});
    server.say("tools/call", Said::Result(asks));
    server.say("tools/call", Said::Result(json!({"content": []})));
    let response = send(Some(&session), call(2)).await;
    assert_eq!(response.headers()["content-type"], "text/event-stream");
    let mut stream = Messages::new(response.into_body().map_err(Into::into).boxed_unsync());
    let ask = next(&mut stream).await.unwrap();
    let answer = json!({"jsonrpc": "2.0", "id": ask["id"], "result": {"roots": [{"uri": "file:///r"}]}});
    assert_eq!(send(Some(&session), answer).await.status(), 202);
    assert_eq!(next(&mut stream).await.unwrap()["result"], json!({"content": []}));
    let retried = server.seen("tools/call").pop().unwrap();
    assert_eq!(retried.body["params"]["inputResponses"]["r"]["roots"][0]["uri"], "file:///r");
}
