//! A real ring over loopback: requests that are not, peers that misbehave, engines that do too.
//! Real time, free ports, every wait with a bound. First the whole program; then the edge and the
//! codec alone, with a toy service in the search path's place that can wait, panic and be left.

mod accounting;
mod answers;
mod edge;
mod engine;
mod http;
mod instance;

mod server;
mod toy;
mod peer;
mod cases;
mod misbehaviour;
mod lifecycle;
mod planted;
mod upstream;
