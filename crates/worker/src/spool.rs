//! Reports that the server has neither accepted nor refused, one file each in `undelivered/` of the run directory. If this worker
//! ends before they are delivered, the next one delivers them.

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

use crate::events::{Event, EventSink};
use crate::report::{FinalReport, RunKey};
use crate::run_dir::{FILE_MODE, RunDir, RunDirError, open_private};

/// How long a disk operation may take. A network disk may hang for hours, and must not delay the reports.
pub(crate) const DISK_TIMEOUT: Duration = Duration::from_secs(5);

/// The longest file that is read: a result or an error of 1 MiB in which every character may be escaped.
const REPORT_BYTES: u64 = 8 * TASK_DATA_BYTES as u64;

#[derive(Clone, Debug)]
pub(crate) struct Spool(Option<SpoolFolder>);

#[derive(Clone, Debug)]
struct SpoolFolder {
    folder: PathBuf,
    url: String,
}

impl Spool {
    /// Stores nothing.
    pub(crate) fn disabled() -> Self {
        Self(None)
    }

    pub(crate) fn open(run_dir: &RunDir, url: &str) -> io::Result<Self> {
        let folder = run_dir.folder("undelivered")?;
        Ok(Self(Some(SpoolFolder { folder, url: url.to_owned() })))
    }

    /// Stores a report before it is sent. A failure is noted and does not prevent the sending.
    pub(crate) async fn store(&self, run: &RunKey, report: &FinalReport, events: &dyn EventSink) {
        let Some(spool) = &self.0 else { return };
        let (file, text) = (spool.file(run.run_id), text(&spool.url, run, report));
        if let Err(error) = with_timeout(move || write(&file, &text)).await {
            let text = format!("the report cannot be stored in {}: {error}", spool.folder.display());
            events.on_event(&Event::Note { task_id: Some(run.task_id), text: &text });
        }
    }

    /// Syncs a stored report to disk, because it may have to wait for long.
    pub(crate) async fn sync(&self, run: &RunKey) {
        let Some(spool) = &self.0 else { return };
        let file = spool.file(run.run_id);
        // A report that cannot be synced is still in its file.
        drop(with_timeout(move || File::open(file)?.sync_all()).await);
    }

    /// Removes a report that was accepted or refused. If that fails it is delivered again, which has no effect.
    pub(crate) async fn remove(&self, run: &RunKey) {
        if let Some(spool) = &self.0 {
            let file = spool.file(run.run_id);
            drop(with_timeout(move || fs::remove_file(file)).await);
        }
    }

    /// Loads the stored reports for this server. Files that cannot be read are skipped; files that another user can have written
    /// are skipped and noted.
    pub(crate) fn load(&self, events: &dyn EventSink) -> Vec<(RunKey, FinalReport)> {
        let Some(spool) = &self.0 else { return Vec::new() };
        let Ok(entries) = fs::read_dir(&spool.folder) else { return Vec::new() };
        let files = entries.flatten().map(|entry| entry.path());
        let mut reports = Vec::new();
        for file in files.filter(|file| file.extension().is_some_and(|end| end == "json")) {
            match open_private(&file) {
                Ok(opened) => reports.extend(spool.read(&file, opened)),
                Err(RunDirError::Insecure(why)) => {
                    let text = format!("a report is not delivered: {why}");
                    events.on_event(&Event::Note { task_id: None, text: &text });
                }
                Err(RunDirError::Unusable { .. }) => {}
            }
        }
        reports
    }
}

impl SpoolFolder {
    fn file(&self, run_id: RunId) -> PathBuf {
        self.folder.join(format!("{run_id}.json"))
    }

    fn read(&self, path: &Path, file: File) -> Option<(RunKey, FinalReport)> {
        let mut text = Vec::new();
        file.take(REPORT_BYTES).read_to_end(&mut text).ok()?;
        let value = parse(&text).ok()?;
        if string(&value, "url")? != self.url {
            return None;
        }
        let run = RunKey {
            queue: QueueName::parse(string(&value, "queue")?)?,
            task_id: TaskId::parse(string(&value, "task_id")?)?,
            run_id: RunId::parse(string(&value, "run_id")?)?,
        };
        // A file with another name would never be removed, and every worker would deliver it.
        if *path != self.file(run.run_id) {
            return None;
        }
        let report = match string(&value, "action")? {
            "complete" => FinalReport::Complete(JsonObject::from_value(member(&value, "result")?).ok()?),
            "fail" => FinalReport::Fail(failure(member(&value, "error")?)?),
            "unclaim" => FinalReport::Unclaim,
            _ => return None,
        };
        Some((run, report))
    }
}

