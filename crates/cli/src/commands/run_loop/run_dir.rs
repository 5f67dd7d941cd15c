//! Where runs get their folders: one place per user unless said otherwise, so that the next worker finds what this one leaves.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

use taskqueue_worker::{RunDir, RunDirError};

use crate::failure::Failure;

/// The run directory, made if there is none.
pub(super) fn open(given: Option<&Path>) -> Result<RunDir, Failure> {
    let variable = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    let place = match given {
        Some(place) => place.to_owned(),
        None => default_place(variable("XDG_STATE_HOME"), variable("HOME")),
    };
    RunDir::open(&place).map_err(|error| match error {
        RunDirError::NotOurs(why) => not_ours(&place, &why),
        RunDirError::Unusable { error, .. } => unwritable(&place, &error),
    })
}

/// Where state belongs that should outlive a program (the XDG base directories); without a home, here.
fn default_place(state_home: Option<OsString>, home: Option<OsString>) -> PathBuf {
    let state = state_home.map(PathBuf::from).filter(|path| path.is_absolute());
    let state = state.or_else(|| home.map(|home| Path::new(&home).join(".local/state")));
    state.map_or_else(|| "taskqueue-runs".into(), |state| state.join("taskqueue/runs"))
}

/// The run directory is not used, because others could have put something there.
fn not_ours(run_dir: &Path, why: &str) -> Failure {
    let place = run_dir.display();
    Failure::Refused(format!(
        "the run directory {place} is not safe from other users: {why}; or name another with --run-dir"
    ))
}

/// The run directory cannot be used.
pub(super) fn unwritable(run_dir: &Path, error: &io::Error) -> Failure {
    let place = run_dir.display();
    if let Some(RunDirError::NotOurs(why)) = error.get_ref().and_then(|error| error.downcast_ref()) {
        return not_ours(run_dir, why);
    }
    Failure::Refused(format!("the run directory {place} cannot be written: {error}; name another with --run-dir"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_is_in_the_users_state_directory() {
        let place = |state: Option<&str>, home: Option<&str>| {
            default_place(state.map(Into::into), home.map(Into::into)).display().to_string()
        };
        assert_eq!(place(Some("/s"), Some("/h")), "/s/taskqueue/runs");
        assert_eq!(place(Some("relative"), Some("/h")), "/h/.local/state/taskqueue/runs");
        assert_eq!(place(None, Some("/h")), "/h/.local/state/taskqueue/runs");
        assert_eq!(place(None, None), "taskqueue-runs");
    }
}
