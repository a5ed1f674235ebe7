//! The request path of Hedgerow, in the order a request meets it.

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
pub mod control;
pub mod metrics;
pub mod cli;