/// Runs a disk operation on a blocking thread, because the async threads renew leases, and limits its duration.
async fn with_timeout(work: impl FnOnce() -> io::Result<()> + Send + 'static) -> io::Result<()> {
    match timeout(DISK_TIMEOUT, spawn_blocking(work)).await {
        Ok(done) => done.unwrap_or_else(|error| Err(error.into())),
        Err(_) => Err(io::Error::new(io::ErrorKind::TimedOut, "the disk does not answer")),
    }
}

/// Writes to another file and renames it, so that no reader sees half a report.
fn write(file: &Path, text: &[u8]) -> io::Result<()> {
    let unfinished = file.with_extension("new");
    let mut options = OpenOptions::new();
    // Only this user writes to the folder, so an existing file is an unfinished one of a worker.
    options.write(true).create(true).truncate(true).mode(FILE_MODE);
    options.custom_flags(i32::try_from(OFlags::NOFOLLOW.bits()).unwrap_or(0));
    options.open(&unfinished)?.write_all(text)?;
    fs::rename(unfinished, file)
}

fn text(url: &str, run: &RunKey, report: &FinalReport) -> Vec<u8> {
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
        FinalReport::Complete(result) => {
            field("action", "complete");
            out.extend_from_slice(b",\"result\":");
            out.extend_from_slice(result.as_str().as_bytes());
        }
        FinalReport::Fail(failure) => {
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
        FinalReport::Unclaim => field("action", "unclaim"),
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

    fn run(number: u8) -> RunKey {
        RunKey {
            queue: QueueName::parse("q").unwrap(),
            task_id: TaskId::parse("t_000000000001").unwrap(),
            run_id: RunId::parse(&format!("r_00000000000{number}")).unwrap(),
        }
    }

    fn reports() -> Vec<(RunKey, FinalReport)> {
        let result = JsonObject::from_value(&parse(br#"{"loss":0.5,"text":"\u0000\n"}"#).unwrap()).unwrap();
        let failure = |traceback: Option<&str>| Failure {
            kind: "ExitCode".into(),
            message: "exit code 1 \"quoted\"".into(),
            traceback: traceback.map(Into::into),
        };
        vec![
            (run(1), FinalReport::Complete(result)),
            (run(2), FinalReport::Fail(failure(Some("line 1\nline 2")))),
            (run(3), FinalReport::Fail(failure(None))),
            (run(4), FinalReport::Unclaim),
        ]
    }

    fn sorted(mut reports: Vec<(RunKey, FinalReport)>) -> Vec<(RunKey, FinalReport)> {
        reports.sort_by_key(|(run, _)| run.run_id);
        reports
    }

    fn run_dir(folder: &tempfile::TempDir) -> RunDir {
        RunDir::open(folder.path()).unwrap()
    }

    #[tokio::test]
    async fn a_stored_report_is_loaded_until_it_is_removed() {
        let folder = tempfile::tempdir().unwrap();
        let spool = Spool::open(&run_dir(&folder), "http://a").unwrap();
        for (run, report) in reports() {
            spool.store(&run, &report, &()).await;
            spool.sync(&run).await;
        }
        let again = Spool::open(&run_dir(&folder), "http://a").unwrap();
        assert_eq!(sorted(again.load(&())), reports());
        spool.remove(&run(2)).await;
        spool.remove(&run(2)).await;
        assert_eq!(again.load(&()).len(), 3);
    }

    #[tokio::test]
    async fn reports_for_another_server_and_other_files_are_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let spool = Spool::open(&run_dir(&folder), "http://a").unwrap();
        spool.store(&run(1), &FinalReport::Unclaim, &()).await;
        fs::write(folder.path().join("undelivered/half.json"), "{\"url\":\"http://b\"").unwrap();
        assert!(Spool::open(&run_dir(&folder), "http://b").unwrap().load(&()).is_empty());
        assert_eq!(spool.load(&()).len(), 1);
    }

    #[tokio::test]
    async fn without_a_run_directory_nothing_is_stored() {
        let spool = Spool::disabled();
        spool.store(&run(1), &FinalReport::Unclaim, &()).await;
        assert!(spool.load(&()).is_empty());
    }
}
