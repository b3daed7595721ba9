//! Where a document goes on. A cursor is a pair of references and an offset; both references belong to the tenant,
//! so a cursor of another is as good as none.

use std::{fmt, str::FromStr};

use super::ToolError;

/// See the module. Its text form is opaque to callers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Cursor {
    /// The whole text.
    pub(super) document: String,
    /// What the results show of its page.
    pub(super) about: String,
    /// Offset in bytes.
    pub(super) at: usize,
}

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{:x}", self.document, self.about, self.at)
    }
}

impl FromStr for Cursor {
    type Err = ToolError;

    fn from_str(text: &str) -> Result<Self, ToolError> {
        let mut parts = text.split('.');
        let (Some(document), Some(about), Some(at), None) =
            (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            return Err(unknown());
        };
        let at = usize::from_str_radix(at, 16).map_err(|_| unknown())?;
        Ok(Self { document: document.to_owned(), about: about.to_owned(), at })
    }
}

/// For text that is no cursor of this tool.
pub(super) fn unknown() -> ToolError {
    ToolError::new("invalid_arguments", "this cursor is not from here; take next_cursor as it was returned")
}

/// For a cursor whose document is gone.
pub(super) fn expired(error: ToolError) -> ToolError {
    if error.code == "ref_not_found" {
        return ToolError::new(error.code, "this cursor is unknown or has expired; fetch the url again");
    }
    error
}
