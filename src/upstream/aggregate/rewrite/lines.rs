//! The lines of an event stream, byte by byte, without keeping any.

/// Tells data from what frames it in an event stream. Every byte is one or the other.
#[derive(Debug, Default)]
pub(super) struct Lines {
    line: Line,
    /// The last byte was a CR: an LF now belongs to it.
    after_cr: bool,
    name: [u8; 4],
    name_len: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Line {
    #[default]
    Name,
    /// After the colon.
    Space {
        data: bool,
    },
    Value {
        data: bool,
    },
}

pub(super) enum What {
    Data,
    Frame,
    EventEnd,
}

impl Lines {
    /// How many of the first bytes belong together, and to what.
    pub(super) fn next(&mut self, rest: &[u8]) -> (usize, What) {
        let Some(&first) = rest.first() else { return (0, What::Frame) };
        if std::mem::take(&mut self.after_cr) && first == b'\n' {
            return (1, What::Frame);
        }
        if matches!(first, b'\n' | b'\r') {
            self.after_cr = first == b'\r';
            let empty = self.line == Line::Name && self.name_len == 0;
            (self.line, self.name_len) = (Line::Name, 0);
            return (1, if empty { What::EventEnd } else { What::Frame });
        }
        match self.line {
            Line::Name if first == b':' => {
                let data = self.name_len == 4 && &self.name == b"data";
                self.line = Line::Space { data };
                (1, What::Frame)
            }
            Line::Name => {
                // A byte-order mark at the start is not part of a name.
                if !matches!(first, 0xEF | 0xBB | 0xBF) {
                    if let Some(slot) = self.name.get_mut(self.name_len) {
                        *slot = first;
                    }
                    self.name_len += 1;
                }
                (1, What::Frame)
            }
            Line::Space { data } => {
                self.line = Line::Value { data };
                if first == b' ' { (1, What::Frame) } else { self.next(rest) }
            }
            Line::Value { data } => {
                let end = memchr::memchr2(b'\n', b'\r', rest).unwrap_or(rest.len());
                (end, if data { What::Data } else { What::Frame })
            }
        }
    }
}
