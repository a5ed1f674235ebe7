//! What one core owns: pure structures. No `async`, no I/O, no clock: time and chance come in as
//! arguments.

/// Which of the two queues of admission a request belongs to.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Lane {
    /// People and agents that wait.
    Interactive,
    /// Batch keys; yields to the other.
    Batch,
}
