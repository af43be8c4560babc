//! The Leptos page: shows and asks, holds no format logic.
fn main() {}
