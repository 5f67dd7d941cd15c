//! How a run comes to its end: by itself or by order, and with everything that it has started. Nothing is read or written
//! here.

use std::process::ExitStatus;
use std::time::Duration;

use rustix::process::Signal;
use tokio::process::Child;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until};

use super::table::{Left, Place, sweep};
use crate::stop::Order;

/// How long processes that outlive their leader may take to end after SIGTERM: enough to remove a temporary file. The run
/// has ended, so nobody should have to wait for them long.
const LEFTOVER_GRACE: Duration = Duration::from_secs(2);

/// How long processes may take to end after SIGKILL. Only those that hang inside the kernel (state D) need any time.
const KILL_PATIENCE: Duration = Duration::from_secs(5);

/// After how many looks in a row without anything alive there is nothing: zombies that are not ours to reap may stay in the
/// group for ever.
const EMPTY_LOOKS: u32 = 4;

/// Pauses between looks for what is left: they double, so that the usual milliseconds are not overslept.
const FIRST_PAUSE: Duration = Duration::from_millis(1);
const LONGEST_PAUSE: Duration = Duration::from_millis(50);

/// How a run ended.
pub(crate) struct End {
    /// Nothing if even the leader could not be killed, or if its end could not be learned.
    pub(crate) status: Option<ExitStatus>,
    /// Whether its leader had been ordered to end when it did.
    pub(crate) was_stopped: bool,
    /// What could not be killed or learned.
    pub(crate) note: Option<String>,
}

#[derive(Clone, Copy)]
enum Stage {
    Running,
    /// SIGTERM was sent; SIGKILL follows then.
    Stopping(Instant),
    /// SIGKILL was sent; the waiting ends then.
    Killing(Instant),
}

struct Ending<'a> {
    place: &'a Place,
    grace: Duration,
    stage: Stage,
    /// How many looks have found nothing alive in a row.
    empty_looks: u32,
}

/// Waits until nothing of a run is alive, and sees to it where it has to.
pub(crate) async fn end(mut child: Child, place: Place, mut orders: watch::Receiver<Order>, grace: Duration) -> End {
    let mut ending = Ending { place: &place, grace, stage: Stage::Running, empty_looks: 0 };
    let (mut leader, mut heeded, mut was_stopped, mut pause) = (None, Order::Run, false, FIRST_PAUSE);
    let (has_strays, unkillable) = loop {
        if leader.is_some() {
            let left = ending.leftovers();
            if left.is_gone || ending.empty_looks == EMPTY_LOOKS {
                break (left.has_strays, None);
            }
        }
        tokio::select! {
            biased;
            ended = child.wait(), if leader.is_none() => {
                place.leader_has_ended();
                was_stopped = heeded > Order::Run;
                leader = Some(ended);
            }
            order = sharper(&mut orders, heeded) => {
                heeded = order;
                ending.heed(order);
            }
            () = ending.deadline() => {
                if let Stage::Killing(_) = ending.stage {
                    break (false, Some(ending.unkillable()));
                }
                ending.kill();
            }
            () = sleep(pause), if leader.is_some() => pause = LONGEST_PAUSE.min(pause * 2),
        }
    };
    place.leave();
    if has_strays {
        sweep_all().await;
    }
    match leader {
        Some(Ok(status)) => End { status: Some(status), was_stopped, note: unkillable },
        Some(Err(error)) => End { status: None, was_stopped, note: Some(format!("how it ended is unknown: {error}")) },
        None => End { status: None, was_stopped: true, note: unkillable },
    }
}

impl Ending<'_> {
    /// What the leader has left behind is asked to end, and then made to.
    fn leftovers(&mut self) -> Left {
        let left = self.place.look();
        self.empty_looks = if left.members.is_empty() { self.empty_looks + 1 } else { 0 };
        if !left.members.is_empty() {
            match self.stage {
                Stage::Running => self.stop(self.grace.min(LEFTOVER_GRACE)),
                Stage::Stopping(_) => {}
                // Again and again, for they may have started others meanwhile.
                Stage::Killing(_) => self.place.signal(Signal::KILL),
            }
        }
        left
    }

    fn heed(&mut self, order: Order) {
        match (order, self.stage) {
            (Order::Stop, Stage::Running) => self.stop(self.grace),
            (Order::Kill, Stage::Running | Stage::Stopping(_)) => self.kill(),
            _ => {}
        }
    }

    fn stop(&mut self, grace: Duration) {
        self.place.signal(Signal::TERM);
        // A process that was stopped with SIGSTOP or by its terminal would not hear of it otherwise.
        self.place.signal(Signal::CONT);
        self.stage = Stage::Stopping(Instant::now() + grace);
    }

    fn kill(&mut self) {
        self.place.signal(Signal::KILL);
        self.stage = Stage::Killing(Instant::now() + KILL_PATIENCE);
    }

    async fn deadline(&self) {
        match self.stage {
            Stage::Running => std::future::pending().await,
            Stage::Stopping(deadline) | Stage::Killing(deadline) => sleep_until(deadline).await,
        }
    }

    fn unkillable(&self) -> String {
        let left = self.place.look().members;
        let list: Vec<String> = left.iter().map(|entry| format!("{} (state {})", entry.pid, entry.state)).collect();
        format!("processes that do not end even when they are killed: {}", list.join(", "))
    }
}

/// The next order that is sharper than the one that was heeded. Without anybody to give orders, none comes.
async fn sharper(orders: &mut watch::Receiver<Order>, heeded: Order) -> Order {
    let order = orders.wait_for(|order| *order > heeded).await.map(|order| *order);
    match order {
        Ok(order) => order,
        Err(_) => std::future::pending().await,
    }
}

/// Ends the strays that belong to nobody, if no run is left.
async fn sweep_all() {
    let deadline = Instant::now() + KILL_PATIENCE;
    let mut pause = FIRST_PAUSE;
    while !sweep() && Instant::now() < deadline {
        sleep(pause).await;
        pause = LONGEST_PAUSE.min(pause * 2);
    }
}
