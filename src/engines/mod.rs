//! What an upstream engine is, as data and pure functions: a manifest says how to ask and how to
//! read, `request::build` makes the bytes of a call, `verdict::judge` turns an answer into one
//! typed verdict and clean items.
//!
//! Nothing here opens a socket, reads a clock or draws chance, so that fixtures cover all of it.

pub mod manifest;
pub mod schema;
pub mod template;
pub mod request;
pub mod hooks;
pub mod verdict;
pub mod detect;
pub mod json;
pub mod parse;
pub mod state;
pub mod evidence;
pub mod leg;
pub mod ask;
#[cfg(test)]
mod fixtures;

pub use verdict::{Judged, Received};
