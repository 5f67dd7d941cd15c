//! Finds and opens the run directory. The default is one per user, so that the next worker finds the reports of this one.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

use taskqueue_worker::{RunDir, RunDirError};

use crate::failure::Failure;

pub(super) fn open(given: Option<&Path>) -> Result<RunDir, Failure> {
    let variable = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    let path = match given {
        Some(path) => path.to_owned(),
        None => default_path(variable("XDG_STATE_HOME"), variable("HOME")),
    };
    RunDir::open(&path).map_err(|error| match error {
        RunDirError::Insecure(why) => insecure(&path, &why),
        RunDirError::Unusable { error, .. } => unwritable(&path, &error),
    })
}

/// The user's state directory (XDG base directories); without a home, the current directory.
fn default_path(state_home: Option<OsString>, home: Option<OsString>) -> PathBuf {
    let state = state_home.map(PathBuf::from).filter(|path| path.is_absolute());
    let state = state.or_else(|| home.map(|home| Path::new(&home).join(".local/state")));
    state.map_or_else(|| "taskqueue-runs".into(), |state| state.join("taskqueue/runs"))
}

fn insecure(run_dir: &Path, why: &str) -> Failure {
    let path = run_dir.display();
    Failure::Refused(format!(
        "the run directory {path} is not safe from other users: {why}; correct that, or choose another \
         directory with --run-dir"
    ))
}

pub(super) fn unwritable(run_dir: &Path, error: &io::Error) -> Failure {
    let path = run_dir.display();
    if let Some(RunDirError::Insecure(why)) = error.get_ref().and_then(|error| error.downcast_ref()) {
        return insecure(run_dir, why);
    }
    Failure::Refused(format!("the run directory {path} cannot be written: {error}; choose another with --run-dir"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_is_in_the_users_state_directory() {
        let path = |state: Option<&str>, home: Option<&str>| {
            default_path(state.map(Into::into), home.map(Into::into)).display().to_string()
        };
        assert_eq!(path(Some("/s"), Some("/h")), "/s/taskqueue/runs");
        assert_eq!(path(Some("relative"), Some("/h")), "/h/.local/state/taskqueue/runs");
        assert_eq!(path(None, Some("/h")), "/h/.local/state/taskqueue/runs");
        assert_eq!(path(None, None), "taskqueue-runs");
    }
}
