//! The folder of one run, `RUN_DIR/<task>/<run>/`: args, result and output.

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use rustix::fs::{FlockOperation, OFlags, flock};
use taskqueue_client::{Failure, JsonObject, RunId, TaskId};
use taskqueue_core::limits::TASK_DATA_BYTES;
use tokio::task::spawn_blocking;
use tokio::time::sleep;

use super::json_file::read_object;
use crate::run_dir::{RunDir, open_options, with_flags};

/// The longest result file that is read. Blanks and escapes make it larger than the stored result.
const RESULT_FILE_BYTES: u64 = 8 * TASK_DATA_BYTES as u64;

const ARGS: &str = "args.json";

#[derive(Debug)]
pub(crate) struct RunFolder {
    path: PathBuf,
    /// The file with the args, locked while the run goes on. The lock ends with the worker, even if that is killed.
    _args: File,
}

impl RunFolder {
    /// Creates the folder and the file with the args. Other users cannot read them: args and results can be confidential.
    pub(crate) fn create(run_dir: &RunDir, task_id: TaskId, run_id: RunId, args: &JsonObject) -> io::Result<Self> {
        let path = run_dir.new_folder(task_id.as_str(), run_id.as_str())?;
        let mut file = open_options().write(true).create_new(true).open(path.join(ARGS))?;
        // Where files cannot be locked, nothing is ever removed. Where locks are local to each machine, workers on others see that the
        // folder is new: see `keep_new`.
        let _ = flock(&file, FlockOperation::NonBlockingLockExclusive);
        file.write_all(args.as_str().as_bytes())?;
        Ok(Self { path, _args: file })
    }

    /// Locks the folder of a run that no worker has any more; `None` if one has it, or if that is not known.
    pub(super) fn lock_ended(folder: &Path) -> Option<File> {
        let args = open_options().write(true).open(folder.join(ARGS)).ok()?;
        flock(&args, FlockOperation::NonBlockingLockExclusive).ok().map(|()| args)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn args(&self) -> PathBuf {
        self.path.join(ARGS)
    }

    pub(crate) fn result(&self) -> PathBuf {
        self.path.join("result.json")
    }

    pub(crate) fn progress(&self) -> PathBuf {
        self.path.join("progress.json")
    }

    pub(crate) fn log(&self) -> PathBuf {
        self.path.join("output.log")
    }

    /// The time of the folder becomes that of the end of its run, from which on its age counts.
    pub(super) fn mark_ended(&self) {
        // Without this the age counts from the last change.
        make_new(&self.path);
    }

    /// Makes the folder new again and again while its run goes on: the command may change nothing in it for days. Never returns.
    pub(super) async fn keep_new(&self, interval: Duration) {
        loop {
            sleep(interval).await;
            let path = self.path.clone();
            drop(spawn_blocking(move || make_new(&path)).await);
        }
    }

    /// Adds a remark of the worker to the output of the run.
    pub(super) fn append_to_log(&self, text: &str) {
        // The remark is also an event.
        let log = open_options().append(true).create(true).open(self.log());
        drop(log.and_then(|mut log| log.write_all(format!("[taskqueue: {text}]\n").as_bytes())));
    }

    /// The result: `{}` without a result file. An invalid file is a failure that says why. The note says which values were replaced,
    /// because JSON has no such numbers.
    pub(crate) fn read_result(&self) -> Result<(JsonObject, Option<String>), Failure> {
        let Some(text) = self.result_text()? else { return Ok((JsonObject::empty(), None)) };
        let (result, note) = read_object(&text).map_err(|why| invalid(&why))?;
        if result.as_str().len() > TASK_DATA_BYTES { Err(too_large()) } else { Ok((result, note)) }
    }

    fn result_text(&self) -> Result<Option<Vec<u8>>, Failure> {
        // Does not block if the file is a pipe.
        let mut options = with_flags(OFlags::NONBLOCK);
        let unreadable = |error: io::Error| invalid(&format!("it cannot be read: {error}"));
        let file = match options.read(true).open(self.result()) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(unreadable(error)),
        };
        if !file.metadata().map_err(unreadable)?.is_file() {
            return Err(invalid("it is not a file"));
        }
        let mut text = Vec::new();
        file.take(RESULT_FILE_BYTES + 1).read_to_end(&mut text).map_err(unreadable)?;
        if text.len() as u64 > RESULT_FILE_BYTES { Err(too_large()) } else { Ok(Some(text)) }
    }
}

/// Sets the time of a folder to now. An error is not one: where locks are seen, nothing depends on it.
fn make_new(folder: &Path) {
    drop(File::open(folder).and_then(|folder| folder.set_modified(SystemTime::now())));
}

fn invalid(why: &str) -> Failure {
    failure("InvalidResult", format!("the command succeeded, but its result file cannot be used: {why}"))
}

fn too_large() -> Failure {
    let most = TASK_DATA_BYTES;
    failure("ResultTooLarge", format!("the command succeeded, but its result is larger than {most} bytes"))
}

