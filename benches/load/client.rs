//! A closed-loop HTTP/1.1 client on one blocking socket: as little as possible between two clock readings.
//! Reads answers with a length or in chunks, and checks each one.

use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
    time::{Duration, Instant},
};

use memchr::memmem;

use crate::{
    Res,
    bodies::{FIRST_ID, Template},
};

const TIMEOUT: Duration = Duration::from_secs(20);

/// One keep-alive connection.
pub(crate) struct Client {
    socket: TcpStream,
    buffer: Vec<u8>,
    body_at: usize,
    next_id: u64,
}

impl Client {
    /// Connects, with Nagle off.
    pub(crate) fn connect(address: SocketAddr) -> Res<Self> {
        let socket = TcpStream::connect(address)?;
        socket.set_nodelay(true)?;
        socket.set_read_timeout(Some(TIMEOUT))?;
        Ok(Self { socket, buffer: Vec::with_capacity(16 * 1024), body_at: 0, next_id: FIRST_ID })
    }

    /// One call: how long it took from the first byte sent to the last byte received, in microseconds.
    /// Fails unless the answer is a 200 that carries the call's own id.
    pub(crate) fn call(&mut self, template: &Template) -> Res<f64> {
        self.next_id += 1;
        let request = template.with_id(self.next_id);
        let start = Instant::now();
        self.socket.write_all(request.as_bytes())?;
        let body_at = self.read_answer()?;
        let took = start.elapsed();
        self.body_at = body_at;
        let (head, body) = self.buffer.split_at(body_at);
        let id = format!("\"id\":{}", self.next_id);
        if !head.starts_with(b"HTTP/1.1 200") || memmem::find(body, id.as_bytes()).is_none() {
            return Err(format!("unexpected answer: {}", String::from_utf8_lossy(&self.buffer)).into());
        }
        Ok(took.as_secs_f64() * 1e6)
    }

    /// The body of the last call's answer.
    pub(crate) fn body(&self) -> std::borrow::Cow<'_, str> {
        String::from_utf8_lossy(&self.buffer[self.body_at..])
    }

    /// `count` calls one after another.
    pub(crate) fn calls(&mut self, template: &Template, count: usize) -> Res<Vec<f64>> {
        (0..count).map(|_| self.call(template)).collect()
    }

    /// The body of a GET.
    pub(crate) fn get(&mut self, path: &str) -> Res<String> {
        write!(self.socket, "GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")?;
        let body_at = self.read_answer()?;
        Ok(String::from_utf8_lossy(&self.buffer[body_at..]).into_owned())
    }

    /// Sends `request` and reads up to the first event of the stream that answers it.
    pub(crate) fn open_stream(&mut self, request: &str) -> Res<()> {
        self.socket.write_all(request.as_bytes())?;
        self.buffer.clear();
        while memmem::find(&self.buffer, b"data:").is_none() {
            self.fill()?;
        }
        if self.buffer.starts_with(b"HTTP/1.1 200") {
            return Ok(());
        }
        Err(format!("unexpected answer: {}", String::from_utf8_lossy(&self.buffer)).into())
    }

    /// Reads one whole answer into the buffer; returns where its body starts.
    fn read_answer(&mut self) -> Res<usize> {
        self.buffer.clear();
        let body_at = loop {
            self.fill()?;
            if let Some(end) = memmem::find(&self.buffer, b"\r\n\r\n") {
                break end + 4;
            }
        };
        match content_length(&self.buffer[..body_at]) {
            Some(length) => {
                while self.buffer.len() < body_at + length {
                    self.fill()?;
                }
            }
            None => {
                while !self.buffer.ends_with(b"0\r\n\r\n") {
                    self.fill()?;
                }
            }
        }
        Ok(body_at)
    }

    fn fill(&mut self) -> Res<()> {
        let mut chunk = [0; 16 * 1024];
        match self.socket.read(&mut chunk)? {
            0 => Err(format!("closed after: {}", String::from_utf8_lossy(&self.buffer)).into()),
            n => {
                self.buffer.extend_from_slice(&chunk[..n]);
                Ok(())
            }
        }
    }
}

fn content_length(head: &[u8]) -> Option<usize> {
    let head = std::str::from_utf8(head).ok()?;
    let line = head
        .lines()
        .find(|line| line.get(..15).is_some_and(|name| name.eq_ignore_ascii_case("content-length:")))?;
    line[15..].trim().parse().ok()
}
