//! Writes on their way to the server and answers on their way back, and all that can go wrong with either.
//!
//! Invariants, as in the daemon: every write but a patch ends in exactly one answer, if its scheduler lives; a binding is
//! reported as failed only if the server said no, or if the pod was seen without it afterwards. A write that its scheduler
//! has given up may still arrive. The server may ask for patience: the write goes back to the outbox then.

use std::time::Duration;

use anyhow::Result;
use kube_scheduler_engine::{Input, PodRef, StatusPatch};
use kube_scheduler_framework::{ObjectWrite, Status};
use kube_scheduler_writes::{
    Cause as FailureCause, EventAnswer, EventRequest, Failure, PodWrite, Success, Write,
};

use super::Fault;
use super::audit::Cause;
use super::claims::CLAIM;
use super::instance::OwnBinding;
use super::server::{Key, Refusal};
use super::simulation::Simulation;

/// How long a request takes, to the outbox's knowledge.
const LENGTH: Duration = Duration::from_millis(5);

/// One request. It belongs to one life of one scheduler.
#[derive(Clone, Debug)]
pub(super) struct Request {
    pub(super) seat: usize,
    pub(super) life: u64,
    pub(super) sent: SentWrite,
    pub(super) stage: Stage,
}

/// What a request writes.
#[derive(Clone, Debug)]
pub(super) enum SentWrite {
    /// What the outbox gave out.
    Write(PodWrite),
    /// A plugin's own binding, which no outbox orders and no shell looks up.
    OwnBinding(OwnBinding),
}

/// Whether a claim gets devices by this write.
fn is_allocation(write: &ObjectWrite) -> bool {
    matches!(write, ObjectWrite::ReplaceStatus(claim) if !claim.json["status"]["allocation"].is_null())
}

impl SentWrite {
    const fn pod(&self) -> &PodRef {
        match self {
            Self::Write(write) => write.pod(),
            Self::OwnBinding(binding) => &binding.pod,
        }
    }

    const fn word(&self) -> &'static str {
        match self {
            Self::OwnBinding(_) | Self::Write(PodWrite::Bind { .. }) => "binding",
            Self::Write(PodWrite::Evict { .. }) => "eviction",
            Self::Write(PodWrite::ClearNomination { .. }) => "clearing",
            Self::Write(PodWrite::Patch { .. }) => "patch",
            Self::Write(PodWrite::Object { .. }) => "object",
        }
    }

    /// Whether the shell looks at the pod when the outcome is unknown.
    const fn is_looked_up(&self) -> bool {
        matches!(self, Self::Write(PodWrite::Bind { .. }))
    }

    /// Whether it is about a claim, or names one in a pod's status.
    fn claim_write(&self) -> Option<&ObjectWrite> {
        match self {
            Self::Write(PodWrite::Object { write, .. }) => {
                let kind = write.key().kind;
                Some(write).filter(|_| *kind == *CLAIM || *kind == *"Pod")
            }
            _ => None,
        }
    }

    /// Whether it is lost if its scheduler does not lead any more when it arrives.
    fn ends_with_lease(&self) -> bool {
        self.claim_write().is_some()
    }

    /// Whether it may arrive after its scheduler has given it up. What a pod's status says of its claim is patched without a
    /// revision: late, it would undo what was written since.
    fn can_be_late(&self) -> bool {
        let is_of_pod = |write: &ObjectWrite| *write.key().kind == *"Pod";
        !self.claim_write().is_some_and(is_of_pod)
    }
}

/// How far a request is.
#[derive(Clone, Debug)]
pub(super) enum Stage {
    /// On its way to the server.
    Sent,
    /// A binding of unknown outcome: the pod is read.
    LookUp { failure: Failure },
    /// The answer is on its way back.
    Answered(Answer),
    /// Its sender has given it up; it may arrive nevertheless.
    Late,
}

/// How a request ended.
type Answer = std::result::Result<Success, Failure>;

fn refused(refusal: Refusal) -> Failure {
    failed(FailureCause::Status(refusal.code), refusal.reason, &refusal.message)
}

fn timed_out() -> Failure {
    failed(FailureCause::Timeout, "", "timed out")
}

