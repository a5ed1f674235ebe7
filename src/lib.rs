//! The request path of Hedgerow, in the order a request meets it.

pub mod config;
pub mod model;
