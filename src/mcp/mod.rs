//! The protocol, pure: parsing, repair, era, mirrored headers and response scanning. No I/O, no policy.

pub mod era;
