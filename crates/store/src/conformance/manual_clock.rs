//! A clock that stands still until a test advances it.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use taskqueue_core::time::Timestamp;

use crate::clock::{Clock, correction};

/// A clock that tests advance.
#[derive(Clone)]
pub struct ManualClock(Arc<AtomicI64>);

impl ManualClock {
    pub fn new(start: Timestamp) -> Self {
        Self(Arc::new(AtomicI64::new(start.as_micros())))
    }

    pub fn advance_seconds(&self, seconds: i64) {
        self.advance_micros(seconds * 1_000_000);
    }

    pub fn advance_micros(&self, micros: i64) {
        self.0.fetch_add(micros, Ordering::SeqCst);
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_micros(self.0.load(Ordering::SeqCst))
    }

    fn start_after(&self, latest: Timestamp) {
        self.0.store(correction::start(self.now(), latest).as_micros(), Ordering::SeqCst);
    }
}
