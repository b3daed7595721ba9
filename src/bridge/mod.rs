//! Between the eras: what a client of one and a server of the other need so that neither notices.
//!
//! Inside, everything speaks the modern dialect. What is older is translated once, where it enters (`face`) or leaves
//! (`upstream::legacy`). Nothing here decides access, limits or budgets.

pub mod face;
pub mod hops;
pub mod parked;
pub mod sealed;
