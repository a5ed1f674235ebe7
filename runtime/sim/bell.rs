//! A bell in a world: the same flag as a real one (a ring to a core that is awake does nothing),
//! and a delay before it is heard.

use std::rc::Rc;
use std::sync::Arc;
use std::task::{Poll, Waker};

use super::exec::News;
use super::world::Inner;
use crate::bell::Asleep;

#[derive(Clone)]
pub(crate) struct Ringer {
    news: Arc<News>,
    id: u32,
    asleep: Arc<Asleep>,
}

impl Ringer {
    pub(crate) fn new(news: Arc<News>, id: u32) -> Self {
        Self { news, id, asleep: Arc::new(Asleep::new()) }
    }

    pub(crate) fn ring(&self) {
        if self.asleep.must_wake() {
            self.news.with(|said| said.rung.push(self.id));
        }
    }
}

/// What the world keeps of a bell.
#[derive(Default)]
pub(crate) struct State {
    has_rung: bool,
    waiting: Option<Waker>,
}

impl State {
    pub(crate) fn ring(&mut self) -> Option<Waker> {
        self.has_rung = true;
        self.waiting.take()
    }
}

/// The waiting end.
pub(crate) struct Bell {
    world: Rc<Inner>,
    ringer: Ringer,
}

impl Bell {
    pub(crate) fn new(world: Rc<Inner>, ringer: Ringer) -> Self {
        assert!(Arc::ptr_eq(&world.news, &ringer.news), "a bell of another world");
        Self { world, ringer }
    }

    pub(crate) async fn wait(&mut self, has_mail: impl Fn() -> bool) {
        if !self.ringer.asleep.may_sleep(has_mail) {
            return;
        }
        let id = self.ringer.id as usize;
        std::future::poll_fn(|context| {
            let state = &mut self.world.bells.borrow_mut()[id];
            if std::mem::take(&mut state.has_rung) {
                return Poll::Ready(());
            }
            state.waiting = Some(context.waker().clone());
            Poll::Pending
        })
        .await;
        self.ringer.asleep.wake();
    }
}
