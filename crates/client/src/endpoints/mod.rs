//! The endpoints, one method of the client each, in the contract's order. The constants
//! `AFTER_...` say what to do when the outcome of a call is unknown.

mod batches;
mod queues;
mod runs;
mod tasks;

pub use self::batches::{BatchClaimRequest, CreateOutcome};
pub use self::runs::{ClaimAnswer, ClaimRequest, HeartbeatAnswer};
pub use self::tasks::OutputAnswer;
