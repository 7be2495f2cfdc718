//! A question on its way to its answer: a copy of the engine is taken where the engine is, which costs little, and the
//! answer is computed from the copy, wherever there is time for it.

use kube_scheduler_api_types::Timestamp;
use kube_scheduler_engine::{Engine, PodPlace};
use serde::Serialize;

use crate::Refusal;
use crate::capacity::{Capacity, capacity};
use crate::explanation::{
    ExplainOptions, Explanation, Subject, Visibility, explain_until, place_answer,
};
use crate::fragmentation::{Fragmentation, fragmentation};
use crate::interrupt::Interrupt;
use crate::preemption::{Preemption, preemption_until};
use crate::queue::{Queue, queue_until};
use crate::request::{Computation, Question};
use crate::what_if::{QuestionLimits, WhatIf, what_if};

/// How many entries each list of a [`WhatIf`] has at most for its reader over HTTP.
const MAX_WHAT_IF: usize = 10_000;

/// What an answer says about pods that wait, where another scheduler tries them.
const OF_STANDBY: &str = "the scheduler that was asked does not lead, and tries no pod: what waits in its queue, and where it goes, is what it would do if it led";

/// What is known of the moment at which a question was asked, enough to answer it.
#[derive(Debug)]
pub struct Inquiry {
    engine: Engine,
    now: Timestamp,
    /// Where the pod of the question was.
    place: Option<PodPlace>,
}

/// The answer to a question of any kind.
#[derive(Clone, Debug, Serialize)]
#[serde(untagged)]
#[non_exhaustive]
pub enum Answer {
    /// Why a pod is on its node, or has none.
    Explanation(Box<Explanation>),
    /// Which pods would be evicted to make room for a pod.
    Preemption(Box<Preemption>),
    /// What would happen after some changes of the cluster.
    WhatIf(Box<WhatIf>),
    /// How many more pods like a template fit.
    Capacity(Box<Capacity>),
    /// Which pods wait to be scheduled, and for what.
    Queue(Box<Queue>),
    /// How much of the free resources no pod could use.
    Fragmentation(Box<Fragmentation>),
}

impl Inquiry {
    /// Records what the answer to `question` needs, a copy of the engine included. [`Engine::fork`] says what a copy costs.
    pub fn new(question: &Question, engine: &Engine, now: Timestamp) -> Self {
        let place = match &question.asked {
            Computation::Explanation { subject: Subject::Known(name), .. } => {
                engine.place_of(&name.namespace, &name.name)
            }
            _ => None,
        };
        Self { engine: engine.fork(now), now, place }
    }

    /// Computes the answer to the same question. That may take long, and `interrupt` ends it early.
    ///
    /// # Errors
    /// If the question is about something that does not exist or that the scheduler is not responsible for.
    pub fn answer(self, question: &Question, interrupt: &Interrupt) -> Result<Answer, Refusal> {
        let Self { mut engine, now, place } = self;
        let interrupt = interrupt.clone();
        let warnings = question.objects.add_to(&mut engine, &interrupt, now);
        let mut answer = match &question.asked {
            Computation::Explanation { subject, suggest } => {
                let all = ExplainOptions::ALL;
                let mut answer = explain_until(&mut engine, subject, all, &interrupt, now)?;
                if let Some(pod) = subject.pod_in(&engine).filter(|_| *suggest) {
                    answer.suggest(&engine, &pod, &interrupt, now);
                }
                // In the copy bindings under way have ended.
                answer.place = place.map(place_answer).or(answer.place);
                Answer::Explanation(Box::new(answer))
            }
            Computation::Preemption { subject } => {
                let answer =
                    preemption_until(&mut engine, subject, ExplainOptions::ALL, &interrupt, now)?;
                Answer::Preemption(Box::new(answer))
            }
            Computation::WhatIf { changes } => {
                let limits = QuestionLimits { interrupt, ..QuestionLimits::default() };
                Answer::WhatIf(Box::new(what_if(&engine, changes, limits, now)?))
            }
            Computation::Capacity { template, options } => {
                let mut options = options.clone();
                options.interrupt = interrupt;
                Answer::Capacity(Box::new(capacity(&engine, template, options, now)?))
            }
            Computation::Queue { options } => {
                // What its reader may not see is taken out before the list is cut.
                let mut options = *options;
                options.max_listed = usize::MAX;
                Answer::Queue(Box::new(queue_until(&engine, options, &interrupt, now)))
            }
            Computation::Fragmentation { options } => {
                let mut options = options.clone();
                options.interrupt = interrupt;
                Answer::Fragmentation(Box::new(fragmentation(&engine, &options, now)))
            }
        };
        answer.warnings().extend(warnings);
        Ok(answer)
    }
}

impl Answer {
    fn warnings(&mut self) -> &mut Vec<String> {
        match self {
            Self::Explanation(answer) => &mut answer.warnings,
            Self::Preemption(answer) => &mut answer.warnings,
            Self::WhatIf(answer) => &mut answer.warnings,
            Self::Capacity(answer) => &mut answer.warnings,
            Self::Queue(answer) => &mut answer.warnings,
            Self::Fragmentation(answer) => &mut answer.warnings,
        }
    }

    /// The answer as a scheduler that does not lead gives it: with a warning that says so, unless the answer does not depend on the queue.
    #[must_use]
    pub fn of_standby(mut self) -> Self {
        if !matches!(self, Self::Capacity(_) | Self::Fragmentation(_)) {
            self.warnings().push(OF_STANDBY.to_owned());
        }
        self
    }

    /// The answer as its reader gets it: without the names that may not be seen, and with shorter lists.
    #[must_use]
    pub fn for_reader(
        self,
        question: &Question,
        reader: Visibility,
        listed: ExplainOptions,
    ) -> Self {
        let namespace = question.namespace();
        match self {
            Self::Explanation(answer) => {
                Self::Explanation(Box::new(answer.visible_to(reader).limited(listed)))
            }
            Self::Preemption(answer) => {
                Self::Preemption(Box::new(answer.limited(listed).visible_to(reader)))
            }
            Self::WhatIf(answer) => {
                let seen = answer.visible_to(reader, namespace);
                Self::WhatIf(Box::new(seen.limited(MAX_WHAT_IF)))
            }
            Self::Capacity(answer) => {
                Self::Capacity(Box::new(answer.limited(listed).visible_to(reader)))
            }
            Self::Queue(answer) => {
                let max = match &question.asked {
                    Computation::Queue { options } => options.max_listed,
                    _ => listed.max_feasible,
                };
                Self::Queue(Box::new(answer.visible_to(reader, namespace).limited(max)))
            }
            Self::Fragmentation(answer) => {
                Self::Fragmentation(Box::new(answer.visible_to(reader, namespace)))
            }
        }
    }

    /// The answer in columns, wide ones if asked for.
    pub fn table(&self, wide: bool) -> String {
        match self {
            Self::Explanation(answer) => answer.table(wide),
            Self::Preemption(answer) => answer.table(wide),
            Self::WhatIf(answer) => answer.table(wide),
            Self::Capacity(answer) => answer.table(wide),
            Self::Queue(answer) => answer.table(wide),
            Self::Fragmentation(answer) => answer.table(wide),
        }
    }
}
