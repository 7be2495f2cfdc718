//! Places for questions that are read, wait or are answered: a limited number in total, and fewer for one user.
//!
//! Invariants: one user has at most [`MAX_OF_USER`] of the [`MAX_QUESTIONS`] places, so that others find one, however slowly that user
//! sends questions and however long their answers take; one question of a user at a time goes on from its place.

use std::sync::{Arc, Mutex};

use http::StatusCode;
use kube_scheduler_api_types::lock;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::problem::Problem;

/// Questions that are read, wait or are answered; further ones are refused.
pub(super) const MAX_QUESTIONS: usize = 4;
/// Those of one user.
const MAX_OF_USER: usize = MAX_QUESTIONS / 2;

/// A user who has a place, and where the user's questions go on one by one; once for each place.
type Owner = (Box<str>, Arc<Semaphore>);

/// The places.
pub(super) struct Places {
    pub(super) free: Arc<Semaphore>,
    owners: Arc<Mutex<Vec<Owner>>>,
}

/// One of them. It is free again when this is dropped.
pub(super) struct Place {
    _permit: OwnedSemaphorePermit,
    owners: Arc<Mutex<Vec<Owner>>>,
    user: Box<str>,
    /// Has one permit, which the question takes that goes on, of all that the user has asked.
    pub(super) line: Arc<Semaphore>,
}

impl Default for Places {
    fn default() -> Self {
        Self { free: Arc::new(Semaphore::new(MAX_QUESTIONS)), owners: Arc::default() }
    }
}

impl Places {
    /// A place for a question of `user`.
    pub(super) fn take(&self, user: &str) -> Result<Place, Problem> {
        let mut owners = lock(&self.owners);
        let own = || owners.iter().filter(|(owner, _)| **owner == *user);
        if own().count() >= MAX_OF_USER {
            return Err(too_many(&format!("{MAX_OF_USER} questions of user {user:?}")));
        }
        let permit = self.free.clone().try_acquire_owned();
        let permit = permit.map_err(|_| too_many(&format!("{MAX_QUESTIONS} questions")))?;
        let line = own().next().map(|(_, line)| line.clone());
        let line = line.unwrap_or_else(|| Arc::new(Semaphore::new(1)));
        owners.push((user.into(), line.clone()));
        Ok(Place { _permit: permit, owners: self.owners.clone(), user: user.into(), line })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut owners = lock(&self.owners);
        if let Some(at) = owners.iter().position(|(owner, _)| *owner == self.user) {
            owners.swap_remove(at);
        }
    }
}

fn too_many(which: &str) -> Problem {
    let message = format!("{which} are being answered; try again later");
    Problem::new(StatusCode::TOO_MANY_REQUESTS, "TooManyRequests", message)
}

#[cfg(test)]
mod tests {
    use http::HeaderMap;

    use super::*;

    #[test]
    fn one_user_has_half_of_the_places() {
        let places = Places::default();
        let is_refused = |user| {
            let problem = places.take(user).err();
            problem.is_some_and(|problem| problem.reply(&HeaderMap::new()).status() == 429)
        };
        let take = |user| places.take(user).ok();
        let mut greedy = vec![take("a"), take("a")];
        assert!(greedy.iter().all(Option::is_some));
        assert!(is_refused("a"));
        let others = [take("b"), take("c")];
        assert!(others.iter().all(Option::is_some));
        // There is none at all any more.
        assert!(is_refused("d"));
        // A place that is given back is anybody's, and no other one is.
        greedy.pop();
        let place = take("d");
        assert!(place.is_some() && is_refused("a"));
        drop((greedy, others, place));
        assert!(places.owners.lock().unwrap().is_empty());
        assert_eq!(places.free.available_permits(), MAX_QUESTIONS);
    }
}
