//! The `smartgate` program.
fn main() {}
