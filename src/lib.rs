//! The request path of Hedgerow, in the order a request meets it.

// `println!` and `eprintln!` panic when nobody reads: lines go through `control::log`.
#![deny(clippy::print_stdout, clippy::print_stderr)]

pub mod config;
pub mod boot;
pub mod shard;
pub mod upkeep;
pub mod model;
pub mod ids;
pub mod trail;
pub mod head;
pub mod reply;
pub mod problem;
pub mod edge;
pub mod search;
pub mod gateway;
pub mod compiler;
pub mod cache;
pub mod router;
pub mod engines;
pub mod merge;
pub mod answer;
pub mod text;
pub mod address;
pub mod wire;
pub mod mail;
pub mod shipped;
pub mod control;
pub mod metrics;
pub mod cli;
#[cfg(feature = "sim")]
pub mod simulate;
