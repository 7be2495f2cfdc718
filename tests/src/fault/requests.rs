//! Writes on their way to the server and answers on their way back, and all that can go wrong with either.
//!
//! Invariants, as in the daemon: every write but a patch ends in exactly one answer, if its scheduler lives; a binding is
//! reported as failed only if the server said no, or if the pod was seen without it afterwards. A write that its scheduler
//! has given up may still arrive.

use std::sync::Arc;

use anyhow::Result;
use kube_scheduler_api_types::Object;
use kube_scheduler_engine::{Evicted, Input, PodRef};
use kube_scheduler_framework::{Status, WriteError};

use super::Fault;
use super::audit::Cause;
use super::outbox::Write;
use super::server::{Key, Refusal};
use super::simulation::Simulation;

/// One request. It belongs to one life of one scheduler.
#[derive(Clone, Debug)]
pub(super) struct Request {
    pub(super) seat: usize,
    pub(super) life: u64,
    pub(super) write: Write,
    pub(super) stage: Stage,
}

/// How far a request is.
#[derive(Clone, Debug)]
pub(super) enum Stage {
    /// On its way to the server.
    Sent,
    /// A binding of unknown outcome: the pod is read.
    LookUp { error: String },
    /// The answer is on its way back.
    Answered(Answer),
    /// Nobody waits for it any more; it may arrive all the same.
    Late,
}

/// What a scheduler is told.
#[derive(Clone, Debug)]
pub(super) enum Answer {
    Done,
    AlreadyGone,
    Stored(Arc<Object>),
    Failed { reason: &'static str, message: String },
}

impl Answer {
    fn refused(refusal: Refusal) -> Self {
        Self::Failed { reason: refusal.reason, message: refusal.message }
    }

    fn timed_out() -> Self {
        Self::Failed { reason: "", message: "timed out".to_owned() }
    }
}

fn key_of(pod: &PodRef) -> Key {
    (pod.namespace.to_string(), pod.name.to_string())
}

impl Simulation {
    /// One request goes on. False when there is none.
    pub(super) fn progress_any_request(&mut self) -> Result<bool> {
        let n = self.requests.len() as u64;
        if n == 0 {
            return Ok(false);
        }
        let at = usize::try_from(self.numbers.below(n))?;
        self.progress_request(at)?;
        Ok(true)
    }

    fn progress_request(&mut self, at: usize) -> Result<()> {
        let request = self.requests[at].clone();
        let is_awaited = self.lives(request.seat, request.life);
        match request.stage {
            Stage::Late => {
                self.requests.swap_remove(at);
                if !self.is_healing && self.numbers.one_in(3) {
                    return Ok(());
                }
                let answer = self.execute(&request.write)?;
                self.trace.add(format!(
                    "  a late {} of {} arrives: {answer:?}",
                    request.write.word(),
                    request.write.pod()
                ));
            }
            _ if !is_awaited => drop(self.requests.swap_remove(at)),
            Stage::Sent => {
                let stage = self.arrive(&request)?;
                self.requests[at].stage = stage;
            }
            Stage::LookUp { error } => {
                let stage = self.look_up(&request.write, error);
                self.requests[at].stage = Stage::Answered(stage);
            }
            Stage::Answered(answer) => {
                if self.is_frozen(request.seat) {
                    return Ok(());
                }
                self.requests.swap_remove(at);
                self.answer(request.seat, request.write, answer)?;
            }
        }
        Ok(())
    }

