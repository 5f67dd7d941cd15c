//! Creates many tasks, many at a time. Which tasks is decided by the file (`jsonl.rs`) or the sweep.

use taskqueue_client::{Definition, Error, TaskId};

use super::concurrent_calls::{Fate, Flight};
use crate::explain_error;
use crate::failure::{Failure, Stop};
use crate::output::{self, Summary};
use crate::progress::Progress;
use crate::session::Session;

/// Refusals that are told one by one; more would bury the first.
const REFUSALS_TOLD: u64 = 20;

/// A task that is to be created.
#[derive(Debug)]
pub(super) struct Planned {
    pub(super) id: TaskId,
    pub(super) definition: Definition,
    /// Where it comes from, for messages: `line 7`.
    pub(super) place: String,
}

/// A creation that was answered.
type Answered = (String, Result<bool, Error>);

/// Tasks that are being created.
#[derive(Debug)]
pub(super) struct Creation<'s> {
    session: &'s Session,
    flight: Flight<Answered>,
    progress: Progress,
    created: u64,
    existing: u64,
    refused: u64,
}

impl<'s> Creation<'s> {
    pub(super) fn new(session: &'s Session, progress: Progress) -> Self {
        Self { session, flight: Flight::new(), progress, created: 0, existing: 0, refused: 0 }
    }

    /// Creates the task as soon as there is room.
    pub(super) async fn add(&mut self, planned: Planned) -> Result<(), Stop> {
        let (client, queue) = (self.session.client.clone(), self.session.queue.clone());
        let Planned { id, definition, place } = planned;
        let call = async move {
            let outcome = client.create_task(&queue, id, &definition).await;
            (place, outcome.map(|answer| answer.created))
        };
        match self.flight.launch(call).await? {
            Some(answered) => self.note(answered),
            None => Ok(()),
        }
    }

    /// Counts a task that cannot even be asked for.
    pub(super) fn refuse(&mut self, place: &str, why: &str) {
        self.refused += 1;
        if self.refused <= REFUSALS_TOLD {
            self.progress.suspended(|| output::warning(&format!("{place}: {why}")));
        }
    }

    /// How far the source of the tasks is read.
    pub(super) fn advance(&self, position: u64) {
        self.progress.set(position);
    }

    fn note(&mut self, (place, outcome): Answered) -> Result<(), Stop> {
        match outcome {
            Ok(true) => self.created += 1,
            Ok(false) => self.existing += 1,
            Err(error) => match Fate::of::<()>(Err(error)) {
                Fate::Hopeless(error) => return Err(self.stop(error)),
                Fate::Refused(error) => {
                    let failure = explain_error::plain(&self.session.url, &error);
                    self.refuse(&place, failure.message().unwrap_or_default());
                }
                Fate::Skipped(code) => self.refuse(&place, code.as_str()),
                Fate::Done => {}
            },
        }
        if self.progress.is_visible() {
            self.progress.say(self.summary().sentence());
        }
        Ok(())
    }

    /// Says how far it came. What is created stays, and a repetition goes on from there.
    fn stop(&self, error: Error) -> Stop {
        if self.created + self.existing > 0 {
            let told = self.summary().sentence();
            self.progress.suspended(|| output::note(&format!("{told} so far; run the same command again to go on")));
        }
        error.into()
    }

    /// Waits for the last answers and tells what happened.
    pub(super) async fn finish(mut self) -> Result<(), Stop> {
        while let Some(answered) = self.flight.land().await? {
            self.note(answered)?;
        }
        let (summary, refused) = (self.summary(), self.refused);
        let printer = &self.session.printer;
        drop(self.progress);
        if refused > REFUSALS_TOLD {
            output::warning(&format!("{} more were refused", refused - REFUSALS_TOLD));
        }
        printer.done(&summary, &summary.sentence())?;
        if refused == 0 { Ok(()) } else { Err(Failure::Unfinished.into()) }
    }

    fn summary(&self) -> Summary {
        Summary { counts: vec![("created", self.created), ("already_there", self.existing), ("refused", self.refused)] }
    }
}
