//! The request path of Hedgerow, in the order a request meets it.

pub mod config;
pub mod model;
pub mod ids;
pub mod trail;
pub mod head;
pub mod reply;
pub mod problem;
pub mod edge;
pub mod wire;
