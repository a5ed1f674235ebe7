//! `hedgerow-perf`: load, engines by a latency law, comparison, report.
fn main() {}
