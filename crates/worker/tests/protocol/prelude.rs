//! What nearly every test of the protocol names.

pub(crate) use std::sync::Arc;
pub(crate) use std::time::Duration;
pub(crate) use taskqueue_worker::{
    BackoffLimits, EndReason, HandlerResult, Intervals, OnFailures, RunControl, Settings, StopMode,
};

pub(crate) use crate::server::*;
pub(crate) use crate::test_worker::*;
