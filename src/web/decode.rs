//! Unpacks a body as it arrives. Invariant: it never holds more than its limit, nor a hundred times what arrived.

use std::io::{self, Write};

use flate2::write::{DeflateDecoder, MultiGzDecoder, ZlibDecoder};

/// A body may unpack to so many times its size...
const MAX_RATIO: usize = 100;
/// ...and to this much at any size: a short page of repetitions is no attack.
const ALWAYS: usize = 64 * 1024;
/// log2 of the largest zstd window (RFC 9659 allows 8 MiB on the web).
const ZSTD_WINDOW: u32 = 23;
const BUFFER: usize = 16 * 1024;

/// What went wrong with a body.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum DecodeError {
    /// Over the limit.
    TooLarge,
    /// Unpacks to more than any honest one.
    Bomb,
    /// Not what its header says.
    Broken,
    /// A coding that was not asked for.
    Unknown,
}

/// Unpacks one body.
pub(super) struct Decoder {
    coding: Coding,
    arrived: usize,
}

enum Coding {
    Identity(Capped),
    Gzip(Box<MultiGzDecoder<Capped>>),
    /// `deflate` before its first byte, which tells zlib from the raw form that some servers send.
    Deflate(Capped),
    Zlib(Box<ZlibDecoder<Capped>>),
    Raw(Box<DeflateDecoder<Capped>>),
    Brotli(Box<brotli::DecompressorWriter<Capped>>),
    Zstd(Box<zstd::stream::write::Decoder<'static, Capped>>),
}

/// Refuses what does not fit.
struct Capped {
    body: Vec<u8>,
    limit: usize,
    /// By ratio.
    allowed: usize,
    refused: Option<DecodeError>,
}

impl Write for Capped {
    fn write(&mut self, part: &[u8]) -> io::Result<usize> {
        let size = self.body.len() + part.len();
        if size > self.allowed {
            self.refused = Some(DecodeError::Bomb);
        } else if size > self.limit {
            self.refused = Some(DecodeError::TooLarge);
        }
        let room = self.limit.min(self.allowed).saturating_sub(self.body.len()).min(part.len());
        self.body.extend_from_slice(&part[..room]);
        if self.refused.is_some() {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        Ok(part.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Decoder {
    /// `coding`: the `Content-Encoding`, if any.
    pub(super) fn new(coding: Option<&str>, limit: usize) -> Result<Self, DecodeError> {
        let out = Capped { body: Vec::new(), limit, allowed: ALWAYS, refused: None };
        let coding = match coding.map(|c| c.trim().to_ascii_lowercase()).as_deref() {
            None | Some("" | "identity") => Coding::Identity(out),
            Some("gzip" | "x-gzip") => Coding::Gzip(Box::new(MultiGzDecoder::new(out))),
            Some("deflate") => Coding::Deflate(out),
            Some("br") => Coding::Brotli(Box::new(brotli::DecompressorWriter::new(out, BUFFER))),
            Some("zstd") => {
                let mut raw = zstd::stream::raw::Decoder::new().map_err(|_| DecodeError::Broken)?;
                raw.set_parameter(zstd::stream::raw::DParameter::WindowLogMax(ZSTD_WINDOW))
                    .map_err(|_| DecodeError::Broken)?;
                let writer = zstd::stream::zio::Writer::new(out, raw);
                Coding::Zstd(Box::new(zstd::stream::write::Decoder::with_writer(writer)))
            }
            Some(_) => return Err(DecodeError::Unknown),
        };
        Ok(Self { coding, arrived: 0 })
    }

    /// Takes the next part.
    pub(super) fn write(&mut self, part: &[u8]) -> Result<(), DecodeError> {
        let Some(&first) = part.first() else { return Ok(()) };
        if let Coding::Deflate(out) = &mut self.coding {
            let out =
                std::mem::replace(out, Capped { body: Vec::new(), limit: 0, allowed: 0, refused: None });
            // A zlib stream begins with its method, 8 (RFC 1950).
            self.coding = if first & 0x0f == 8 {
                Coding::Zlib(Box::new(ZlibDecoder::new(out)))
            } else {
                Coding::Raw(Box::new(DeflateDecoder::new(out)))
            };
        }
        self.arrived += part.len();
        let allowed = match self.coding {
            Coding::Identity(_) => usize::MAX,
            _ => ALWAYS.max(self.arrived.saturating_mul(MAX_RATIO)),
        };
        self.out().allowed = allowed;
        let written = match &mut self.coding {
            Coding::Identity(w) | Coding::Deflate(w) => w.write_all(part),
            Coding::Gzip(w) => w.write_all(part),
            Coding::Zlib(w) => w.write_all(part),
            Coding::Raw(w) => w.write_all(part),
            Coding::Brotli(w) => w.write_all(part),
            Coding::Zstd(w) => w.write_all(part),
        };
        written.map_err(|_| self.why())
    }

    /// The whole body.
    pub(super) fn finish(mut self) -> Result<Vec<u8>, DecodeError> {
        // Nothing arrived: an empty body in any coding.
        if self.arrived == 0 {
            return Ok(Vec::new());
        }
        let finished = match &mut self.coding {
            Coding::Identity(_) | Coding::Deflate(_) => Ok(()),
            Coding::Gzip(w) => w.try_finish(),
            Coding::Zlib(w) => w.try_finish(),
            Coding::Raw(w) => w.try_finish(),
            Coding::Brotli(w) => w.close(),
            Coding::Zstd(w) => w.flush(),
        };
        finished.map_err(|_| self.why())?;
        Ok(std::mem::take(&mut self.out().body))
    }

    /// What has been unpacked until now.
    pub(super) fn so_far(mut self) -> Vec<u8> {
        std::mem::take(&mut self.out().body)
    }

    fn out(&mut self) -> &mut Capped {
        match &mut self.coding {
            Coding::Identity(w) | Coding::Deflate(w) => w,
            Coding::Gzip(w) => w.get_mut(),
            Coding::Zlib(w) => w.get_mut(),
            Coding::Raw(w) => w.get_mut(),
            Coding::Brotli(w) => w.get_mut(),
            Coding::Zstd(w) => w.get_mut(),
        }
    }

    fn why(&mut self) -> DecodeError {
        self.out().refused.take().unwrap_or(DecodeError::Broken)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pack(coding: &str, body: &[u8]) -> Vec<u8> {
        use flate2::{Compression, write};
        let best = Compression::best();
        match coding {
            "gzip" => {
                let mut w = write::GzEncoder::new(Vec::new(), best);
                w.write_all(body).unwrap();
                w.finish().unwrap()
            }
            "deflate" => {
                let mut w = write::ZlibEncoder::new(Vec::new(), best);
                w.write_all(body).unwrap();
                w.finish().unwrap()
            }
            "raw" => {
                let mut w = write::DeflateEncoder::new(Vec::new(), best);
                w.write_all(body).unwrap();
                w.finish().unwrap()
            }
            "br" => {
                let mut out = Vec::new();
                brotli::CompressorWriter::new(&mut out, 4096, 5, 22).write_all(body).unwrap();
                out
            }
            "zstd" => zstd::bulk::compress(body, 3).unwrap(),
            _ => body.to_vec(),
        }
    }

    fn unpack(coding: &str, packed: &[u8], limit: usize) -> Result<Vec<u8>, DecodeError> {
        let name = if coding == "raw" { "deflate" } else { coding };
        let mut decoder = Decoder::new(Some(name), limit)?;
        for part in packed.chunks(1_000) {
            decoder.write(part)?;
        }
        decoder.finish()
    }

    const ALL: [&str; 6] = ["identity", "gzip", "deflate", "raw", "br", "zstd"];

    #[test]
    fn every_coding_is_unpacked() {
        let text: Vec<u8> = (0..40_000u32).flat_map(|n| n.to_string().into_bytes()).collect();
        for coding in ALL {
            assert_eq!(unpack(coding, &pack(coding, &text), 1 << 20).as_deref(), Ok(&text[..]), "{coding}");
            assert_eq!(unpack(coding, b"", 1 << 20).as_deref(), Ok(&b""[..]), "{coding}");
        }
        assert_eq!(unpack("compress", b"x", 10), Err(DecodeError::Unknown));
        assert_eq!(unpack("gzip, br", b"x", 10), Err(DecodeError::Unknown));
    }

    #[test]
    fn bombs_and_large_bodies_are_refused() {
        let zeros = vec![0; 8 << 20];
        for coding in &ALL[1..] {
            let packed = pack(coding, &zeros);
            assert!(packed.len() < zeros.len() / 100, "{coding}");
            assert_eq!(unpack(coding, &packed, 5 << 20), Err(DecodeError::Bomb), "{coding}");
        }
        let mut random = fastrand::Rng::with_seed(7);
        let noise: Vec<u8> = std::iter::repeat_with(|| random.u8(..)).take(300_000).collect();
        for coding in ALL {
            assert_eq!(
                unpack(coding, &pack(coding, &noise), 200_000),
                Err(DecodeError::TooLarge),
                "{coding}"
            );
        }
    }

    #[test]
    fn broken_bodies_are_refused() {
        for coding in &ALL[1..] {
            assert!(unpack(coding, b"\xff\xfethis is not packed at all", 1 << 20).is_err(), "{coding}");
        }
    }
}
