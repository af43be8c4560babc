//! Builds, serves and tests the playground.
fn main() {}
