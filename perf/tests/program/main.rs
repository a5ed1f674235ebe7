//! `hedgerow-perf` as a black box: every test starts the built program and reads what it says.

mod common;
mod engine;
mod generator;
mod idle;
mod planted;
