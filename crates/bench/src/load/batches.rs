//! The load of phases whose requests are batches: creations, or claims and then the reports of what was claimed.

use std::rc::Rc;
use std::time::Instant;

use super::LoadState;
use crate::answer_parser;
use crate::batch_answer::{self, Item};
use crate::batch_request::{self, BatchKind};
use crate::client::{Answer, Client};
use crate::operation::{Operation, Phase};
use crate::request::Request;

/// One connection that sends batches of so many items.
struct Connection {
    client: Client,
    state: Rc<LoadState>,
    create: Request,
    claim: Request,
    complete: Request,
    items: usize,
    /// Tasks and runs of the batch under way.
    held: Vec<(u64, u64)>,
}

/// Sends batches until the load is over. Ends at the first connection error.
pub(super) async fn drive_batches(client: Client, items: usize, state: Rc<LoadState>) {
    let render = |kind| batch_request::render(kind, state.load.endpoint.address, state.load.phase.queue(), items);
    let (create, claim, complete) = (render(BatchKind::Create), render(BatchKind::Claim), render(BatchKind::Complete));
    let mut connection =
        Connection { client, create, claim, complete, items, held: Vec::with_capacity(items), state: state.clone() };
    if let Err(error) = connection.drive().await {
        state.error(&format!("connection: {error}"));
    }
}

impl Connection {
    async fn drive(&mut self) -> std::io::Result<()> {
        while !self.state.stopped.get() {
            let Some(begin) = self.state.begin().await else { break };
            if self.state.load.phase == Phase::BatchCreate {
                self.create(begin).await?;
                continue;
            }
            self.claim(begin).await?;
            if !self.held.is_empty() {
                // What was claimed is reported even when the time is over: no task stays behind.
                self.complete().await?;
            }
        }
        Ok(())
    }

    async fn create(&mut self, begin: Instant) -> std::io::Result<()> {
        let Self { client, state, create, items, .. } = self;
        let answer = client.send(create.fill_all((0..*items).map(|_| (state.numbers.next_task(), 0)))).await?;
        let created = state.take_batch(Operation::Create, begin, &answer, *items, |_, _| {});
        state.count_items(created);
        Ok(())
    }

    async fn claim(&mut self, begin: Instant) -> std::io::Result<()> {
        let Self { client, state, claim, items, held, .. } = self;
        let runs: Vec<(u64, u64)> = (0..*items).map(|_| (0, state.numbers.next_run())).collect();
        let answer = client.send(claim.fill_all(runs.iter().copied())).await?;
        held.clear();
        // Neither claims nor completions alone are pairs: the items are counted when they are complete.
        state.take_batch(Operation::Claim, begin, &answer, *items, |index, item| {
            match (item.task(), runs.get(index)) {
                (Some(task), Some((_, run))) => {
                    state.claim_check.borrow_mut().handed_out(task);
                    held.push((task, *run));
                }
                _ => state.error("claim_without_task"),
            }
        });
        Ok(())
    }

    async fn complete(&mut self) -> std::io::Result<()> {
        let Self { client, state, complete, items, held, .. } = self;
        held.iter().for_each(|(task, _)| state.claim_check.borrow_mut().ends(*task, true));
        let begin = Instant::now();
        let mut fewer;
        let request = if held.len() == *items {
            complete
        } else {
            let (address, queue) = (state.load.endpoint.address, state.load.phase.queue());
            fewer = batch_request::render(BatchKind::Complete, address, queue, held.len());
            &mut fewer
        };
        let answer = client.send(request.fill_all(held.iter().copied())).await?;
        let done = state.take_batch(Operation::Complete, begin, &answer, held.len(), |_, _| {});
        state.count_items(done);
        Ok(())
    }
}

/// Items that were answered as they should be, and whether the window was open.
struct Counted {
    items: u64,
    is_measured: bool,
}

impl LoadState {
    /// Records the answer to a batch of so many items, and hands on those that are as they should be. Every other one is an
    /// error, also one that is missing; only where claims find nothing the tasks have run out.
    fn take_batch(
        &self,
        operation: Operation,
        begin: Instant,
        answer: &Answer<'_>,
        expected: usize,
        mut each: impl FnMut(usize, Item<'_>),
    ) -> Counted {
        if answer.status != 200 {
            let code = answer_parser::error_code(answer.body).map_or_else(|| answer.status.to_string(), str::to_owned);
            self.error(&code);
            return Counted { items: 0, is_measured: false };
        }
        let (mut seen, mut good, mut is_dry) = (0, 0, false);
        for (index, item) in batch_answer::items(answer.body).enumerate() {
            seen += 1;
            match (operation, item.outcome) {
                (Operation::Create, "created") | (Operation::Claim, "claimed") | (Operation::Complete, "done") => {
                    good += 1;
                    each(index, item);
                }
                (Operation::Claim, "none") => is_dry = true,
                _ => self.error(item.code()),
            }
        }
        if seen != expected {
            self.error("items_missing");
        }
        if is_dry {
            self.run_dry();
        }
        Counted { items: good, is_measured: self.record(operation, begin, answer.body.len()) }
    }

    fn count_items(&self, counted: Counted) {
        self.answered.set(self.answered.get() + counted.items);
        if counted.is_measured {
            self.batch_items.set(self.batch_items.get() + counted.items);
        }
    }
}
