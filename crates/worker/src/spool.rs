//! Reports that the server has not taken yet, one file each in `undelivered/` of the run directory, for the next worker if
//! this one does not live to deliver them.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::OFlags;
use taskqueue_client::{Failure, JsonObject, QueueName, RunId, TaskId};
use taskqueue_core::json::{Value, parse, write_string};
use taskqueue_core::limits::TASK_DATA_BYTES;
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use crate::events::{Event, Listener};
use crate::report::{Report, RunOf};
use crate::run_dir::{FILE_MODE, RunDir, RunDirError, open_believed};

/// How long a disk may take. One that is far away may hang for hours, and the server should not have to wait for it.
pub(crate) const DISK_PATIENCE: Duration = Duration::from_secs(5);

/// A report is read up to here: a result or an error of 1 MiB, in which every character may be escaped.
const REPORT_BYTES: u64 = 8 * TASK_DATA_BYTES as u64;

/// Where undelivered reports are kept, and of which server.
#[derive(Clone, Debug)]
pub(crate) struct Spool(Option<Place>);

#[derive(Clone, Debug)]
struct Place {
    folder: PathBuf,
    url: String,
}

impl Spool {
    /// Keeps nothing.
    pub(crate) fn none() -> Self {
        Self(None)
    }

    /// Keeps the reports for the server at `url` in `run_dir`.
    pub(crate) fn open(run_dir: &RunDir, url: &str) -> io::Result<Self> {
        let folder = run_dir.folder("undelivered")?;
        Ok(Self(Some(Place { folder, url: url.to_owned() })))
    }

    /// Keeps a report. That this fails is no reason not to report; it is told.
    pub(crate) async fn keep(&self, run: &RunOf, report: &Report, listener: &dyn Listener) {
        let Some(place) = &self.0 else { return };
        let (file, text) = (place.file(run.run_id), text(&place.url, run, report));
        if let Err(error) = in_time(move || write(&file, &text)).await {
            let text = format!("the report cannot be kept in {}: {error}", place.folder.display());
            listener.hear(&Event::Note { task_id: Some(run.task_id), text: &text });
        }
    }

    /// Makes a report survive a power cut, now that it may have to wait for long.
    pub(crate) async fn make_durable(&self, run: &RunOf) {
        let Some(place) = &self.0 else { return };
        let file = place.file(run.run_id);
        // What cannot be synced is still kept as well as this disk can.
        drop(in_time(move || File::open(file)?.sync_all()).await);
    }

    /// Forgets a report that is settled. A file that stays is delivered again, which has no effect.
    pub(crate) async fn forget(&self, run: &RunOf) {
        if let Some(place) = &self.0 {
            let file = place.file(run.run_id);
            drop(in_time(move || fs::remove_file(file)).await);
        }
    }

    /// The reports for this server that are there now. What cannot be read is left alone; what somebody else can have written is
    /// left alone and told.
    pub(crate) fn left_over(&self, listener: &dyn Listener) -> Vec<(RunOf, Report)> {
        let Some(place) = &self.0 else { return Vec::new() };
        let Ok(entries) = fs::read_dir(&place.folder) else { return Vec::new() };
        let files = entries.flatten().map(|entry| entry.path());
        let mut reports = Vec::new();
        for file in files.filter(|file| file.extension().is_some_and(|end| end == "json")) {
            match open_believed(&file) {
                Ok(opened) => reports.extend(place.read(&file, opened)),
                Err(RunDirError::NotOurs(why)) => {
                    let text = format!("a report is not delivered: {why}");
                    listener.hear(&Event::Note { task_id: None, text: &text });
                }
                Err(RunDirError::Unusable { .. }) => {}
            }
        }
        reports
    }
}

impl Place {
    fn file(&self, run_id: RunId) -> PathBuf {
        self.folder.join(format!("{run_id}.json"))
    }

    fn read(&self, path: &Path, file: File) -> Option<(RunOf, Report)> {
        let mut text = Vec::new();
        file.take(REPORT_BYTES).read_to_end(&mut text).ok()?;
        let value = parse(&text).ok()?;
        if string(&value, "url")? != self.url {
            return None;
        }
        let run = RunOf {
            queue: QueueName::parse(string(&value, "queue")?)?,
            task_id: TaskId::parse(string(&value, "task_id")?)?,
            run_id: RunId::parse(string(&value, "run_id")?)?,
        };
        // Under another name it would never be removed, and would be delivered by every worker.
        if *path != self.file(run.run_id) {
            return None;
        }
        let report = match string(&value, "action")? {
            "complete" => Report::Complete(JsonObject::from_value(member(&value, "result")?).ok()?),
            "fail" => Report::Fail(failure(member(&value, "error")?)?),
            "unclaim" => Report::Unclaim,
            _ => return None,
        };
        Some((run, report))
    }
}

/// Does something with the disk off the threads that keep the leases of all slots, and does not wait for it for ever.
async fn in_time(work: impl FnOnce() -> io::Result<()> + Send + 'static) -> io::Result<()> {
    match timeout(DISK_PATIENCE, spawn_blocking(work)).await {
        Ok(done) => done.unwrap_or_else(|error| Err(error.into())),
        Err(_) => Err(io::Error::new(io::ErrorKind::TimedOut, "the disk does not answer")),
    }
}

