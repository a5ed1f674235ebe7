//! The shipped code in simulated worlds: one thread, virtual time, every run repeatable by its
//! seed.

mod checks;
mod client;
mod coalescing;
mod engine;
mod hedging;
mod scenarios;
mod seeds;
mod spine;
mod world;