/// The message does not contain the path, because its reader is on another machine.
fn failure(kind: &str, message: String) -> Failure {
    let message = format!("{message}; it is kept in the run directory of the worker");
    Failure { kind: kind.into(), message: message.into(), traceback: None }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn create(run_dir: &RunDir, args: &str) -> io::Result<RunFolder> {
        let (task, run) = (TaskId::parse("t_000000000001").unwrap(), RunId::parse("r_000000000001").unwrap());
        RunFolder::create(run_dir, task, run, &JsonObject::from_canonical(args))
    }

    fn folder() -> (tempfile::TempDir, RunFolder) {
        let top = tempfile::tempdir().unwrap();
        let folder = create(&RunDir::open(top.path()).unwrap(), "{\"a\":1}").unwrap();
        (top, folder)
    }

    #[test]
    fn args_are_written_and_no_other_user_can_read_them() {
        use std::os::unix::fs::PermissionsExt;
        let (top, folder) = folder();
        assert_eq!(folder.path(), top.path().join("t_000000000001/r_000000000001"));
        assert_eq!(fs::read_to_string(folder.args()).unwrap(), "{\"a\":1}");
        for (path, mode) in [(folder.path().parent().unwrap(), 0o700), (folder.path(), 0o700), (&folder.args(), 0o600)]
        {
            assert_eq!(path.metadata().unwrap().permissions().mode() & 0o7777, mode, "{}", path.display());
        }
    }

    #[test]
    fn an_existing_folder_is_not_used_for_a_run() {
        let (top, folder) = folder();
        let refused = create(&RunDir::open(top.path()).unwrap(), "{}").unwrap_err().to_string();
        assert!(refused.contains("r_000000000001: File exists"), "{refused}");
        assert_eq!(fs::read_to_string(folder.args()).unwrap(), "{\"a\":1}");
    }

    #[test]
    fn the_folder_of_a_run_is_created_even_if_the_run_directory_was_removed() {
        let top = tempfile::tempdir().unwrap();
        let run_dir = RunDir::open(&top.path().join("runs")).unwrap();
        fs::remove_dir(run_dir.path()).unwrap();
        assert!(create(&run_dir, "{}").is_ok());
    }

    #[test]
    fn a_json_object_is_the_result_and_no_file_an_empty_one() {
        let (_top, folder) = folder();
        assert_eq!(folder.read_result(), Ok((JsonObject::empty(), None)));
        for (text, expected, noted) in [
            (" {\"loss\": 0.50, \"n\": 3}\n", "{\"loss\":0.5,\"n\":3}", None),
            (
                "{\"loss\": NaN, \"text\": \"NaN\", \"l\": [-Infinity]}",
                r#"{"l":["-Infinity"],"loss":"NaN","text":"NaN"}"#,
                Some("NaN (1), -Infinity (1)"),
            ),
        ] {
            fs::write(folder.result(), text).unwrap();
            let (result, note) = folder.read_result().unwrap();
            assert_eq!((result.as_str(), note.is_some()), (expected, noted.is_some()));
            assert!(noted.is_none_or(|noted| note.unwrap().contains(noted)));
        }
    }

    #[test]
    fn what_cannot_be_a_result_is_a_failure_that_says_so() {
        let (_top, folder) = folder();
        let blank = " ".repeat(usize::try_from(RESULT_FILE_BYTES).unwrap());
        let deep = format!("{{\"a\":{}{}}}", "[".repeat(64), "]".repeat(64));
        for (text, kind) in [
            ("", "InvalidResult"),
            ("[1]", "InvalidResult"),
            ("NaN", "InvalidResult"),
            ("[NaN]", "InvalidResult"),
            ("{\"loss\": NaN, }", "InvalidResult"),
            ("{\"n\": 99999999999999999999}", "InvalidResult"),
            (deep.as_str(), "InvalidResult"),
            (&format!("{{}}{blank}"), "ResultTooLarge"),
            (&format!("{{\"a\":\"{}\"}}", "x".repeat(TASK_DATA_BYTES)), "ResultTooLarge"),
        ] {
            fs::write(folder.result(), text).unwrap();
            assert_eq!(&*folder.read_result().unwrap_err().kind, kind, "{}", &text[..text.len().min(40)]);
        }
    }

    #[test]
    fn a_pipe_or_a_folder_in_the_place_of_the_result_does_not_hang() {
        let (_top, folder) = folder();
        fs::create_dir(folder.result()).unwrap();
        assert_eq!(&*folder.read_result().unwrap_err().kind, "InvalidResult");
        fs::remove_dir(folder.result()).unwrap();
        let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
        rustix::fs::mknodat(rustix::fs::CWD, folder.result(), rustix::fs::FileType::Fifo, mode, 0).unwrap();
        assert_eq!(&*folder.read_result().unwrap_err().kind, "InvalidResult");
    }
}
