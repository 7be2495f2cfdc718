//! Questions while everything goes wrong, which must change nothing.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

use anyhow::Result;
use kube_scheduler_api_types::Timestamp;
use kube_scheduler_engine::Engine;

use super::chaos::{Dial, Setting};
use crate::questioner::{Questioner, WaitingQuestion};

/// How many copies of engines wait to be asked.
const MAX_WAITING: usize = 4;

/// Who asks the schedulers, if anybody.
pub(super) struct Asking {
    dial: Arc<Dial>,
    questioner: Option<Questioner>,
    /// Oldest first, each with what the failing plugin was set to.
    waiting: VecDeque<(Setting, WaitingQuestion)>,
}

impl fmt::Debug for Asking {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Asking").field("questioner", &self.questioner).finish_non_exhaustive()
    }
}

impl Asking {
    pub(super) fn new(seed: u64, asks: bool, dial: &Arc<Dial>) -> Self {
        let questioner = asks.then(|| Questioner::new(seed));
        Self { dial: dial.clone(), questioner, waiting: VecDeque::new() }
    }

    /// How many questions were answered.
    pub(super) fn n_answered(&self) -> u64 {
        self.questioner.as_ref().map_or(0, Questioner::n_answered)
    }

    /// Asks a scheduler something once in `n` times.
    pub(super) fn once_in(&mut self, n: u64, engine: &Engine, now: Timestamp) -> Result<()> {
        let Some(questioner) = self.questioner.as_mut() else { return Ok(()) };
        if !questioner.comes(n) {
            return Ok(());
        }
        let setting = self.dial.setting();
        let waiting = self.dial.apart(setting, || questioner.ask(engine, now))?;
        self.waiting.extend(waiting.map(|waiting| (setting, waiting)));
        self.answer_all_but(MAX_WAITING)
    }

    /// Answers what has not been answered.
    pub(super) fn end(&mut self) -> Result<()> {
        self.answer_all_but(0)
    }

    fn answer_all_but(&mut self, n: usize) -> Result<()> {
        while self.waiting.len() > n
            && let Some((setting, waiting)) = self.waiting.pop_front()
        {
            self.dial.apart(setting, || waiting.answer())?;
        }
        Ok(())
    }
}
