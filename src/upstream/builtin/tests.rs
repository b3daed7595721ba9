//! The built-in upstream, called directly.
