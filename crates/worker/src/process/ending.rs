//! How the worker accompanies a run to its end: it passes orders on and learns how the run ended. What that takes is done by
//! the supervisor of the run (`supervisor/run.rs`).

use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

use tokio::sync::watch;

use super::running_command::RunningCommand;
use super::supervisor_pool;
use crate::stop::Order;
use crate::supervisor::messages::{Reply, Request, RunEnd};

/// How a run ended.
pub(crate) struct End {
    /// Nothing if even the command could not be killed, or if its end could not be learned.
    pub(crate) status: Option<ExitStatus>,
    /// Whether the command had been ordered to end when it did.
    pub(crate) was_stopped: bool,
    /// What could not be killed or learned.
    pub(crate) note: Option<String>,
}

/// Waits until nothing of a run is alive.
///
/// # Errors
///
/// When the command could not be started.
pub(crate) async fn end(mut running: RunningCommand, mut orders: watch::Receiver<Order>) -> io::Result<End> {
    let mut heeded = Order::Run;
    loop {
        tokio::select! {
            biased;
            reply = running.reply() => match reply {
                Ok(Reply::Ended(end)) => return Ok(ended(running, end)),
                Ok(Reply::NotStarted(errno)) => {
                    running.over();
                    return Err(io::Error::from_raw_os_error(errno));
                }
                Ok(Reply::Terminal) => {}
                Err(_) => break,
            },
            order = sharper(&mut orders, heeded) => {
                heeded = order;
                let request = if order == Order::Kill { Request::Kill } else { Request::Stop };
                // To a supervisor that is gone nothing can be said; its end is heard next.
                drop(running.order(&request).await);
            }
        }
    }
    // What the supervisor has left came to this process.
    drop(running);
    supervisor_pool::sweep().await;
    let note = "the supervisor of the run was killed, and with it the run".to_owned();
    Ok(End { status: None, was_stopped: heeded > Order::Run, note: Some(note) })
}

fn ended(running: RunningCommand, end: RunEnd) -> End {
    if end.unkillable.is_none() {
        running.over();
    }
    let was_stopped = end.was_stopped || end.status.is_none();
    End { status: end.status.map(ExitStatus::from_raw), was_stopped, note: end.unkillable }
}

/// The next order that is sharper than the one that was heeded. Without anybody to give orders, none comes.
async fn sharper(orders: &mut watch::Receiver<Order>, heeded: Order) -> Order {
    let order = orders.wait_for(|order| *order > heeded).await.map(|order| *order);
    match order {
        Ok(order) => order,
        Err(_) => std::future::pending().await,
    }
}
