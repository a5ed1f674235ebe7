//! The simulated backend.
