//! The `hedgerow` program.
fn main() {}
