//! What a scheduler still has to write to the API server, and when each request may go out.
//!
//! An [`Outbox`] takes the [effects](kube_scheduler_engine::Effect) of an engine and gives out requests, one at a time,
//! to a caller that sends them and reports how each one ended. It sends nothing itself, reads no clock and starts no
//! thread: time is an argument, so the same calls give the same requests, in a daemon as in a simulation.
//!
//! The caller's loop is: [`push`](Outbox::push) what the engine asks for; send what
//! [`next_request`](Outbox::next_request) gives until it gives nothing; report each answer with
//! [`finish_pod_write`](Outbox::finish_pod_write) or [`finish_event`](Outbox::finish_event); and come back at
//! [`next_deadline`](Outbox::next_deadline) at the latest.
//!
//! ```
//! use std::time::Duration;
//!
//! use kube_scheduler_api_types::Timestamp;
//! use kube_scheduler_engine::{Effect, Input, PodRef, Token};
//! use kube_scheduler_writes::{Outbox, OutboxOptions, Success, Write};
//!
//! let now = Timestamp::EPOCH;
//! let mut outbox = Outbox::new(OutboxOptions::default(), now);
//! let pod = PodRef { namespace: "default".into(), name: "a".into(), uid: "1".into() };
//! outbox.push(Effect::WriteBinding { token: Token(7), pod, node: "n1".into() }, now);
//!
//! let request = outbox.next_request(now);
//! let Some(Write::Pod(binding)) = request.map(|request| request.write) else { panic!("no binding") };
//! assert!(outbox.next_request(now).is_none());
//!
//! // The server took it two milliseconds later.
//! let length = Duration::from_millis(2);
//! let ended = outbox.finish_pod_write(binding, Ok(Success::Done), length, now + length);
//! let input = ended.and_then(|ended| ended.into_input());
//! assert!(matches!(input, Some(Input::BindingWritten { token: Token(7), result: Ok(()) })));
//! ```
//!
//! Invariants: the writes of one pod go out one after the other, in the order in which they were asked for, but for announcements of
//! bindings, which go out last or not at all; bindings go
//! before conditions and conditions before events, but no class ever waits for good because of another; every write but
//! a status patch ends in exactly one [`Input`](kube_scheduler_engine::Input).
//!
//! Reading order: `outbox` ties it together; `lanes` orders the writes of pods (`pod_write`), some of which wait in
//! `announcements`; `events` orders those of events; `pace` says how many requests may be under way; `answer` is what a caller
//! reports; `correlator` counts events of the old form.

mod announcements;
mod answer;
mod correlator;
mod events;
mod jitter;
mod lanes;
mod outbox;
mod pace;
mod pod_write;

pub use answer::{Cause, EventAnswer, Failure, Success};
pub use correlator::CoreEvent;
pub use events::{EventKey, EventSeries, EventTableSize, EventWrite};
pub use jitter::Jitter;
pub use outbox::{
    ClassLoad, DroppedEvent, EndedWrite, EventApi, EventRequest, Load, Outbox, OutboxOptions,
    Write, WriteRequest,
};
pub use pace::{LONGEST_HOLD, RateLimit};
pub use pod_write::PodWrite;
