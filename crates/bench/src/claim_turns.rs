//! Turns of claim-complete on a server that something else uses meanwhile, or does not: what two measurements compare.

use std::rc::Rc;

use crate::failure::Result;
use crate::fill;
use crate::load::{self, Load, Measured, WARM_UP};
use crate::numbered_ids::Numbers;
use crate::operation::Phase;
use crate::process::Server;

const PHASE: Phase = Phase::ClaimComplete;
const CONNECTIONS: usize = 64;
/// Pairs per second for which tasks are prepared before the first turn shows how many there are, and how many times those.
const EXPECTED_PAIRS: f64 = 40_000.0;
const HEADROOM: f64 = 1.6;

/// A server that is measured turn by turn.
pub(crate) struct ClaimTurns {
    pub(crate) server: Server,
    numbers: Rc<Numbers>,
    seconds: f64,
    expected_pairs: f64,
    /// Pending tasks that cannot be claimed.
    waiting: u64,
}

impl ClaimTurns {
    pub(crate) fn new(server: Server, numbers: Rc<Numbers>, seconds: f64) -> Self {
        Self { server, numbers, seconds, expected_pairs: EXPECTED_PAIRS, waiting: 0 }
    }

    /// Beside so many pending tasks that cannot be claimed.
    pub(crate) fn beside(self, waiting: u64) -> Self {
        Self { waiting, ..self }
    }

    pub(crate) async fn turn(&mut self) -> Result<Measured> {
        self.prepare().await?;
        self.measure().await
    }

    /// Creates what a turn will claim. Done before the others begin, so that these do not wait for it.
    pub(crate) async fn prepare(&mut self) -> Result<()> {
        let wanted = self.expected_pairs * (WARM_UP.as_secs_f64() + self.seconds);
        fill::top_up(self.server.address, PHASE.queue(), self.waiting + wanted as u64, self.numbers.clone())
            .await
            .map(drop)
    }

    pub(crate) async fn measure(&mut self) -> Result<Measured> {
        let load = Load::new(&self.server, PHASE, CONNECTIONS, self.seconds);
        let measured = load::run(load, self.numbers.clone(), Rc::default()).await?.require_no_errors()?;
        self.expected_pairs = measured.pairs_rate() * HEADROOM;
        Ok(measured)
    }
}
