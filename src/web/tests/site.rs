//! A web server on loopback that answers as a test says, and remembers what it was asked.

use std::{
    net::SocketAddr,
    sync::{Arc, Mutex},
};

use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::TcpListener,
};
use tokio_rustls::TlsAcceptor;

/// A running server; ends with the test's runtime.
pub(crate) struct Site {
    pub(crate) address: SocketAddr,
    asked: Arc<Mutex<Vec<String>>>,
}

type Answer = Arc<dyn Fn(&str, &str) -> Vec<u8> + Send + Sync>;

impl Site {
    /// `answer` gets path and head of each request.
    pub(crate) async fn start(answer: impl Fn(&str, &str) -> Vec<u8> + Send + Sync + 'static) -> Self {
        Self::serve(None, Arc::new(answer)).await
    }

    /// One with TLS, and its certificate for `localhost` as PEM.
    pub(crate) async fn start_tls(
        answer: impl Fn(&str, &str) -> Vec<u8> + Send + Sync + 'static,
    ) -> (Self, String) {
        let own =
            rcgen::generate_simple_self_signed(["localhost".to_owned(), "site.test".to_owned()]).unwrap();
        let key = rustls_pki_types::PrivateKeyDer::try_from(own.signing_key.serialize_der()).unwrap();
        let config =
            rustls::ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
                .with_safe_default_protocol_versions()
                .unwrap()
                .with_no_client_auth()
                .with_single_cert(vec![own.cert.der().clone()], key)
                .unwrap();
        (Self::serve(Some(TlsAcceptor::from(Arc::new(config))), Arc::new(answer)).await, own.cert.pem())
    }

    async fn serve(tls: Option<TlsAcceptor>, answer: Answer) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let asked = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&asked);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (tls, answer, seen) = (tls.clone(), Arc::clone(&answer), Arc::clone(&seen));
                tokio::spawn(async move {
                    match tls {
                        None => talk(stream, &answer, &seen).await,
                        Some(tls) => {
                            if let Ok(stream) = tls.accept(stream).await {
                                talk(stream, &answer, &seen).await;
                            }
                        }
                    }
                });
            }
        });
        Self { address, asked }
    }

    /// A URL of this server by its address.
    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// The paths asked for until now, without `robots.txt`.
    pub(crate) fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().iter().filter(|path| *path != "/robots.txt").cloned().collect()
    }
}

async fn talk(mut stream: impl AsyncRead + AsyncWrite + Unpin, answer: &Answer, seen: &Mutex<Vec<String>>) {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        match stream.read_u8().await {
            Ok(byte) => head.push(byte),
            Err(_) => return,
        }
    }
    let head = String::from_utf8(head).unwrap();
    let path = head.split(' ').nth(1).unwrap_or_default().to_owned();
    seen.lock().unwrap().push(path.clone());
    let reply = answer(&path, &head);
    // The client may have left.
    drop(stream.write_all(&reply).await);
    drop(stream.shutdown().await);
}

/// A response.
pub(crate) fn reply(status: u16, headers: &[(&str, &str)], body: impl AsRef<[u8]>) -> Vec<u8> {
    let body = body.as_ref();
    let mut head = format!("HTTP/1.1 {status} X\r\nconnection: close\r\ncontent-length: {}\r\n", body.len());
    for (name, value) in headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    [head.as_bytes(), b"\r\n", body].concat()
}

/// A page.
pub(crate) fn page(body: impl AsRef<[u8]>) -> Vec<u8> {
    reply(200, &[("content-type", "text/html; charset=utf-8")], body)
}

pub(crate) fn not_found() -> Vec<u8> {
    reply(404, &[("content-type", "text/html")], "<p>Nothing here</p>")
}
