//! The folder of one run, `RUN_DIR/<task>/<run>/`: the args that it gets, the result that it leaves, the output that it made.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use taskqueue_client::{Failure, JsonObject, RunId, TaskId};
use taskqueue_core::json::{ObjectError, ParseError, parse};
use taskqueue_core::limits::TASK_DATA_BYTES;

use crate::run_dir::{RunDir, open_options};

/// A result file is read up to here: blanks and escapes may make it larger than what is kept of it.
const RESULT_FILE_BYTES: u64 = 8 * TASK_DATA_BYTES as u64;

/// The folder of one run.
#[derive(Debug)]
pub(crate) struct RunFolder(PathBuf);

impl RunFolder {
    /// Makes the folder, with the args in it. Nobody else may look: args and results can be confidential.
    pub(crate) fn create(run_dir: &RunDir, task_id: TaskId, run_id: RunId, args: &JsonObject) -> io::Result<Self> {
        let folder = Self(run_dir.new_folder(task_id.as_str(), run_id.as_str())?);
        let mut file = open_options().write(true).create_new(true).open(folder.args())?;
        file.write_all(args.as_str().as_bytes())?;
        Ok(folder)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// The args of the task, as JSON.
    pub(crate) fn args(&self) -> PathBuf {
        self.0.join("args.json")
    }

    /// Where the child may leave its result.
    pub(crate) fn result(&self) -> PathBuf {
        self.0.join("result.json")
    }

    /// What the child says.
    pub(crate) fn log(&self) -> PathBuf {
        self.0.join("output.log")
    }

    /// The result that the child left: `{}` when it left none. One that cannot be a result is a failure that says so.
    pub(crate) fn read_result(&self) -> Result<JsonObject, Failure> {
        let Some(text) = self.result_text()? else { return Ok(JsonObject::empty()) };
        let value = parse(&text).map_err(|error| match error {
            ParseError::Malformed { message, byte } => {
                invalid(&format!("it is not JSON ({message}, at byte {byte}; NaN and Infinity are no JSON)"))
            }
            ParseError::TooDeep => invalid("it is nested too deeply"),
        })?;
        let result = JsonObject::from_value(&value).map_err(|error| match error {
            ObjectError::NotAnObject => invalid("it is not a JSON object"),
            ObjectError::TooDeep => invalid("it is nested more than 64 levels deep"),
            ObjectError::Unusable { .. } => {
                invalid("numbers must be integers of 64 bits or finite, and text whole characters")
            }
        })?;
        if result.as_str().len() > TASK_DATA_BYTES { Err(too_large()) } else { Ok(result) }
    }

    fn result_text(&self) -> Result<Option<Vec<u8>>, Failure> {
        // A pipe in the place of the file must not keep us waiting for somebody who writes to it.
        let mut options = OpenOptions::new();
        let flags = i32::try_from(rustix::fs::OFlags::NONBLOCK.bits()).unwrap_or(0);
        std::os::unix::fs::OpenOptionsExt::custom_flags(options.read(true), flags);
        let unreadable = |error: io::Error| invalid(&format!("it cannot be read: {error}"));
        let file = match options.open(self.result()) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(unreadable(error)),
        };
        if !file.metadata().map_err(unreadable)?.is_file() {
            return Err(invalid("it is not a file"));
        }
        read_bounded(&file).map_err(unreadable)?.map(Some).ok_or_else(too_large)
    }
}

/// The whole file; nothing when it is too large to be a result.
fn read_bounded(file: &File) -> io::Result<Option<Vec<u8>>> {
    let mut text = Vec::new();
    file.take(RESULT_FILE_BYTES + 1).read_to_end(&mut text)?;
    Ok((text.len() as u64 <= RESULT_FILE_BYTES).then_some(text))
}

fn invalid(why: &str) -> Failure {
    failure("InvalidResult", format!("the command succeeded, but its result file cannot be used: {why}"))
}

fn too_large() -> Failure {
    let most = TASK_DATA_BYTES;
    failure("ResultTooLarge", format!("the command succeeded, but its result is larger than {most} bytes"))
}

