//! The program as a process: its signals, its standard streams, its descriptors, its end. Each test
//! runs the built binary on free ports; every wait has a bound.

mod common;

mod descriptors;
mod refusals;
mod signals;
mod streams;
