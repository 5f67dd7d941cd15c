//! Takes care of the run directory while a worker works: removes the folders of old runs if that is wanted, and warns when the
//! disk is nearly full, which costs results and logs. A disk that hangs delays only this.
//!
//! Only `RUN_DIR/<task>/<run>/` with the names that a worker gives is removed, never that of a run that a worker has (it holds a
//! lock on the args, and keeps the folder new where other machines do not see locks), never one whose report is undelivered. No
//! link is followed.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use std::{fs, io};

use taskqueue_client::{RunId, TaskId};
use tokio::task::spawn_blocking;
use tokio::time::{Instant, sleep_until};

use super::run_folder::RunFolder;
use crate::handler::{Event, EventSink};
use crate::run_dir::RunDir;
use crate::spool;

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
                let removed = spawn_blocking(move || remove_old_runs(&run_dir, keep, SystemTime::now())).await;
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
                    events.on_event(&Event::LowDisk { run_dir: self.run_dir.path(), available_bytes, total_bytes });
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

/// The outcome of a removal.
#[derive(Debug, Default)]
pub(super) struct Removal {
    pub(super) removed: u64,
    /// The first folder that could not be removed, and why.
    pub(super) problem: Option<String>,
}

/// Removes the folders that nothing has changed for at least `keep`. Blocks.
pub(super) fn remove_old_runs(run_dir: &RunDir, keep: Duration, now: SystemTime) -> Removal {
    let mut removal = Removal::default();
    for task in folders(run_dir.path(), |name| TaskId::parse(name).is_some()) {
        let task = run_dir.path().join(task);
        for run in folders(&task, |name| RunId::parse(name).is_some()) {
            let folder = task.join(&run);
            if !is_old(&folder, keep, now) || spool::may_have_report(run_dir.path(), &run) {
                continue;
            }
            match remove_run(&folder) {
                Ok(true) => removal.removed += 1,
                Ok(false) => {}
                Err(error) => {
                    removal.problem.get_or_insert_with(|| format!("{}: {error}", folder.display()));
                }
            }
        }
        // Fails if another run of the task is there.
        drop(fs::remove_dir(&task));
    }
    removal
}

/// The names of the folders in a folder, without links to folders.
fn folders(path: &Path, is_name: impl Fn(&str) -> bool) -> Vec<String> {
    let entries = fs::read_dir(path).into_iter().flatten().flatten();
    let real = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    real.filter_map(|entry| entry.file_name().into_string().ok()).filter(|name| is_name(name)).collect()
}

/// Returns whether neither the folder nor anything in it, at any depth, was changed for so long. What cannot be told is not old. Ends at the
/// first entry that is new.
fn is_old(folder: &Path, keep: Duration, now: SystemTime) -> bool {
    let is_before = |changed: io::Result<SystemTime>| {
        changed.ok().and_then(|changed| now.duration_since(changed).ok()).is_some_and(|age| age >= keep)
    };
    if !is_before(fs::symlink_metadata(folder).and_then(|metadata| metadata.modified())) {
        return false;
    }
    let mut unread = vec![folder.to_owned()];
    while let Some(folder) = unread.pop() {
        let Ok(entries) = fs::read_dir(folder) else { return false };
        for entry in entries {
            // The metadata of an entry is that of a link, not of its target.
            let Ok((path, metadata)) = entry.and_then(|entry| Ok((entry.path(), entry.metadata()?))) else {
                return false;
            };
            if !is_before(metadata.modified()) {
                return false;
            }
            if metadata.is_dir() {
                unread.push(path);
            }
        }
    }
    true
}

