//! The whole program on a real ring, over loopback: requests that are not, peers that misbehave,
//! engines that do too. Real time, free ports, every wait with a bound.

mod answers;
mod edge;
mod engine;
mod http;
mod instance;
