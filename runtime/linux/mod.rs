//! System calls that the two ring backends share: sockets with our options, eventfd, signals, the
//! clock. Small safe functions, so that nothing else outside a backend's folder needs `unsafe`.

pub(crate) mod clock;
pub(crate) mod eventfd;
pub(crate) mod memlock;
pub(crate) mod socket;
pub(crate) mod signals;