    /// A request reaches the server, or does not.
    fn arrive(&mut self, request: &Request) -> Result<Stage> {
        let write = &request.write;
        let fate = if self.is_healing { u64::MAX } else { self.numbers.below(16) };
        let fails = self.suffers(Fault::Writes);
        let unknown = |write: &Write| match write {
            Write::Bind { is_work: false, .. } => Stage::LookUp { error: "timed out".to_owned() },
            _ => Stage::Answered(Answer::timed_out()),
        };
        let (word, stage) = match fate {
            0 if fails => {
                let message = "internal error".to_owned();
                ("is refused", Stage::Answered(Answer::Failed { reason: "InternalError", message }))
            }
            1 if fails => ("is lost", unknown(write)),
            2 if fails => ("is asked to wait", Stage::Sent),
            3 | 4 if self.suffers(Fault::LateWrites) => {
                self.requests.push(Request { stage: Stage::Late, ..request.clone() });
                ("is delayed", unknown(write))
            }
            5 | 6 if fails => {
                self.execute(write)?;
                ("is done, and the answer lost", unknown(write))
            }
            _ => {
                let answer = self.execute(write)?;
                let stage = match (write, answer) {
                    (
                        Write::Bind { is_work: false, .. },
                        Answer::Failed { reason: "Conflict", message },
                    ) => Stage::LookUp { error: message },
                    (_, answer) => Stage::Answered(answer),
                };
                ("arrives", stage)
            }
        };
        self.trace.add(format!("  {} of {} {word}: {stage:?}", write.word(), write.pod()));
        Ok(stage)
    }

    /// The server does what it is asked to.
    fn execute(&mut self, write: &Write) -> Result<Answer> {
        let key = key_of(write.pod());
        let done = |written: std::result::Result<(), Refusal>| match written {
            Ok(()) => Answer::Done,
            Err(refusal) => Answer::refused(refusal),
        };
        Ok(match write {
            Write::Bind { pod, node, .. } => done(self.server.bind(&key, &pod.uid, node)?),
            Write::Patch { patch, .. } => done(self.server.patch_status(&key, patch)?),
            Write::ClearNomination { .. } => {
                let patch = kube_scheduler_engine::StatusPatch::NO_NOMINATION;
                done(self.server.patch_status(&key, &patch)?)
            }
            Write::Object { object, .. } => match self.server.replace(object)? {
                Ok(stored) => Answer::Stored(stored),
                Err(refusal) => Answer::refused(refusal),
            },
            Write::Evict { pod, patch, .. } => {
                if let Some(patch) = patch {
                    match self.server.patch_status(&key, patch)? {
                        Ok(()) => {}
                        Err(refusal) if refusal.code == 404 => return Ok(Answer::AlreadyGone),
                        Err(refusal) => return Ok(Answer::refused(refusal)),
                    }
                }
                if self.suffers(Fault::Writes) && self.numbers.one_in(8) {
                    return Ok(Answer::timed_out());
                }
                let now = self.now;
                match self.server.delete_pod(&key, Some(&pod.uid), false, now)? {
                    Ok(()) => Answer::Done,
                    Err(_) => Answer::AlreadyGone,
                }
            }
        })
    }

    /// Reads a pod to see whether its binding stands.
    fn look_up(&mut self, write: &Write, error: String) -> Answer {
        let Write::Bind { pod, node, .. } = write else { return Answer::timed_out() };
        let read = self.server.get("Pod", &key_of(pod));
        let stands = read.is_some_and(|read| {
            read["metadata"]["uid"] == *pod.uid && read["spec"]["nodeName"] == **node
        });
        let is_unreadable = self.suffers(Fault::Writes) && self.numbers.one_in(6);
        if stands && !is_unreadable {
            return Answer::Done;
        }
        Answer::Failed { reason: "", message: error }
    }

