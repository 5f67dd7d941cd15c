//! Removes the folders of runs that ended long ago. It removes only `RUN_DIR/<task>/<run>/` with the names that a worker gives, never
//! that of a run that a worker has (it holds a lock on the args, and keeps the folder new where other machines do not see locks), never
//! one whose report is undelivered, and follows no link.

use std::fs;
use std::io;
use std::path::Path;
use std::time::{Duration, SystemTime};

use taskqueue_client::{RunId, TaskId};

use super::run_folder::RunFolder;
use crate::run_dir::RunDir;
use crate::spool;

/// What was done.
#[derive(Debug, Default)]
pub(super) struct Removal {
    pub(super) removed: u64,
    /// The first folder that could not be removed, and why.
    pub(super) problem: Option<String>,
}

/// Removes the folders that nothing has changed for at least `keep`. Blocks.
pub(super) fn remove(run_dir: &RunDir, keep: Duration, now: SystemTime) -> Removal {
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

/// Whether neither the folder nor anything in it, at any depth, was changed for so long. What cannot be told is not old. Ends at the
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
            let removal = remove(&self.run_dir, 30 * DAY, SystemTime::now() + days * DAY);
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
        assert_eq!(remove(&scene.run_dir, DAY, SystemTime::now() - 1000 * DAY).removed, 0);
        assert!(folder.exists());
    }
}
