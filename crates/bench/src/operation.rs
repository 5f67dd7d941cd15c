//! What one request asks for, and the phases: which operations a connection sends, in which order, on which queue.
//! The bytes of a request are rendered in `request.rs`.

use clap::ValueEnum;

use self::Operation::{
    BulkUpdate, Claim, Complete, Count, CountByStatus, Create, Fail, Filter, Get, Heartbeat, List, Poll, Unclaim,
};

/// One kind of request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    /// Makes a task with 200 bytes of args.
    Create,
    Claim,
    /// Asks for a task where there is none.
    Poll,
    Heartbeat,
    Complete,
    Fail,
    Unclaim,
    Get,
    /// Reads the first page: 100 tasks.
    List,
    Count,
    /// Counts tasks by their status.
    CountByStatus,
    /// Counts the tasks that a filter on args selects.
    Filter,
    /// Changes the tenth of all tasks that a filter on args selects.
    BulkUpdate,
}

pub(crate) const OPERATIONS: usize = Operation::ALL.len();

impl Operation {
    /// All kinds, in the order of their declaration.
    pub(crate) const ALL: [Self; 13] =
        [Create, Claim, Poll, Heartbeat, Complete, Fail, Unclaim, Get, List, Count, CountByStatus, Filter, BulkUpdate];

    /// The status of an answer that is as it should be.
    pub(crate) fn expects(self, status: u16) -> bool {
        match self {
            Create => status == 201,
            // 204: nothing to hand out. Whether that is right is for the phase to say.
            Claim => matches!(status, 200 | 204),
            Poll | Complete | Fail | Unclaim => status == 204,
            Heartbeat | Get | List | Count | CountByStatus | Filter | BulkUpdate => status == 200,
        }
    }

    /// Whether it names the run that the connection holds.
    pub(crate) fn needs_run(self) -> bool {
        matches!(self, Heartbeat | Complete | Fail | Unclaim)
    }

    /// Whether the connection holds no run afterwards.
    pub(crate) fn ends_run(self) -> bool {
        matches!(self, Complete | Fail | Unclaim)
    }
}

/// A kind of load.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Phase {
    /// Creations only
    Create,
    /// Claim, complete, over prepared tasks
    ClaimComplete,
    /// Create, claim, complete
    Lifecycle,
    /// One task out of 10,000
    Get,
    /// The first 100 of 10,000 tasks
    List,
    /// How many of 10,000 tasks there are
    Count,
    /// How many of 10,000 tasks a filter on args selects
    Filter,
    /// A change of 100 out of 1,000 tasks
    BulkUpdate,
    /// A blend of everything that workers and people do
    Mixed,
    /// Claims from an empty queue
    Poll,
    /// Creations one by one in a database that holds 200,000 tasks already
    CreateAmongMany,
    /// Creations by batches of 100
    BatchCreate,
    /// Claim, complete by batches of 100, over prepared tasks
    BatchClaimComplete,
}

/// Items of a batch where batches are measured.
const ITEMS_OF_A_BATCH: usize = 100;

/// What workers and people do, in about the proportions in which they do it. One run in five ends in a failure, one
/// is given back.
const MIXED: &[Operation] = &[
    Create, Claim, Heartbeat, Complete, Get, Count, Create, Claim, Heartbeat, Complete, Get, List, Claim, Heartbeat,
    Fail, Get, Create, Claim, Complete, Count, Claim, Unclaim, Get,
];

/// How a phase loads the server.
struct PhaseSettings {
    queue: &'static str,
    /// What a connection sends, over and over.
    cycle: &'static [Operation],
    /// How many tasks its queue holds before it begins. What claims take is topped up before each round.
    prepared_tasks: u64,
}

impl Phase {
    pub(crate) const LIFECYCLE_QUEUE: &str = "lifecycle";

    fn settings(self) -> PhaseSettings {
        let (queue, cycle, prepared_tasks): (_, &'static [Operation], _) = match self {
            Self::Create => ("creates", &[Create], 0),
            Self::ClaimComplete => ("claims", &[Claim, Complete], 0),
            Self::Lifecycle => (Self::LIFECYCLE_QUEUE, &[Create, Claim, Complete], 0),
            Self::Get => ("still", &[Get], 10_000),
            Self::List => ("still", &[List], 10_000),
            Self::Count => ("still", &[Count], 10_000),
            Self::Filter => ("still", &[Filter], 10_000),
            Self::BulkUpdate => ("bulk", &[BulkUpdate], 1_000),
            Self::Mixed => ("mixed", MIXED, 1_000),
            Self::Poll => ("empty", &[Poll], 0),
            Self::CreateAmongMany => ("creates", &[Create], 200_000),
            Self::BatchCreate => ("creates", &[Create], 0),
            Self::BatchClaimComplete => ("claims", &[Claim, Complete], 0),
        };
        PhaseSettings { queue, cycle, prepared_tasks }
    }

    pub(crate) fn queue(self) -> &'static str {
        self.settings().queue
    }

    pub(crate) fn cycle(self) -> &'static [Operation] {
        self.settings().cycle
    }

    pub(crate) fn prepared_tasks(self) -> u64 {
        self.settings().prepared_tasks
    }

    /// Whether it changes anything, and so waits for the disk.
    pub(crate) fn writes(self) -> bool {
        !matches!(self, Self::Get | Self::List | Self::Count | Self::Filter | Self::Poll)
    }

    /// Whether it claims and completes tasks that must be there.
    pub(crate) fn takes_prepared_tasks(self) -> bool {
        matches!(self, Self::ClaimComplete | Self::BatchClaimComplete)
    }

    /// How many items each request has; none where requests are single.
    pub(crate) fn items_of_a_batch(self) -> Option<usize> {
        matches!(self, Self::BatchCreate | Self::BatchClaimComplete).then_some(ITEMS_OF_A_BATCH)
    }

    /// The same with single requests: what the reference, which knows no batches, is asked.
    pub(crate) fn without_batches(self) -> Self {
        match self {
            Self::BatchCreate => Self::Create,
            Self::BatchClaimComplete => Self::ClaimComplete,
            other => other,
        }
    }

    /// Its name on the command line and in tables.
    pub(crate) fn name(self) -> String {
        self.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_stand_at_their_own_place() {
        for (place, operation) in Operation::ALL.into_iter().enumerate() {
            assert_eq!(operation as usize, place);
        }
    }

    #[test]
    fn a_cycle_claims_as_often_as_it_ends_runs() {
        for phase in Phase::value_variants() {
            let claims = phase.cycle().iter().filter(|operation| **operation == Claim).count();
            let ends = phase.cycle().iter().filter(|operation| operation.ends_run()).count();
            assert_eq!(claims, ends, "{phase:?}");
        }
    }
}