fn failed(cause: FailureCause, reason: &str, message: &str) -> Failure {
    Failure { cause, reason: reason.into(), message: message.to_owned(), retry_after: None }
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
                if request.sent.ends_with_lease() && !self.leads(&request) {
                    return Ok(());
                }
                let answer = self.execute(&request.sent)?;
                self.trace.add(format!(
                    "  a late {} of {} arrives: {answer:?}",
                    request.sent.word(),
                    request.sent.pod()
                ));
            }
            _ if !is_awaited => drop(self.requests.swap_remove(at)),
            Stage::Sent if request.sent.ends_with_lease() && !self.leads(&request) => {
                self.requests[at].stage = Stage::Answered(Err(timed_out()));
            }
            Stage::Sent => {
                let stage = self.arrive(&request)?;
                match self.tried_again(&request.sent, &stage) {
                    Some(sent) => self.requests[at].sent = sent,
                    None => self.requests[at].stage = stage,
                }
            }
            Stage::LookUp { failure } => {
                let answer = self.look_up(&request.sent, failure);
                self.requests[at].stage = Stage::Answered(answer);
            }
            Stage::Answered(answer) => {
                if self.is_frozen(request.seat) {
                    return Ok(());
                }
                self.requests.swap_remove(at);
                self.answer(request.seat, request.sent, answer)?;
            }
        }
        Ok(())
    }

    /// A patch whose revision is over, with the present one, unless its sender has tried often enough.
    fn tried_again(&mut self, sent: &SentWrite, stage: &Stage) -> Option<SentWrite> {
        let SentWrite::Write(PodWrite::Object { write, .. }) = sent else { return None };
        let Stage::Answered(Err(failure)) = stage else { return None };
        let write =
            self.server.with_present_revision(write).filter(|_| failure.code() == Some(409))?;
        if self.numbers.one_in(5) {
            return None;
        }
        let mut again = sent.clone();
        if let SentWrite::Write(PodWrite::Object { write: known, .. }) = &mut again {
            *known = write;
        }
        self.trace.add(format!("  {} of {} is tried again", sent.word(), sent.pod()));
        Some(again)
    }

    fn leads(&self, request: &Request) -> bool {
        self.lives(request.seat, request.life) && self.lease_is_held_by(request.seat)
    }

    /// The server does what it is asked to while its scheduler waits for the answer.
    fn carry_out(&mut self, sent: &SentWrite) -> Result<Answer> {
        let answer = self.execute(sent)?;
        if answer.is_ok() && sent.word() == "binding" {
            self.server.check_claims_of(sent.pod())?;
            self.check_extended_resources_of(sent.pod())?;
        }
        Ok(answer)
    }

    /// A request reaches the server, or does not.
    fn arrive(&mut self, request: &Request) -> Result<Stage> {
        let sent = &request.sent;
        let fate = if self.is_healing { u64::MAX } else { self.numbers.below(16) };
        let fails = self.suffers(Fault::Writes);
        let unknown = |sent: &SentWrite| match sent.is_looked_up() {
            true => Stage::LookUp { failure: timed_out() },
            false => Stage::Answered(Err(timed_out())),
        };
        let (word, stage) = match fate {
            0 if fails => {
                let cause = FailureCause::Status(500);
                let failure = failed(cause, "InternalError", "internal error");
                let stage = match sent.is_looked_up() {
                    true => Stage::LookUp { failure },
                    false => Stage::Answered(Err(failure)),
                };
                ("is refused", stage)
            }
            1 if fails => ("is lost", unknown(sent)),
            2 if fails => {
                let cause = FailureCause::Status(429);
                let retry_after = Some(Duration::from_millis(100 + self.numbers.below(3_000)));
                let failure =
                    Failure { retry_after, ..failed(cause, "TooManyRequests", "slow down") };
                ("is asked to wait", Stage::Answered(Err(failure)))
            }
            3 | 4 if self.suffers(Fault::LateWrites) && sent.can_be_late() => {
                self.requests.push(Request { stage: Stage::Late, ..request.clone() });
                ("is delayed", unknown(sent))
            }
            5 | 6 if fails => {
                drop(self.carry_out(sent)?);
                ("is done, and the answer lost", unknown(sent))
            }
            _ => {
                let stage = match self.carry_out(sent)? {
                    Err(failure) if sent.is_looked_up() && failure.code() == Some(409) => {
                        Stage::LookUp { failure }
                    }
                    answer => Stage::Answered(answer),
                };
                ("arrives", stage)
            }
        };
        self.trace.add(format!("  {} of {} {word}: {stage:?}", sent.word(), sent.pod()));
        Ok(stage)
    }

    /// The server does what it is asked to.
    fn execute(&mut self, sent: &SentWrite) -> Result<Answer> {
        let key = key_of(sent.pod());
        let done = |written: std::result::Result<(), Refusal>| {
            written.map(|()| Success::Done).map_err(refused)
        };
        let write = match sent {
            SentWrite::OwnBinding(OwnBinding { pod, node, .. }) => {
                return Ok(done(self.server.bind(&key, &pod.uid, node)?));
            }
            SentWrite::Write(write) => write,
        };
        Ok(match write {
            PodWrite::Bind { pod, node, .. } => done(self.server.bind(&key, &pod.uid, node)?),
            PodWrite::Patch { patch, .. } => done(self.server.patch_status(&key, patch)?),
            PodWrite::ClearNomination { .. } => {
                done(self.server.patch_status(&key, &StatusPatch::NO_NOMINATION)?)
            }
            PodWrite::Object { write, .. } => {
                let written = self.server.write_object(write)?;
                if is_allocation(write) && written.is_ok() {
                    self.counts.n_allocated += 1;
                }
                if matches!(write, ObjectWrite::Create(_)) && written.is_ok() {
                    self.counts.n_made += 1;
                }
                written.map_err(refused)
            }
            PodWrite::Evict { pod, patch, .. } => {
                if let Some(patch) = patch {
                    match self.server.patch_status(&key, patch)? {
                        Ok(()) => {}
                        Err(refusal) if refusal.code == 404 => return Ok(Ok(Success::AlreadyGone)),
                        Err(refusal) => return Ok(Err(refused(refusal))),
                    }
                }
                if self.suffers(Fault::Writes) && self.numbers.one_in(8) {
                    return Ok(Err(timed_out()));
                }
                let now = self.now;
                let deleted = self.server.delete_pod(&key, Some(&pod.uid), false, now)?;
                Ok(if deleted.is_ok() { Success::Done } else { Success::AlreadyGone })
            }
        })
    }

    /// Reads a pod to see whether its binding stands.
    fn look_up(&mut self, sent: &SentWrite, failure: Failure) -> Answer {
        let SentWrite::Write(PodWrite::Bind { pod, node, .. }) = sent else { return Err(failure) };
        let read = self.server.get("Pod", &key_of(pod));
        let stands = read.is_some_and(|read| {
            read["metadata"]["uid"] == *pod.uid && read["spec"]["nodeName"] == **node
        });
        let is_unreadable = self.suffers(Fault::Writes) && self.numbers.one_in(6);
        if stands && !is_unreadable { Ok(Success::Done) } else { Err(failure) }
    }

    /// A scheduler gets the answer to its request.
    fn answer(&mut self, seat: usize, sent: SentWrite, answer: Answer) -> Result<()> {
        let Some(instance) = self.instance(seat) else { return Ok(()) };
        let uid = sent.pod().uid.clone();
        let (input, cause) = match sent {
            SentWrite::OwnBinding(OwnBinding { token, .. }) => {
                let cause = Cause::Bound { uid, is_done: answer.is_ok() };
                let status = match answer {
                    Ok(_) => Status::SUCCESS,
                    Err(failure) => Status::error(failure.message),
                };
                (Input::WorkFinished { token, status }, cause)
            }
            SentWrite::Write(write) => {
                instance.audit.write_ends(&uid);
                let now = instance.now;
                let Some(ended) = instance.outbox.finish_pod_write(write, answer, LENGTH, now)
                else {
                    return Ok(());
                };
                let cause = match &ended.write {
                    PodWrite::Bind { .. } => Cause::Bound { uid, is_done: ended.result.is_ok() },
                    _ => Cause::News,
                };
                let Some(input) = ended.into_input() else { return Ok(()) };
                (input, cause)
            }
        };
        self.feed(seat, input, cause)
    }

    /// A scheduler sends its next request. False when none may go out.
    pub(super) fn send(&mut self, seat: usize) -> Result<bool> {
        let life = self.life(seat);
        let is_holder = self.lease_is_held_by(seat);
        let Some(sent) = self.next_request(seat)? else { return Ok(false) };
        let Some(instance) = self.instance(seat) else { return Ok(false) };
        if let SentWrite::OwnBinding(OwnBinding { pod, .. }) = &sent {
            instance.audit.binding_asked(&pod.uid)?;
        }
        if sent.word() == "binding" {
            let pod = sent.pod();
            anyhow::ensure!(is_holder, "{} does not lead and binds pod {pod}", instance.name);
        }
        self.trace.add(format!("  {} of {} sets out", sent.word(), sent.pod()));
        self.counts.n_writes += 1;
        self.requests.push(Request { seat, life, sent, stage: Stage::Sent });
        Ok(true)
    }

    /// What a scheduler sends next about a pod. Events that go out before it are answered at once: no decision depends on
    /// when they arrive.
    fn next_request(&mut self, seat: usize) -> Result<Option<SentWrite>> {
        loop {
            let Some(instance) = self.instance(seat) else { return Ok(None) };
            if let Some(binding) = instance.own_bindings.pop() {
                return Ok(Some(SentWrite::OwnBinding(binding)));
            }
            match instance.outbox.next_request(instance.now).map(|request| request.write) {
                None => return Ok(None),
                Some(Write::Pod(write)) => {
                    instance.audit.write_starts(write.pod())?;
                    return Ok(Some(SentWrite::Write(write)));
                }
                Some(Write::Event(request)) => self.answer_event(seat, request),
            }
        }
    }

    /// The server takes an event, or does not.
    fn answer_event(&mut self, seat: usize, request: EventRequest) {
        let fate = if self.suffers(Fault::Writes) { self.numbers.below(16) } else { u64::MAX };
        let answer = match fate {
            0 | 1 => EventAnswer::Unreachable,
            2 => EventAnswer::RetryAfter(Duration::from_secs(1)),
            _ => EventAnswer::Done,
        };
        let event = &request.event;
        self.trace.add(format!(
            "  event {} {:?} of {}: {answer:?}",
            event.name, event.series, event.key.pod
        ));
        let Some(instance) = self.instance(seat) else { return };
        // An event that is given up is lost for users, and for nothing else.
        let _ = instance.outbox.finish_event(request, answer, LENGTH, instance.now);
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
        self.feed(seat, Input::WorkFinished { token: work.token, status }, Cause::News)?;
        Ok(true)
    }
}
