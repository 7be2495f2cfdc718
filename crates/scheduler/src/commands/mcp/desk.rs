//! Where questions are answered: one at a time, each from the cluster as it is then.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use kube_scheduler_answers::{
    ExplainOptions, Inquiry, Interrupt, Question, QuestionKind, Visibility,
};
use kube_scheduler_api_types::CompileOptions;
use kube_scheduler_runtime::Registry;
use serde_json::Value;
use tokio::sync::{Mutex, Semaphore};
use tokio::time::timeout;

use crate::commands::sources::{QueryableCluster, Source};

/// Questions that wait or are answered; further ones are refused.
const MAX_QUESTIONS: usize = 4;
/// How long a question may take, reading the cluster included.
const PATIENCE: Duration = Duration::from_secs(120);
/// A user who reads the cluster with rights of their own may see all that was read.
const EVERYTHING: Visibility = Visibility { nodes: true, all_pods: true };

/// An answer, and who gave it from what.
pub(super) struct DeskAnswer {
    pub(super) answer: Value,
    pub(super) remarks: Vec<String>,
}

/// Answers questions.
pub(super) struct Desk {
    source: Arc<Source>,
    registry: Registry,
    pod_options: CompileOptions,
    places: Semaphore,
    /// A question that is read from a cluster may take as much memory as the cluster's objects, so there is one at a time. The
    /// work keeps its turn until it has ended, also when its caller is gone.
    turn: Arc<Mutex<()>>,
}

/// Ends the work on an answer once its caller is gone.
struct InterruptOnDrop(Interrupt);

impl Drop for InterruptOnDrop {
    fn drop(&mut self) {
        self.0.set();
    }
}

impl Desk {
    pub(super) fn new(source: Source, registry: Registry, pod_options: CompileOptions) -> Self {
        Self {
            source: Arc::new(source),
            registry,
            pod_options,
            places: Semaphore::new(MAX_QUESTIONS),
            turn: Arc::default(),
        }
    }

    /// Answers a question.
    ///
    /// # Errors
    /// If the arguments are no question, or it cannot be answered; the text is for who asked.
    pub(super) async fn answer(&self, kind: QuestionKind, arguments: Value) -> Result<DeskAnswer> {
        let n_bytes = arguments.to_string().len();
        if n_bytes > Question::MAX_LENGTH {
            let max = Question::MAX_LENGTH;
            bail!(
                "arguments: the question is too long: it has {n_bytes} bytes, and at most {max} are allowed"
            );
        }
        let Ok(_place) = self.places.try_acquire() else {
            bail!("{MAX_QUESTIONS} questions are being answered; try again later");
        };
        let namespace = self.source.namespace().await?;
        let question = Question::from_arguments(kind, &arguments, &namespace, &self.pod_options)?;
        let answered = timeout(PATIENCE, async {
            let turn = self.turn.clone().lock_owned().await;
            let (source, registry) = (self.source.clone(), self.registry.clone());
            let interrupt = Interrupt::default();
            let wanted = InterruptOnDrop(interrupt.clone());
            let work = tokio::task::spawn_blocking(move || {
                let answered = answered(question, &source, registry, &interrupt);
                drop(turn);
                answered
            });
            let answered = work.await;
            drop(wanted);
            answered.map_err(|_| anyhow!("the answer broke down"))?
        });
        answered
            .await
            .map_err(|_| anyhow!(
                    "no answer within {PATIENCE:?}: the cluster is slow to read, earlier questions are still at work, or too much is asked"
                ))?
    }
}

/// Asks a running scheduler if there is one to ask, or answers here.
fn answered(
    question: Question,
    source: &Source,
    registry: Registry,
    interrupt: &Interrupt,
) -> Result<DeskAnswer> {
    let source = source.until(interrupt.clone());
    let mut remarks = Vec::new();
    let mut remark = |text| remarks.push(text);
    let answer = match source.running(&mut remark)? {
        Some(live) => {
            let answer = live.ask(question.kind, question.namespace(), question.spec(), None)?;
            remark(live.answered(std::slice::from_ref(&answer)));
            answer
        }
        None => {
            let asked: QueryableCluster = source.load(&[], registry, &mut remark)?;
            let question = question.of_objects();
            let inquiry = Inquiry::new(&question, &asked.engine, asked.now);
            let answer = inquiry.answer(&question, interrupt);
            let answer = answer.map_err(|refusal| asked.refused(refusal))?;
            let answer = answer.for_reader(&question, EVERYTHING, ExplainOptions::SENT);
            let mut answer = serde_json::to_value(answer).context("the answer has no JSON form")?;
            if let Some(version) = asked.resource_version {
                answer["resourceVersion"] = version.into();
            }
            answer
        }
    };
    Ok(DeskAnswer { answer, remarks })
}
