//! A client that sends exactly the bytes it is told to, and reads answers with the simplest parser that
//! can tell where one ends.

use std::net::SocketAddr;

use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::TcpStream,
};

use super::soon;

/// One connection.
pub(crate) struct Raw<T = TcpStream> {
    pub(crate) io: T,
    seen: Vec<u8>,
}

/// An answer with its body as sent (chunked bodies are joined).
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
}

impl Raw {
    pub(crate) async fn connect(addr: SocketAddr) -> Self {
        Self::over(TcpStream::connect(addr).await.unwrap())
    }
}

impl<T: AsyncRead + AsyncWrite + Unpin> Raw<T> {
    pub(crate) fn over(io: T) -> Self {
        Self { io, seen: Vec::new() }
    }

    pub(crate) async fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.io.write_all(bytes.as_ref()).await.unwrap();
        self.io.flush().await.unwrap();
    }

    /// Sends what the other end may already have refused to read.
    pub(crate) async fn try_send(&mut self, bytes: impl AsRef<[u8]>) -> std::io::Result<()> {
        self.io.write_all(bytes.as_ref()).await
    }

    /// Reads until `mark` has arrived; returns everything up to and with it.
    pub(crate) async fn read_to(&mut self, mark: &str) -> String {
        let end = loop {
            if let Some(at) = self.seen.windows(mark.len()).position(|w| w == mark.as_bytes()) {
                break at + mark.len();
            }
            let more = soon(mark, self.io.read_buf(&mut self.seen)).await.unwrap();
            assert!(more > 0, "closed before {mark:?}, after {:?}", String::from_utf8_lossy(&self.seen));
        };
        String::from_utf8(self.seen.drain(..end).collect()).unwrap()
    }

    /// Reads `n` bytes.
    pub(crate) async fn read_exact(&mut self, n: usize) -> Vec<u8> {
        while self.seen.len() < n {
            let more = soon("body", self.io.read_buf(&mut self.seen)).await.unwrap();
            assert!(more > 0, "closed within a body");
        }
        self.seen.drain(..n).collect()
    }

    /// Reads one answer whose body has a length or is chunked.
    pub(crate) async fn answer(&mut self) -> Answer {
        let head = self.read_to("\r\n\r\n").await.to_ascii_lowercase();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        let field = |name: &str| head.lines().find_map(|l| l.strip_prefix(name).map(|v| v.trim().to_owned()));
        let mut body = Vec::new();
        if field("transfer-encoding:").is_some() {
            loop {
                let size = self.read_to("\r\n").await;
                let size = usize::from_str_radix(size.trim_end(), 16).unwrap();
                body.extend(self.read_exact(size).await);
                self.read_to("\r\n").await;
                if size == 0 {
                    break;
                }
            }
        } else if let Some(length) = field("content-length:") {
            body = self.read_exact(length.parse().unwrap()).await;
        }
        Answer { status, head, body }
    }

    /// Reads to the end of the connection, however it ends.
    pub(crate) async fn rest(&mut self) -> String {
        let mut rest = std::mem::take(&mut self.seen);
        soon("the end of the connection", async {
            while matches!(self.io.read_buf(&mut rest).await, Ok(n) if n > 0) {}
        })
        .await;
        String::from_utf8_lossy(&rest).into_owned()
    }
}
