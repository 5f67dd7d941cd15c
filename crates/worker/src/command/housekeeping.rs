//! Takes care of the run directory while a worker works: removes the folders of old runs if that is wanted, and warns when the disk
//! is nearly full. A disk that hangs delays only this.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tokio::task::spawn_blocking;
use tokio::time::{Instant, sleep_until};

use super::disk_space::{DiskSpace, DiskWatch};
use super::old_runs::{self, Removal};
use crate::events::{Event, EventSink};
use crate::run_dir::RunDir;

/// A run may write gigabytes in a minute, but most do not.
const DISK_INTERVAL: Duration = Duration::from_secs(60);
/// The longest time between two removals.
const REMOVAL_INTERVAL: Duration = Duration::from_secs(3600);

#[derive(Debug)]
pub struct Housekeeping {
    pub run_dir: RunDir,
    /// Folders of runs that ended longer ago are removed; `None` keeps all.
    pub keep_runs: Option<Duration>,
    /// Less free space than this is nearly full; `None` means what fits the size of the disk.
    pub low_disk_bytes: Option<u64>,
}

impl Housekeeping {
    /// Begins at once. Never returns.
    pub async fn run(self, events: Arc<dyn EventSink>) {
        let removal_interval =
            self.keep_runs.unwrap_or(REMOVAL_INTERVAL).clamp(Duration::from_secs(1), REMOVAL_INTERVAL);
        let (mut next_removal, mut next_look) = (Instant::now(), Instant::now());
        let mut disk = DiskWatch::new(self.low_disk_bytes);
        let mut has_problem = false;
        loop {
            if let Some(keep) = self.keep_runs.filter(|_| Instant::now() >= next_removal) {
                let run_dir = self.run_dir.clone();
                let removed = spawn_blocking(move || old_runs::remove(&run_dir, keep, SystemTime::now())).await;
                report(&removed.unwrap_or_default(), &mut has_problem, &*events);
                next_removal = Instant::now() + removal_interval;
            }
            if Instant::now() >= next_look {
                let path = self.run_dir.path().to_owned();
                // A disk that cannot be looked at is noticed by the runs.
                if let Ok(Ok(space)) = spawn_blocking(move || DiskSpace::of(&path)).await
                    && disk.is_newly_low(space)
                {
                    let DiskSpace { total_bytes, available_bytes } = space;
                    let run_dir = self.run_dir.path();
                    events.on_event(&Event::LowDisk { run_dir, available_bytes, total_bytes });
                }
                next_look = Instant::now() + DISK_INTERVAL;
            }
            sleep_until(if self.keep_runs.is_some() { next_removal.min(next_look) } else { next_look }).await;
        }
    }
}

/// Between two times at which the folder of a run that goes on is made new. Other workers may keep folders for another time, but not
/// for less than some hours.
pub(super) fn refresh_interval(keep_runs: Option<Duration>) -> Duration {
    keep_runs.map_or(REMOVAL_INTERVAL, |keep| keep / 4).clamp(Duration::from_millis(100), REMOVAL_INTERVAL)
}

/// A folder that cannot be removed is noted once, not every hour.
fn report(removal: &Removal, has_problem: &mut bool, events: &dyn EventSink) {
    if removal.removed > 0 {
        let folders = if removal.removed == 1 { "folder of an old run" } else { "folders of old runs" };
        let text = format!("removed {} {folders}", removal.removed);
        events.on_event(&Event::Note { task_id: None, text: &text });
    }
    if let Some(problem) = removal.problem.as_ref().filter(|_| !std::mem::replace(has_problem, true)) {
        let text = format!("the folder of an old run cannot be removed: {problem}");
        events.on_event(&Event::Note { task_id: None, text: &text });
    }
}
