//! The shipped code in simulated worlds: one thread, virtual time, every run repeatable by its
//! seed.

mod breakers;
mod checks;
mod client;
mod coalescing;
mod deadlines;
mod drains;
mod engine;
mod hedging;
mod law;
mod reports;
mod scenarios;
mod seeds;
mod spares;
mod spine;
mod world;
