//! The codecs: bytes to messages and back, for the edge, the engines and the regional store. Pure
//! parsers first; the few functions that await only move bytes between a stream and a parser.

pub mod h1;
