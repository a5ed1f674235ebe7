//! What one core owns: pure structures. No `async`, no I/O, no clock: time and chance come in as
//! arguments.