/// The file itself stays where it is, so nothing is lost; the message does not say where, because that is another machine.
fn failure(kind: &str, message: String) -> Failure {
    let message = format!("{message}; it is kept in the run directory of the worker");
    Failure { kind: kind.into(), message: message.into(), traceback: None }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn folder() -> (tempfile::TempDir, RunFolder) {
        let place = tempfile::tempdir().unwrap();
        let task = TaskId::parse("t_000000000001").unwrap();
        let run = RunId::parse("r_000000000001").unwrap();
        let run_dir = RunDir::open(place.path()).unwrap();
        let folder = RunFolder::create(&run_dir, task, run, &JsonObject::from_canonical("{\"a\":1}")).unwrap();
        (place, folder)
    }

    #[test]
    fn args_are_there_and_nobody_else_can_look() {
        use std::os::unix::fs::PermissionsExt;
        let (place, folder) = folder();
        assert_eq!(folder.path(), place.path().join("t_000000000001/r_000000000001"));
        assert_eq!(fs::read_to_string(folder.args()).unwrap(), "{\"a\":1}");
        for (path, mode) in [(folder.path().parent().unwrap(), 0o700), (folder.path(), 0o700), (&folder.args(), 0o600)]
        {
            assert_eq!(path.metadata().unwrap().permissions().mode() & 0o7777, mode, "{}", path.display());
        }
    }

    #[test]
    fn a_folder_that_is_there_already_is_not_the_folder_of_a_run() {
        let (place, folder) = folder();
        let run_dir = RunDir::open(place.path()).unwrap();
        let (task, run) = (TaskId::parse("t_000000000001").unwrap(), RunId::parse("r_000000000001").unwrap());
        let refused = RunFolder::create(&run_dir, task, run, &JsonObject::empty()).unwrap_err().to_string();
        assert!(refused.contains("r_000000000001: File exists"), "{refused}");
        assert_eq!(fs::read_to_string(folder.args()).unwrap(), "{\"a\":1}");
    }

    #[test]
    fn the_folder_of_a_run_is_made_even_if_somebody_has_tidied_up() {
        let place = tempfile::tempdir().unwrap();
        let run_dir = RunDir::open(&place.path().join("runs")).unwrap();
        fs::remove_dir(run_dir.path()).unwrap();
        let (task, run) = (TaskId::parse("t_000000000001").unwrap(), RunId::parse("r_000000000001").unwrap());
        assert!(RunFolder::create(&run_dir, task, run, &JsonObject::empty()).is_ok());
    }

    #[test]
    fn no_result_file_is_an_empty_result() {
        assert_eq!(folder().1.read_result(), Ok(JsonObject::empty()));
    }

    #[test]
    fn a_json_object_is_the_result() {
        let (_place, folder) = folder();
        fs::write(folder.result(), " {\"loss\": 0.50, \"n\": 3}\n").unwrap();
        assert_eq!(folder.read_result().unwrap().as_str(), "{\"loss\":0.5,\"n\":3}");
    }

    #[test]
    fn what_cannot_be_a_result_is_a_failure_that_says_so() {
        let (_place, folder) = folder();
        let blank = " ".repeat(usize::try_from(RESULT_FILE_BYTES).unwrap());
        let deep = format!("{{\"a\":{}{}}}", "[".repeat(64), "]".repeat(64));
        for (text, kind) in [
            ("", "InvalidResult"),
            ("[1]", "InvalidResult"),
            ("{\"loss\": NaN}", "InvalidResult"),
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
        let (_place, folder) = folder();
        fs::create_dir(folder.result()).unwrap();
        assert_eq!(&*folder.read_result().unwrap_err().kind, "InvalidResult");
        fs::remove_dir(folder.result()).unwrap();
        let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
        rustix::fs::mknodat(rustix::fs::CWD, folder.result(), rustix::fs::FileType::Fifo, mode, 0).unwrap();
        assert_eq!(&*folder.read_result().unwrap_err().kind, "InvalidResult");
    }
}
