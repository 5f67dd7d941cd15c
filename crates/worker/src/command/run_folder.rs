//! The folder of one run, `RUN_DIR/<task>/<run>/`: args, result, progress and output; and the JSON objects in the files that a command has
//! written there. `NaN`, `Infinity` and `-Infinity`, as Python's `json.dump` writes them, are no JSON. They become the strings "NaN",
//! "Infinity" and "-Infinity": a training that diverged has a result.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use rustix::fs::{FlockOperation, OFlags, flock};
use rustix::io::Errno;
use taskqueue_client::{Failure, JsonObject, RunId, TaskId};
use taskqueue_core::json::{ObjectError, ParseError, Value, parse};
use taskqueue_core::limits::TASK_DATA_BYTES;
use tokio::task::spawn_blocking;
use tokio::time::sleep;

use crate::handler::RunProgress;
use crate::run_dir::{RunDir, open_options, with_flags};

/// The longest result file that is read. Blanks and escapes make it larger than the stored result.
const RESULT_FILE_BYTES: u64 = 8 * TASK_DATA_BYTES as u64;

pub(super) const ARGS: &str = "args.json";
pub(super) const RESULT: &str = "result.json";
pub(super) const PROGRESS: &str = "progress.json";
pub(super) const LOG: &str = "output.log";

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

    /// The path of one of its files.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.path.join(name)
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
        let log = open_options().append(true).create(true).open(self.file(LOG));
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
        let file = match options.read(true).open(self.file(RESULT)) {
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

/// Sets the time of a folder to now: at the end of its run, from which on its age counts, and while it goes on. An error is not one: where
/// locks are seen, nothing depends on it, and without it the age counts from the last change.
pub(super) fn make_new(folder: &Path) {
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

/// The longest file that is read.
pub const PROGRESS_FILE_BYTES: usize = 64 * 1024;

/// The times of files are this coarse: one that was changed more recently may have been changed again since it was read.
const COARSE: Duration = Duration::from_secs(2);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct FileVersion {
    inode: u64,
    changed: (i64, i64),
    bytes: u64,
}

#[derive(Debug)]
pub(super) struct ProgressFile {
    path: PathBuf,
    /// The version that was read last, if it can be told from the next one.
    seen: Option<FileVersion>,
}

impl ProgressFile {
    pub(super) fn new(path: PathBuf) -> Self {
        Self { path, seen: None }
    }

    /// Looks at the file again and again. Never returns. What is no object may be half written, and is read again the next time.
    pub(super) async fn watch(mut self, interval: Duration, progress: &RunProgress) {
        loop {
            sleep(interval).await;
            let looking = spawn_blocking(move || {
                let found = self.read_changed();
                (self, found)
            });
            // An error means that the runtime is shutting down.
            let Ok((file, found)) = looking.await else { return std::future::pending().await };
            self = file;
            if let Ok(Some(object)) = found {
                progress.report(object);
            }
        }
    }

    /// The object, if it may have changed since the last time. Blocks.
    ///
    /// # Errors
    ///
    /// Why it cannot be used, for people.
    pub(super) fn read_changed(&mut self) -> Result<Option<JsonObject>, String> {
        let unreadable = |error: io::Error| format!("it cannot be read: {error}");
        // Neither follows a link nor waits for the other end of a pipe.
        let file = match open_options().read(true).open(&self.path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) if error.raw_os_error() == Some(Errno::LOOP.raw_os_error()) => {
                return Err("it is a link, and no link is followed".to_owned());
            }
            Err(error) => return Err(unreadable(error)),
        };
        let metadata = file.metadata().map_err(unreadable)?;
        if !metadata.is_file() {
            return Err("it is not a file".to_owned());
        }
        let changed = (metadata.mtime(), metadata.mtime_nsec());
        let version = FileVersion { inode: metadata.ino(), changed, bytes: metadata.len() };
        if self.seen == Some(version) {
            return Ok(None);
        }
        let mut text = Vec::new();
        file.take(PROGRESS_FILE_BYTES as u64 + 1).read_to_end(&mut text).map_err(unreadable)?;
        if text.len() > PROGRESS_FILE_BYTES {
            return Err(format!("it is larger than {PROGRESS_FILE_BYTES} bytes"));
        }
        // Notes are left out: a loss that is not a number is no reason to know nothing of the progress.
        let (object, _) = read_object(&text)?;
        let age = metadata.modified().ok().and_then(|time| SystemTime::now().duration_since(time).ok());
        self.seen = age.filter(|age| *age > COARSE).map(|_| version);
        Ok(Some(object))
    }
}

const WORDS: [&str; 3] = ["NaN", "Infinity", "-Infinity"];

/// Reads the object in a text, and a note for people if numbers that are no JSON were replaced.
///
/// # Errors
///
/// Says for people why it cannot be used.
pub(super) fn read_object(text: &[u8]) -> Result<(JsonObject, Option<String>), String> {
    let parsed = parse(text);
    if let Err(ParseError::Malformed { .. }) = parsed
        && let Some(replaced) = replace(text)
    {
        return Ok((to_object(parse(&replaced.text))?, Some(replaced.note())));
    }
    Ok((to_object(parsed)?, None))
}

fn to_object(parsed: Result<Value<'_>, ParseError>) -> Result<JsonObject, String> {
    let value = parsed.map_err(|error| match error {
        ParseError::Malformed { message, byte } => format!("it is not JSON ({message}, at byte {byte})"),
        ParseError::TooDeep => "it is nested too deeply".to_owned(),
    })?;
    JsonObject::from_value(&value).map_err(|error| {
        let why = match error {
            ObjectError::NotAnObject => "it is not a JSON object",
            ObjectError::TooDeep => "it is nested more than 64 levels deep",
            ObjectError::Unusable { .. } => "numbers must be integers of 64 bits or finite, and text whole characters",
        };
        why.to_owned()
    })
}

/// A text in which such values were replaced by strings.
#[derive(Debug, PartialEq, Eq)]
struct ReplacedText {
    text: Vec<u8>,
    /// The number of times that each of the words was replaced.
    counts: [usize; WORDS.len()],
}

impl ReplacedText {
    /// Names the values that were replaced, for people.
    fn note(&self) -> String {
        let found = WORDS.iter().zip(self.counts).filter(|(_, count)| *count > 0);
        let found: Vec<String> = found.map(|(word, count)| format!("{word} ({count})")).collect();
        format!("the result contains numbers that are no JSON; they are stored as strings: {}", found.join(", "))
    }
}

/// Replaces the words where a value stands, never in a string and never as the name of a member; `None` if there is none. The text
/// need not be JSON otherwise: that is checked afterwards.
fn replace(text: &[u8]) -> Option<ReplacedText> {
    let mut replaced = ReplacedText { text: Vec::with_capacity(text.len()), counts: [0; WORDS.len()] };
    let mut at = 0;
    while at < text.len() {
        let end = if text[at] == b'"' { end_of_string(text, at) } else { at + 1 };
        if let Some((index, word)) = word_at(text, at) {
            replaced.counts[index] += 1;
            replaced.text.extend([b"\"", word.as_bytes(), b"\""].concat());
            at += word.len();
        } else {
            replaced.text.extend_from_slice(&text[at..end]);
            at = end;
        }
    }
    (replaced.counts.iter().sum::<usize>() > 0).then_some(replaced)
}

/// The position behind the string that begins here.
fn end_of_string(text: &[u8], start: usize) -> usize {
    let mut at = start + 1;
    while at < text.len() && text[at] != b'"' {
        at += if text[at] == b'\\' { 2 } else { 1 };
    }
    (at + 1).min(text.len())
}

/// The word that stands here as a value: between `:`, `[` or `,` and `,`, `]` or `}`.
fn word_at(text: &[u8], at: usize) -> Option<(usize, &'static str)> {
    let (index, word) = WORDS.iter().enumerate().find(|(_, word)| text[at..].starts_with(word.as_bytes()))?;
    let is_blank = |byte: &&u8| matches!(**byte, b' ' | b'\t' | b'\n' | b'\r');
    let before = text[..at].iter().rev().find(|byte| !is_blank(byte));
    let after = text[at + word.len()..].iter().find(|byte| !is_blank(byte));
    let is_value = matches!(before, Some(b':' | b'[' | b',')) && matches!(after, Some(b',' | b']' | b'}'));
    is_value.then_some((index, word))
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};
    use std::os::unix::fs::symlink;
    use std::pin::pin;
    use std::sync::Arc;

    use rustix::fs::{CWD, FileType, Mode, mknodat};
    use tempfile::TempDir;
    use tokio::sync::watch;
    use tokio::time::timeout;

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
        assert_eq!(fs::read_to_string(folder.file(ARGS)).unwrap(), "{\"a\":1}");
        for (path, mode) in
            [(folder.path().parent().unwrap(), 0o700), (folder.path(), 0o700), (&folder.file(ARGS), 0o600)]
        {
            assert_eq!(path.metadata().unwrap().permissions().mode() & 0o7777, mode, "{}", path.display());
        }
    }

    #[test]
    fn an_existing_folder_is_not_used_for_a_run() {
        let (top, folder) = folder();
        let refused = create(&RunDir::open(top.path()).unwrap(), "{}").unwrap_err().to_string();
        assert!(refused.contains("r_000000000001: File exists"), "{refused}");
        assert_eq!(fs::read_to_string(folder.file(ARGS)).unwrap(), "{\"a\":1}");
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
            fs::write(folder.file(RESULT), text).unwrap();
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
            fs::write(folder.file(RESULT), text).unwrap();
            assert_eq!(&*folder.read_result().unwrap_err().kind, kind, "{}", &text[..text.len().min(40)]);
        }
    }

    #[test]
    fn a_pipe_or_a_folder_in_the_place_of_the_result_does_not_hang() {
        let (_top, folder) = folder();
        fs::create_dir(folder.file(RESULT)).unwrap();
        assert_eq!(&*folder.read_result().unwrap_err().kind, "InvalidResult");
        fs::remove_dir(folder.file(RESULT)).unwrap();
        let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
        rustix::fs::mknodat(rustix::fs::CWD, folder.file(RESULT), rustix::fs::FileType::Fifo, mode, 0).unwrap();
        assert_eq!(&*folder.read_result().unwrap_err().kind, "InvalidResult");
    }

    fn file() -> (TempDir, PathBuf, ProgressFile) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("progress.json");
        (folder, path.clone(), ProgressFile::new(path))
    }

    /// Makes a file as old as one that nobody writes to any more.
    fn age(path: &PathBuf) {
        let old = SystemTime::now() - Duration::from_secs(10);
        File::options().write(true).open(path).unwrap().set_modified(old).unwrap();
    }

    fn found(file: &mut ProgressFile) -> Option<String> {
        file.read_changed().unwrap().map(|object| object.as_str().to_owned())
    }

    #[test]
    fn the_object_is_found_and_again_when_it_changes() {
        let (_folder, path, mut file) = file();
        assert_eq!(found(&mut file), None);
        // The second is as long as the first, and perhaps written at the same time as far as the disk can tell.
        for (text, expected) in [
            ("{\"step\": 1}", "{\"step\":1}"),
            ("{\"step\": 2}", "{\"step\":2}"),
            ("{\"loss\": NaN, \"grad\": -Infinity}", r#"{"grad":"-Infinity","loss":"NaN"}"#),
        ] {
            fs::write(&path, text).unwrap();
            assert_eq!(found(&mut file).as_deref(), Some(expected));
        }
        let next = path.with_extension("tmp");
        fs::write(&next, "{\"step\": 3}").unwrap();
        fs::rename(&next, &path).unwrap();
        assert_eq!(found(&mut file).as_deref(), Some("{\"step\":3}"));
    }

    #[test]
    fn what_has_not_changed_for_a_while_is_not_read_again() {
        let (_folder, path, mut file) = file();
        fs::write(&path, "{}").unwrap();
        age(&path);
        assert_eq!((found(&mut file).as_deref(), found(&mut file)), (Some("{}"), None));
        fs::write(&path, "{\"a\":1}").unwrap();
        assert!(found(&mut file).is_some());
    }

    #[test]
    fn half_a_file_is_read_again() {
        let (_folder, path, mut file) = file();
        for half in ["", "{", "{\"step\": 1", "{\"step\": 1}}"] {
            fs::write(&path, half).unwrap();
            age(&path);
            assert!(file.read_changed().is_err() && file.read_changed().is_err(), "{half}");
        }
        fs::write(&path, "{\"step\": 1}").unwrap();
        assert_eq!(found(&mut file).as_deref(), Some("{\"step\":1}"));
    }

    #[tokio::test(start_paused = true)]
    async fn half_a_file_keeps_what_was_there_until_it_is_whole() {
        let (_folder, path, file) = file();
        let (sender, reported) = watch::channel(None);
        let (interval, progress) = (Duration::from_secs(1), RunProgress(Arc::new(sender)));
        let mut watching = pin!(file.watch(interval, &progress));
        for (text, expected) in
            [("{\"step\": 1}", "{\"step\":1}"), ("{\"step\":", "{\"step\":1}"), ("{\"step\": 2}", "{\"step\":2}")]
        {
            fs::write(&path, text).unwrap();
            // Paused time stands still during a look, so there are at least two.
            assert!(timeout(3 * interval, watching.as_mut()).await.is_err(), "it never returns");
            assert_eq!(reported.borrow().as_ref().map(JsonObject::as_str), Some(expected), "{text}");
        }
    }

    #[test]
    fn what_cannot_be_progress_says_why_and_does_not_hang() {
        let (_folder, path, mut file) = file();
        let huge = format!("{{\"a\":\"{}\"}}", "x".repeat(PROGRESS_FILE_BYTES));
        for (text, why) in
            [("[1]", "not a JSON object"), ("{\"n\":99999999999999999999}", "64 bits"), (&*huge, "larger than 65536")]
        {
            fs::write(&path, text).unwrap();
            let told = file.read_changed().unwrap_err();
            assert!(told.contains(why), "{told}");
        }
        fs::remove_file(&path).unwrap();
        fs::create_dir(&path).unwrap();
        assert!(file.read_changed().is_err());
        fs::remove_dir(&path).unwrap();
        mknodat(CWD, &path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        assert_eq!(file.read_changed().unwrap_err(), "it is not a file");
        fs::remove_file(&path).unwrap();
        symlink("/dev/zero", &path).unwrap();
        assert_eq!(file.read_changed().unwrap_err(), "it is a link, and no link is followed");
    }

    fn replaced(text: &str) -> Option<String> {
        replace(text.as_bytes()).map(|replaced| String::from_utf8(replaced.text).unwrap())
    }

    #[test]
    fn values_become_strings() {
        for (text, expected) in [
            (r#"{"loss": NaN}"#, r#"{"loss": "NaN"}"#),
            (
                r#"{"a":[NaN,Infinity , -Infinity],"b":-Infinity}"#,
                r#"{"a":["NaN","Infinity" , "-Infinity"],"b":"-Infinity"}"#,
            ),
            ("{\"a\":\n\tNaN\r\n}", "{\"a\":\n\t\"NaN\"\r\n}"),
            (
                r#"{"NaN":NaN,"\"":"\\","x":"ü: NaN, \\\" NaN","y":Infinity}"#,
                r#"{"NaN":"NaN","\"":"\\","x":"ü: NaN, \\\" NaN","y":"Infinity"}"#,
            ),
        ] {
            assert_eq!(replaced(text).as_deref(), Some(expected));
        }
    }

    #[test]
    fn everything_else_stays() {
        let texts =
            r#"{} NaN {"a":"NaN"} {NaN:1} {"a":1,NaN:1} {"a":NaN1} {"a":1NaN} {"a":--Infinity} {"a":+Infinity}"#;
        let rest = r#"{"a":nan} {"a":NaN {"a":"\"#;
        for text in texts.split(' ').chain(rest.split(' ')).chain(["", r#"{"a":": NaN,"}"#]) {
            assert_eq!(replaced(text), None, "{text}");
        }
    }

    #[test]
    fn the_note_says_what_was_found_and_how_often() {
        let note = replace(br#"{"a":[NaN,NaN],"b":-Infinity}"#).unwrap().note();
        assert!(note.ends_with("stored as strings: NaN (2), -Infinity (1)"), "{note}");
    }
}
