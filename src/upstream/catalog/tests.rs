//! The catalog against real servers on loopback.