/// Removes a folder unless a worker has its run. `false`: it has, or another worker has removed the folder.
fn remove_run(folder: &Path) -> io::Result<bool> {
    let Some(_lock) = RunFolder::lock_ended(folder) else { return Ok(false) };
    match fs::remove_dir_all(folder) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// A twentieth of the disk, but no more than this: a large disk with so much free space has room for many runs.
const ENOUGH_BYTES: u64 = 10 * 1024 * 1024 * 1024;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct DiskSpace {
    pub(super) total_bytes: u64,
    /// The bytes that this user may still write.
    pub(super) available_bytes: u64,
}

impl DiskSpace {
    /// Blocks while the disk hangs.
    pub(super) fn of(path: &Path) -> io::Result<Self> {
        let disk = rustix::fs::statvfs(path)?;
        let bytes = |blocks: u64| blocks.saturating_mul(disk.f_frsize);
        Ok(Self { total_bytes: bytes(disk.f_blocks), available_bytes: bytes(disk.f_bavail) })
    }
}

/// Notices when the free space falls below the limit, once until there is twice as much again.
#[derive(Debug)]
pub(super) struct DiskWatch {
    limit_bytes: Option<u64>,
    is_low: bool,
}

impl DiskWatch {
    /// Without a limit, one that fits the size of the disk.
    pub(super) fn new(limit_bytes: Option<u64>) -> Self {
        Self { limit_bytes, is_low: false }
    }

    /// Returns whether to warn now.
    pub(super) fn is_newly_low(&mut self, space: DiskSpace) -> bool {
        let limit = self.limit_bytes.unwrap_or_else(|| ENOUGH_BYTES.min(space.total_bytes / 20));
        let was_low = self.is_low;
        let enough = if was_low { limit.saturating_mul(2) } else { limit };
        self.is_low = space.available_bytes < enough;
        self.is_low && !was_low
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::unix::fs::symlink;
    use std::path::PathBuf;

    use taskqueue_client::JsonObject;

    use super::*;

    const DAY: Duration = Duration::from_secs(86_400);

    struct Scene {
        top: tempfile::TempDir,
        run_dir: RunDir,
    }

    impl Scene {
        fn new() -> Self {
            let top = tempfile::tempdir().unwrap();
            let run_dir = RunDir::open(&top.path().join("runs")).unwrap();
            Self { top, run_dir }
        }

        /// The folder of a run that goes on.
        fn live(&self, task: u8, run: u8) -> RunFolder {
            let task_id = TaskId::parse(&format!("t_00000000000{task}")).unwrap();
            let run_id = RunId::parse(&format!("r_00000000000{run}")).unwrap();
            RunFolder::create(&self.run_dir, task_id, run_id, &JsonObject::empty()).unwrap()
        }

        /// The folder of a run that has ended.
        fn ended(&self, task: u8, run: u8) -> PathBuf {
            self.live(task, run).path().to_owned()
        }

        fn remove_after(&self, days: u32) -> u64 {
            let removal = remove_old_runs(&self.run_dir, 30 * DAY, SystemTime::now() + days * DAY);
            assert_eq!(removal.problem, None);
            removal.removed
        }
    }

    #[test]
    fn folders_of_ended_runs_are_removed_when_they_are_old_enough() {
        let scene = Scene::new();
        let (first, second) = (scene.ended(1, 1), scene.ended(1, 2));
        fs::create_dir(first.join("checkpoints")).unwrap();
        fs::write(first.join("checkpoints/1"), "x").unwrap();
        assert_eq!(scene.remove_after(29), 0);
        // The second had something added later.
        let later = SystemTime::now() + 10 * DAY;
        File::create(second.join("plot.png")).unwrap().set_modified(later).unwrap();
        assert_eq!(scene.remove_after(31), 1);
        assert!(!first.exists() && second.exists());
        assert_eq!(scene.remove_after(41), 1);
        assert!(!second.parent().unwrap().exists(), "the folder of the task is empty and goes, too");
        assert_eq!(scene.remove_after(100), 0);
    }

    #[test]
    fn a_change_at_any_depth_keeps_the_folder() {
        let scene = Scene::new();
        let folder = scene.ended(1, 1);
        let deep = folder.join("checkpoints/epoch/7");
        fs::create_dir_all(&deep).unwrap();
        let later = SystemTime::now() + 10 * DAY;
        File::create(deep.join("weights")).unwrap().set_modified(later).unwrap();
        assert_eq!(scene.remove_after(31), 0);
        assert_eq!(scene.remove_after(41), 1);
    }

    #[test]
    fn a_run_that_goes_on_or_is_not_reported_stays() {
        let scene = Scene::new();
        let live = scene.live(1, 1);
        let unreported = [scene.ended(2, 2), scene.ended(3, 3)];
        let reports = scene.run_dir.folder("undelivered").unwrap();
        fs::write(reports.join("r_000000000002.json"), "{}").unwrap();
        fs::write(reports.join("r_000000000003.new"), "{").unwrap();
        assert_eq!(scene.remove_after(1000), 0);
        assert!(live.path().exists() && unreported.iter().all(|folder| folder.exists()));
        let path = live.path().to_owned();
        drop(live);
        assert_eq!(scene.remove_after(1000), 1);
        assert!(!path.exists());
    }

    #[test]
    fn nothing_else_is_touched_and_no_link_is_followed() {
        let scene = Scene::new();
        let (runs, outside) = (scene.run_dir.path(), scene.top.path().join("outside"));
        let ended = scene.ended(1, 1);
        fs::create_dir_all(outside.join("r_000000000009")).unwrap();
        fs::write(outside.join("r_000000000009/args.json"), "{}").unwrap();
        // Links in the place of a task, of a run, and inside a run.
        symlink(&outside, runs.join("t_000000000002")).unwrap();
        fs::create_dir(runs.join("t_000000000003")).unwrap();
        symlink(outside.join("r_000000000009"), runs.join("t_000000000003/r_000000000009")).unwrap();
        symlink(&outside, ended.join("data")).unwrap();
        // Other names, and a folder that no worker has made.
        for other in ["notes/r_000000000001", "t_000000000004/notes", "t_000000000004/r_000000000004"] {
            fs::create_dir_all(runs.join(other)).unwrap();
        }
        assert_eq!(scene.remove_after(1000), 1);
        assert!(!ended.exists() && outside.join("r_000000000009/args.json").exists());
        for kept in ["t_000000000002", "t_000000000003/r_000000000009", "notes/r_000000000001", "t_000000000004/notes"]
        {
            assert!(fs::symlink_metadata(runs.join(kept)).is_ok(), "{kept}");
        }
        assert!(runs.join("t_000000000004/r_000000000004").exists(), "without args it is not known to be a run");
    }

    #[test]
    fn clocks_that_disagree_remove_nothing() {
        let scene = Scene::new();
        let folder = scene.ended(1, 1);
        assert_eq!(remove_old_runs(&scene.run_dir, DAY, SystemTime::now() - 1000 * DAY).removed, 0);
        assert!(folder.exists());
    }

    const GIB: u64 = 1024 * 1024 * 1024;

    /// For which of these amounts of free space a warning is given, one after the other.
    fn warnings(limit_bytes: Option<u64>, total_bytes: u64, free: &[u64]) -> Vec<bool> {
        let mut watch = DiskWatch::new(limit_bytes);
        free.iter().map(|free| watch.is_newly_low(DiskSpace { total_bytes, available_bytes: *free })).collect()
    }

    #[test]
    fn the_limit_fits_the_disk() {
        assert_eq!(warnings(None, 100 * GIB, &[6 * GIB, 4 * GIB]), [false, true]);
        assert_eq!(warnings(None, 10_000 * GIB, &[11 * GIB, 9 * GIB]), [false, true]);
        assert_eq!(warnings(Some(GIB), 100 * GIB, &[2 * GIB, GIB / 2]), [false, true]);
        assert_eq!(warnings(None, 0, &[0]), [false], "a file system without a size");
    }

    #[test]
    fn space_that_goes_up_and_down_a_little_is_one_warning() {
        let free = [4, 6, 4, 9, 4, 10, 4].map(|gib| gib * GIB);
        assert_eq!(warnings(None, 100 * GIB, &free), [true, false, false, false, false, false, true]);
    }

    #[test]
    fn a_disk_has_a_size() {
        let space = DiskSpace::of(Path::new("/")).unwrap();
        assert!(space.total_bytes > 0 && space.available_bytes <= space.total_bytes);
    }
}
