//! The native program `playground`.
fn main() {}
