//! Waking another core: whoever posts a letter rings, and the core that slept looks into its lanes.
//!
//! The protocol is Dekker's: the sleeper raises `asleep`, then looks for mail; the sender posts,
//! then looks at `asleep`; a sequentially consistent fence between the two steps on both sides
//! makes it impossible that both look too early. So a ring to an awake core costs one load and no
//! system call, and a burst of rings costs one.
//!
//! It must never carry anything: letters travel by lanes.

use std::io;

#[cfg(feature = "sim")]
use crate::sim;

/// The end that wakes a core; may be rung from any thread.
#[derive(Clone)]
pub struct Ringer(pub(crate) RingerKind);

/// The end that waits, before it has reached its core.
pub struct BellSeed(pub(crate) SeedKind);

#[derive(Clone)]
pub(crate) enum RingerKind {
    #[cfg(any(feature = "monoio", feature = "glommio"))]
    Ring(std::sync::Arc<ring::Shared>),
    #[cfg(feature = "sim")]
    Sim(sim::bell::Ringer),
}

pub(crate) enum SeedKind {
    #[cfg(any(feature = "monoio", feature = "glommio"))]
    Ring(std::sync::Arc<ring::Shared>, std::fs::File),
    #[cfg(feature = "sim")]
    Sim(sim::bell::Ringer),
}

/// The end that waits, on its core.
pub struct Bell(pub(crate) BellKind);

pub(crate) enum BellKind {
    #[cfg(feature = "monoio")]
    Monoio(crate::monoio::Bell),
    #[cfg(feature = "glommio")]
    Glommio(crate::glommio::Bell),
    #[cfg(feature = "sim")]
    Sim(sim::bell::Bell),
}

/// A bell for the real backends. A simulated world makes its own (`sim::World::bell`).
///
/// # Errors
/// The operating system's (`EMFILE`); `Unsupported` in a build with no real backend.
pub fn bell() -> io::Result<(Ringer, BellSeed)> {
    #[cfg(any(feature = "monoio", feature = "glommio"))]
    {
        let shared = std::sync::Arc::new(ring::Shared::new()?);
        let reader = shared.reader()?;
        let seed = BellSeed(SeedKind::Ring(shared.clone(), reader));
        Ok((Ringer(RingerKind::Ring(shared)), seed))
    }
    #[cfg(not(any(feature = "monoio", feature = "glommio")))]
    Err(io::Error::new(io::ErrorKind::Unsupported, "no real backend is compiled in"))
}

impl Ringer {
    /// Wakes the core that waits on the bell; rings before it wakes are one. Never blocks.
    pub fn ring(&self) {
        match &self.0 {
            #[cfg(any(feature = "monoio", feature = "glommio"))]
            RingerKind::Ring(shared) => shared.ring(),
            #[cfg(feature = "sim")]
            RingerKind::Sim(ringer) => ringer.ring(),
        }
    }
}

impl Bell {
    /// Returns at once if `has_mail` holds, else when the bell rings (perhaps spuriously). The
    /// check is made after the bell is armed, so a letter posted before its ring is never slept
    /// over.
    ///
    /// # Cancel
    /// Safe: the bell stays armed and the next `wait` goes on from there.
    pub async fn wait(&mut self, has_mail: impl Fn() -> bool) {
        match &mut self.0 {
            #[cfg(feature = "monoio")]
            BellKind::Monoio(bell) => bell.wait(has_mail).await,
            #[cfg(feature = "glommio")]
            BellKind::Glommio(bell) => bell.wait(has_mail).await,
            #[cfg(feature = "sim")]
            BellKind::Sim(bell) => bell.wait(has_mail).await,
        }
    }
}

/// Raised by the sleeper, lowered by whoever wakes it.
pub(crate) struct Asleep(std::sync::atomic::AtomicBool);

impl Asleep {
    pub(crate) const fn new() -> Self {
        Self(std::sync::atomic::AtomicBool::new(false))
    }

    /// The sleeper's side: raise the flag, then look for mail. Whether it may sleep.
    pub(crate) fn may_sleep(&self, has_mail: impl Fn() -> bool) -> bool {
        use std::sync::atomic::{Ordering, fence};
        self.0.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        if has_mail() {
            self.0.store(false, Ordering::Relaxed);
            return false;
        }
        true
    }

    /// The sleeper's side, awake again: rings from here on cost no system call.
    pub(crate) fn wake(&self) {
        self.0.store(false, std::sync::atomic::Ordering::Relaxed);
    }

    /// The sender's side, after posting: whether this caller must wake the sleeper.
    pub(crate) fn must_wake(&self) -> bool {
        use std::sync::atomic::{Ordering, fence};
        fence(Ordering::SeqCst);
        self.0.load(Ordering::Relaxed) && self.0.swap(false, Ordering::AcqRel)
    }
}

/// What both ends of a real bell share.
#[cfg(any(feature = "monoio", feature = "glommio"))]
pub(crate) mod ring {
    use std::io;

    use super::Asleep;
    use crate::linux::eventfd::EventFd;

    pub(crate) struct Shared {
        asleep: Asleep,
        event: EventFd,
    }

    impl Shared {
        pub(super) fn new() -> io::Result<Self> {
            Ok(Self { asleep: Asleep::new(), event: EventFd::new()? })
        }

        pub(super) fn ring(&self) {
            if self.asleep.must_wake() {
                self.event.add_one();
            }
        }

        pub(crate) fn may_sleep(&self, has_mail: impl Fn() -> bool) -> bool {
            self.asleep.may_sleep(has_mail)
        }

        pub(crate) fn wake(&self) {
            self.asleep.wake();
        }

        pub(super) fn reader(&self) -> io::Result<std::fs::File> {
            self.event.reader()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_ring_to_a_sleeper_wakes_and_only_the_first() {
        let asleep = Asleep::new();
        assert!(!asleep.must_wake());
        assert!(asleep.may_sleep(|| false));
        assert!(asleep.must_wake());
        assert!(!asleep.must_wake());
    }

    #[test]
    fn mail_that_is_there_keeps_the_core_awake() {
        let asleep = Asleep::new();
        assert!(!asleep.may_sleep(|| true));
        assert!(!asleep.must_wake());
    }
}
