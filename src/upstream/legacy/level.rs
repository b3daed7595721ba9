//! Levels of log messages (RFC 5424, as MCP uses them), from the most talkative.

const NAMES: [&str; 8] = ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"];

/// One level; the less, the more is said.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Level(u8);

impl Level {
    pub(super) fn parse(name: &str) -> Option<Self> {
        NAMES.iter().zip(0..).find(|(n, _)| **n == name).map(|(_, at)| Self(at))
    }

    pub(super) fn name(self) -> &'static str {
        NAMES[usize::from(self.0)]
    }
}

#[cfg(test)]
mod tests {
    use super::Level;

    #[test]
    fn debug_says_the_most() {
        let level = |name| Level::parse(name).unwrap();
        assert!(level("debug") < level("info") && level("error") < level("emergency"));
        assert_eq!(level("notice").name(), "notice");
        assert_eq!(Level::parse("loud"), None);
    }
}
