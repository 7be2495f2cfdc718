//! The way into the core thread: one closed set of messages, bounded where the network could flood it.
//!
//! Invariants: messages of one sender arrive in order; what reflectors send never exceeds [`CAPACITY`] inputs that the
//! core has not taken yet, so a slow core slows the network down instead of filling memory; results of our own work are
//! not held back, since the work is bounded itself.

use std::sync::Arc;
use std::sync::mpsc;

use kube_scheduler_api_types::Pod;
use kube_scheduler_engine::Input;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

use crate::debugger::Actual;

/// How many inputs from reflectors may wait for the core.
const CAPACITY: u32 = 16_384;

/// Everything the core thread can be told.
#[derive(Debug)]
pub(crate) enum Message {
    /// What a reflector saw. The permit is given back once the core has taken the inputs.
    Seen(Vec<Input>, OwnedSemaphorePermit),
    /// The reflector of this number has told all there was at its start.
    Synced(usize),
    /// The result of work that an effect started.
    Done(Input),
    /// Tell of every pod known.
    TellPods(oneshot::Sender<Vec<Arc<Pod>>>),
    /// This scheduler leads, and has seen all that the last leader did: decisions may begin.
    Lead,
    /// Compare the caches with what the API server told, and dump them; then say so.
    Debug(Actual, oneshot::Sender<()>),
    /// Make no more decisions; end once all bindings under way have ended.
    Stop,
    /// End now.
    Quit,
}

/// The sending side.
#[derive(Clone, Debug)]
pub(crate) struct Inbox {
    sender: mpsc::Sender<Message>,
    room: Arc<Semaphore>,
}

/// The core has ended, so nothing can be told any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the scheduling core has ended")]
pub(crate) struct CoreEnded;

impl Inbox {
    pub(crate) fn open() -> (Self, mpsc::Receiver<Message>) {
        let (sender, receiver) = mpsc::channel();
        (Self { sender, room: Arc::new(Semaphore::new(CAPACITY as usize)) }, receiver)
    }

    /// Passes on what a reflector saw, as soon as there is room. Leaves `inputs` empty.
    pub(crate) async fn pass_on(&self, inputs: &mut Vec<Input>) -> Result<(), CoreEnded> {
        if inputs.is_empty() {
            return Ok(());
        }
        let weight = u32::try_from(inputs.len()).unwrap_or(CAPACITY).min(CAPACITY);
        let permit = self.room.clone().acquire_many_owned(weight).await.map_err(|_| CoreEnded)?;
        self.tell(Message::Seen(std::mem::take(inputs), permit))
    }

    /// Tells the core something without waiting.
    pub(crate) fn tell(&self, message: Message) -> Result<(), CoreEnded> {
        self.sender.send(message).map_err(|_| CoreEnded)
    }
}