/// Written aside and renamed, so that nobody reads half of it.
fn write(file: &Path, text: &[u8]) -> io::Result<()> {
    let aside = file.with_extension("new");
    let mut options = OpenOptions::new();
    // Results are nobody else's business. The folder is ours, so a file that is there already is one that we have not finished.
    options.write(true).create(true).truncate(true).mode(FILE_MODE);
    options.custom_flags(i32::try_from(OFlags::NOFOLLOW.bits()).unwrap_or(0));
    options.open(&aside)?.write_all(text)?;
    fs::rename(aside, file)
}

fn text(url: &str, run: &RunOf, report: &Report) -> Vec<u8> {
    let mut out = Vec::new();
    let mut field = |name: &str, value: &str| {
        out.push(if out.is_empty() { b'{' } else { b',' });
        write_string(&mut out, name);
        out.push(b':');
        write_string(&mut out, value);
    };
    field("url", url);
    field("queue", run.queue.as_str());
    field("task_id", run.task_id.as_str());
    field("run_id", run.run_id.as_str());
    match report {
        Report::Complete(result) => {
            field("action", "complete");
            out.extend_from_slice(b",\"result\":");
            out.extend_from_slice(result.as_str().as_bytes());
        }
        Report::Fail(failure) => {
            field("action", "fail");
            out.extend_from_slice(b",\"error\":{\"type\":");
            write_string(&mut out, &failure.kind);
            out.extend_from_slice(b",\"message\":");
            write_string(&mut out, &failure.message);
            if let Some(traceback) = &failure.traceback {
                out.extend_from_slice(b",\"traceback\":");
                write_string(&mut out, traceback);
            }
            out.push(b'}');
        }
        Report::Unclaim => field("action", "unclaim"),
    }
    out.extend_from_slice(b"}\n");
    out
}

fn failure(value: &Value<'_>) -> Option<Failure> {
    Some(Failure {
        kind: string(value, "type")?.into(),
        message: string(value, "message")?.into(),
        traceback: string(value, "traceback").map(Into::into),
    })
}

fn member<'a, 'v>(value: &'a Value<'v>, name: &str) -> Option<&'a Value<'v>> {
    let Value::Object(members) = value else { return None };
    members.iter().find(|(key, _)| key == name).map(|(_, value)| value)
}

fn string<'a>(value: &'a Value<'_>, name: &str) -> Option<&'a str> {
    if let Value::Str(text) = member(value, name)? { Some(text) } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(number: u8) -> RunOf {
        RunOf {
            queue: QueueName::parse("q").unwrap(),
            task_id: TaskId::parse("t_000000000001").unwrap(),
            run_id: RunId::parse(&format!("r_00000000000{number}")).unwrap(),
        }
    }

    fn reports() -> Vec<(RunOf, Report)> {
        let result = JsonObject::from_value(&parse(br#"{"loss":0.5,"text":"\u0000\n"}"#).unwrap()).unwrap();
        let failure = |traceback: Option<&str>| Failure {
            kind: "ExitCode".into(),
            message: "exit code 1 \"quoted\"".into(),
            traceback: traceback.map(Into::into),
        };
        vec![
            (run(1), Report::Complete(result)),
            (run(2), Report::Fail(failure(Some("line 1\nline 2")))),
            (run(3), Report::Fail(failure(None))),
            (run(4), Report::Unclaim),
        ]
    }

    fn sorted(mut reports: Vec<(RunOf, Report)>) -> Vec<(RunOf, Report)> {
        reports.sort_by_key(|(run, _)| run.run_id);
        reports
    }

    fn run_dir(folder: &tempfile::TempDir) -> RunDir {
        RunDir::open(folder.path()).unwrap()
    }

    #[tokio::test]
    async fn what_is_kept_is_found_again_until_it_is_forgotten() {
        let folder = tempfile::tempdir().unwrap();
        let spool = Spool::open(&run_dir(&folder), "http://a").unwrap();
        for (run, report) in reports() {
            spool.keep(&run, &report, &()).await;
            spool.make_durable(&run).await;
        }
        let again = Spool::open(&run_dir(&folder), "http://a").unwrap();
        assert_eq!(sorted(again.left_over(&())), reports());
        spool.forget(&run(2)).await;
        spool.forget(&run(2)).await;
        assert_eq!(again.left_over(&()).len(), 3);
    }

    #[tokio::test]
    async fn reports_for_another_server_and_files_of_others_are_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let spool = Spool::open(&run_dir(&folder), "http://a").unwrap();
        spool.keep(&run(1), &Report::Unclaim, &()).await;
        fs::write(folder.path().join("undelivered/half.json"), "{\"url\":\"http://b\"").unwrap();
        assert!(Spool::open(&run_dir(&folder), "http://b").unwrap().left_over(&()).is_empty());
        assert_eq!(spool.left_over(&()).len(), 1);
    }

    #[tokio::test]
    async fn without_a_run_directory_nothing_is_kept() {
        let spool = Spool::none();
        spool.keep(&run(1), &Report::Unclaim, &()).await;
        assert!(spool.left_over(&()).is_empty());
    }
}
