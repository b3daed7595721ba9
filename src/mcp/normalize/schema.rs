//! Input schemas, compiled to what coercion asks of them.

/// A compiled input schema.
#[derive(Debug, Clone, Default)]
pub struct Schema {}
