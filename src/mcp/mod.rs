//! The protocol, pure: parsing, repair, era, mirrored headers and response scanning. No I/O, no policy.

pub mod era;
pub mod headers;
pub mod json;
pub mod list_filter;
pub mod message;
pub mod method;
pub mod normalize;
pub mod response;
pub mod schema;
pub mod sse;
pub mod tools;
pub mod version;
