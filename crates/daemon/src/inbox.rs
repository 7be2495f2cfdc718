//! The way into the core thread: two channels, one for what the watches see and one for everything that must not wait
//! behind it.
//!
//! Both are crossbeam channels, because the core is a plain thread that waits for either of them and for a deadline at
//! once. Both are unbounded, because every sender is a task or a callback inside the runtime, and a send to a full
//! channel would block a thread that other tasks need. Their bounds are set where waiting is possible: reflectors wait
//! for room in a semaphore before they send, and the results of our own work are bounded by the work itself. In the other
//! direction effects go over a tokio channel, because there a task receives them; a send to that never blocks either.
//!
//! Invariants: observations arrive in the order in which they were sent, by all senders, and so do results; what
//! reflectors send never exceeds [`CAPACITY`] inputs that the core has not taken yet, so a slow core slows the network
//! down instead of filling memory.

use std::fmt;
use std::sync::Arc;

use crossbeam_channel::{Receiver, Sender, unbounded};
use kube_scheduler_api_types::{Pod, Timestamp};
use kube_scheduler_engine::{Engine, Input};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

use crate::debugger::WatchedState;

/// How many inputs from reflectors may wait for the core.
const CAPACITY: u32 = 16_384;

/// What keeps its place among the changes that the watches see.
#[derive(Debug)]
pub(crate) enum Observation {
    /// What a reflector saw. The permit is given back once the core has taken the inputs.
    Changes(Vec<Input>, OwnedSemaphorePermit),
    /// The reflector of this number has passed on everything there was at its start.
    Synced(usize),
    /// This scheduler leads, and everything that the last leader did was sent before: decisions may start.
    Lead,
    /// Send back every pod known.
    ListPods(oneshot::Sender<Vec<Arc<Pod>>>),
    /// Answer a question about scheduling.
    Ask(Question),
    /// Compare the caches with what the watches saw, and dump them; then send a word back.
    CompareCaches(WatchedState, oneshot::Sender<()>),
}

/// A question that the core answers between two decisions. It sends its answer by itself, and nothing that is scheduled
/// depends on it.
pub(crate) struct Question(pub(crate) EngineTask);

/// What is done with the core thread's engine.
pub(crate) type EngineTask = Box<dyn FnOnce(&mut Engine, Moment) + Send>;

/// When a question is asked.
#[derive(Clone, Debug)]
pub(crate) struct Moment {
    pub(crate) now: Timestamp,
    /// How far the cluster had been seen: the newest revision of all objects.
    pub(crate) resource_version: Option<String>,
    /// Whether decisions are this scheduler's to make; if not, pods in its queue are tried by another one.
    pub(crate) is_leading: bool,
}

impl fmt::Debug for Question {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Question")
    }
}

/// What does not wait behind the changes that the watches see.
#[derive(Debug)]
pub(crate) enum Notice {
    /// The result of work that an effect started, or what a plugin asks for.
    Result(Input),
    /// Make no more decisions; end once all bindings under way have ended.
    Stop,
    /// End now.
    Quit,
}

/// The sending side.
#[derive(Clone, Debug)]
pub(crate) struct Inbox {
    observations: Sender<Observation>,
    notices: Sender<Notice>,
    room: Arc<Semaphore>,
}

/// The receiving side, which belongs to the core thread.
#[derive(Debug)]
pub(crate) struct InboxReceiver {
    pub(crate) observations: Receiver<Observation>,
    pub(crate) notices: Receiver<Notice>,
}

/// The core has ended and takes nothing any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the scheduling core has ended")]
pub(crate) struct CoreEnded;

impl Inbox {
    pub(crate) fn open() -> (Self, InboxReceiver) {
        let (observations, observations_out) = unbounded();
        let (notices, notices_out) = unbounded();
        let room = Arc::new(Semaphore::new(CAPACITY as usize));
        let receiver = InboxReceiver { observations: observations_out, notices: notices_out };
        (Self { observations, notices, room }, receiver)
    }

    /// Passes on what a reflector saw, as soon as there is room. Leaves `inputs` empty.
    pub(crate) async fn pass_on(&self, inputs: &mut Vec<Input>) -> Result<(), CoreEnded> {
        if inputs.is_empty() {
            return Ok(());
        }
        let weight = u32::try_from(inputs.len()).unwrap_or(CAPACITY).min(CAPACITY);
        let permit = self.room.clone().acquire_many_owned(weight).await.map_err(|_| CoreEnded)?;
        self.observe(Observation::Changes(std::mem::take(inputs), permit))
    }

    /// Sends an observation without waiting.
    pub(crate) fn observe(&self, observation: Observation) -> Result<(), CoreEnded> {
        self.observations.send(observation).map_err(|_| CoreEnded)
    }

    /// Reports the result of work that an effect started, or what a plugin asks for, without waiting.
    pub(crate) fn report(&self, result: Input) -> Result<(), CoreEnded> {
        self.notify(Notice::Result(result))
    }

    /// Sends a notice without waiting.
    pub(crate) fn notify(&self, notice: Notice) -> Result<(), CoreEnded> {
        self.notices.send(notice).map_err(|_| CoreEnded)
    }
}
