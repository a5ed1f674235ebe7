//! A bell on glommio: an eventfd that is read through the ring as if it were a file, one read per
//! sleep. glommio's own way, a waker used on another thread, costs a membarrier and an i16 count of
//! references that aborts past 32,767.

use std::fs::File;
use std::future::Future;
use std::io;
use std::os::fd::{FromRawFd, IntoRawFd};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;

use glommio::io::BufferedFile;

use super::{Core, InFlight};
use crate::bell::ring::Shared;

type Read = Pin<Box<dyn Future<Output = io::Result<()>>>>;

/// The waiting end.
pub(crate) struct Bell {
    core: Rc<Core>,
    shared: Arc<Shared>,
    file: Rc<BufferedFile>,
    /// The read in the kernel's hands; it outlives a `wait` that is dropped, as on monoio.
    read: Option<Read>,
}

impl Bell {
    pub(super) fn new(core: Rc<Core>, shared: Arc<Shared>, reader: File) -> Self {
        // SAFETY: the descriptor is open and ours to give away.
        let file = unsafe { BufferedFile::from_raw_fd(reader.into_raw_fd()) };
        Self { core, shared, file: Rc::new(file), read: None }
    }

    pub(crate) async fn wait(&mut self, has_mail: impl Fn() -> bool) {
        if !self.shared.may_sleep(has_mail) {
            return;
        }
        let read = self.read.get_or_insert_with(|| begin(self.core.clone(), self.file.clone()));
        let result = read.as_mut().await;
        self.read = None;
        self.shared.wake();
        if let Err(error) = result {
            // Let everything else run before the next look for mail.
            tracing::error!(%error, "cannot wait on a bell");
            glommio::executor().yield_now().await;
        }
    }
}

fn begin(core: Rc<Core>, file: Rc<BufferedFile>) -> Read {
    Box::pin(async move {
        let flight = InFlight::begin(core);
        let result = file.read_at(0, 8).await;
        flight.end();
        result.map(drop).map_err(io::Error::from)
    })
}
