//! A bell on monoio: an eventfd that is read through the ring, one read per sleep.

use std::fs;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;

use monoio::fs::File;

use super::{Core, InFlight};
use crate::bell::ring::Shared;

type Read = Pin<Box<dyn Future<Output = io::Result<()>>>>;

/// The waiting end.
pub(crate) struct Bell {
    core: Rc<Core>,
    shared: Arc<Shared>,
    file: Rc<File>,
    /// The read in the kernel's hands. It outlives a `wait` that is dropped: a read takes the ring
    /// away, so to forget a read could be to sleep over a letter.
    read: Option<Read>,
}

impl Bell {
    pub(super) fn new(core: Rc<Core>, shared: Arc<Shared>, reader: fs::File) -> Self {
        let file = Rc::new(File::from_std(reader).expect("monoio only wraps the descriptor"));
        Self { core, shared, file, read: None }
    }

    pub(crate) async fn wait(&mut self, has_mail: impl Fn() -> bool) {
        if !self.shared.may_sleep(has_mail) {
            return;
        }
        let read = self.read.get_or_insert_with(|| begin(self.core.clone(), Rc::clone(&self.file)));
        let result = read.as_mut().await;
        self.read = None;
        self.shared.wake();
        if let Err(error) = result {
            // Let everything else run before the next look for mail.
            tracing::error!(%error, "cannot wait on a bell");
            super::turn::YieldNow::new(self.core.clone()).await;
        }
    }
}

fn begin(core: Rc<Core>, file: Rc<File>) -> Read {
    Box::pin(async move {
        let flight = InFlight::begin(core);
        let (result, _) = file.read_at(Vec::with_capacity(8), 0).await;
        flight.end();
        result.map(drop)
    })
}