    /// A scheduler hears what became of its request.
    fn answer(&mut self, seat: usize, write: Write, answer: Answer) -> Result<()> {
        let Some(instance) = self.instance(seat) else { return Ok(()) };
        let (is_own, uid) = match &write {
            Write::Bind { is_work, pod, .. } => (*is_work, pod.uid.clone()),
            other => (false, other.pod().uid.clone()),
        };
        if !is_own {
            instance.outbox.finish(&uid);
        }
        let failed = match &answer {
            Answer::Failed { message, .. } => Some(message.clone()),
            _ => None,
        };
        let result = failed.clone().map_or(Ok(()), Err);
        let mut cause = Cause::News;
        let input = match write {
            Write::Patch { .. } => return Ok(()),
            Write::Bind { token, is_work, .. } => {
                cause = Cause::Bound { uid, is_done: failed.is_none() };
                if is_work {
                    let status = failed.map_or(Status::SUCCESS, Status::error);
                    Input::WorkFinished { token, status }
                } else {
                    Input::BindingWritten { token, result }
                }
            }
            Write::Evict { token, .. } => {
                let is_gone = matches!(answer, Answer::AlreadyGone);
                let evicted = if is_gone { Evicted::AlreadyGone } else { Evicted::Deleted };
                Input::PodEvicted { token, result: result.map(|()| evicted) }
            }
            Write::ClearNomination { token, .. } => Input::NominationCleared { token, result },
            Write::Object { token, object, .. } => {
                let result = match answer {
                    Answer::Stored(stored) => Ok(stored),
                    Answer::Failed { reason, message } => {
                        Err(WriteError { reason: reason.into(), message: message.into() })
                    }
                    Answer::Done | Answer::AlreadyGone => Ok(object),
                };
                Input::ObjectWritten { token, result }
            }
        };
        self.tell(seat, input, cause)
    }

    /// A scheduler sends the next write of one of its pods. False when there is none.
    pub(super) fn send(&mut self, seat: usize) -> Result<bool> {
        let life = self.life(seat);
        let is_holder = self.lease_is_held_by(seat);
        let mut choice = self.numbers.below(1 << 16);
        let Some(instance) = self.instance(seat) else { return Ok(false) };
        let write = match instance.own_bindings.pop() {
            Some(write) => Some(write),
            None => {
                let startable = instance.outbox.startable();
                choice %= (startable.len() as u64).max(1);
                let uid = startable.get(usize::try_from(choice)?);
                uid.and_then(|uid| instance.outbox.start(uid))
            }
        };
        let Some(write) = write else { return Ok(false) };
        if let Write::Bind { pod, is_work, .. } = &write {
            if *is_work {
                instance.audit.binding_asked(&pod.uid)?;
            }
            anyhow::ensure!(is_holder, "{} does not lead and binds pod {pod}", instance.name);
        }
        self.trace.add(format!("  {} of {} sets out", write.word(), write.pod()));
        self.counts.n_writes += 1;
        self.requests.push(Request { seat, life, write, stage: Stage::Sent });
        Ok(true)
    }

    /// A scheduler is gone: what it has sent may still arrive.
    pub(super) fn orphan_requests(&mut self, seat: usize) {
        let mut kept = Vec::new();
        for mut request in std::mem::take(&mut self.requests) {
            let is_late = matches!(request.stage, Stage::Late);
            if request.seat != seat || is_late {
                kept.push(request);
            } else if matches!(request.stage, Stage::Sent)
                && self.suffers(Fault::LateWrites)
                && self.numbers.one_in(2)
            {
                request.stage = Stage::Late;
                kept.push(request);
            }
        }
        self.requests = kept;
    }

    /// A plugin's work ends. False when none is under way.
    pub(super) fn end_work(&mut self, seat: usize) -> Result<bool> {
        let number = self.numbers.below(1 << 16);
        let is_healing = self.is_healing;
        let Some(instance) = self.instance(seat) else { return Ok(false) };
        if instance.works.is_empty() {
            return Ok(false);
        }
        let at = usize::try_from(number)? % instance.works.len();
        let work = instance.works.swap_remove(at);
        let status = match number % 5 {
            _ if work.is_cancelled => Status::error("context canceled"),
            0 if !is_healing => Status::error("the work failed"),
            1 if !is_healing => Status::unschedulable("the work found no way"),
            _ => Status::SUCCESS,
        };
        self.tell(seat, Input::WorkFinished { token: work.token, status }, Cause::News)?;
        Ok(true)
    }
}
