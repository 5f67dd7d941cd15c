//! Reports that the server has neither accepted nor refused, one file each in `undelivered/` of the run directory; and how what an earlier
//! worker has left is settled. The next worker delivers the reports in the spool: together, and those that such a request did not settle one
//! by one. The keeper of a killed worker reports the runs that have ended and gives the others back, uncharged. What no server takes in
//! time stays in the spool.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use taskqueue_api::batch::write_run_item;
use taskqueue_api::object_reader::ObjectReader;
use taskqueue_client::{Client, Error, Failure, QueueName, RunAction, RunId, RunKey, RunReport, TaskId};
use taskqueue_core::json::{ObjectWriter, Value, parse};
use taskqueue_core::limits::TASK_DATA_BYTES;
use tokio::task::spawn_blocking;
use tokio::time::{Instant, sleep, timeout};

use crate::handler::{Event, EventSink};
use crate::keeper::LeftRun;
use crate::report::{AfterError, GIVE_BACK, after_error};
use crate::run_dir::{RunDirError, open_options, open_private};
use crate::settings::{Backoff, BackoffLimits, SpoolSettings};
use crate::worker::WorkerContext;

/// The longest time of a disk operation. A network disk may hang for hours, and must not delay the reports.
pub(crate) const DISK_TIMEOUT: Duration = Duration::from_secs(5);

/// The longest file that is read: a result or an error of 1 MiB in which every character may be escaped.
const REPORT_BYTES: u64 = 8 * TASK_DATA_BYTES as u64;

/// The folder in the run directory.
const FOLDER: &str = "undelivered";

/// Returns whether a report of this run is stored, or half stored, for whichever server. What cannot be told is so.
pub(crate) fn may_have_report(run_dir: &Path, run_id: &str) -> bool {
    let is_missing = |end: &str| {
        let file = run_dir.join(FOLDER).join(format!("{run_id}.{end}"));
        file.symlink_metadata().is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
    };
    !(is_missing("json") && is_missing("new"))
}

#[derive(Clone, Debug)]
pub(crate) struct Spool(Option<SpoolFolder>);

#[derive(Clone, Debug)]
struct SpoolFolder {
    folder: PathBuf,
    url: String,
}

impl Spool {
    /// Opens the spool of a run directory. Without one it stores nothing.
    pub(crate) fn open(settings: Option<&SpoolSettings>) -> io::Result<Self> {
        let Some(SpoolSettings { run_dir, url }) = settings else { return Ok(Self(None)) };
        Ok(Self(Some(SpoolFolder { folder: run_dir.folder(FOLDER)?, url: url.clone() })))
    }

    /// Stores a report before it is sent. A failure is noted and does not prevent the sending.
    pub(crate) async fn store(&self, run: &RunKey, report: &RunReport, events: &dyn EventSink) {
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
    pub(crate) fn load(&self, events: &dyn EventSink) -> Vec<(RunKey, RunReport)> {
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

    fn read(&self, path: &Path, file: File) -> Option<(RunKey, RunReport)> {
        let mut text = Vec::new();
        file.take(REPORT_BYTES).read_to_end(&mut text).ok()?;
        let value = parse(&text).ok()?;
        let file = ObjectReader::of(&value, "report").ok()?;
        if file.text("url").ok()? != self.url {
            return None;
        }
        let run = RunKey {
            queue: file.parsed("queue", QueueName::parse).ok()?,
            task_id: file.parsed("task_id", TaskId::parse).ok()?,
            run_id: file.parsed("run_id", RunId::parse).ok()?,
            trace: None,
        };
        // A file with another name would never be removed, and every worker would deliver it.
        if *path != self.file(run.run_id) {
            return None;
        }
        let report = match file.text("action").ok()? {
            "complete" => RunReport::Complete { result: file.json("result").ok()? },
            "fail" => {
                // Earlier versions do not write it.
                let retry = file.value("retry").ok() != Some(&Value::Bool(false));
                RunReport::Fail { failure: failure(&file.object("error").ok()?)?, retry, retry_after: None }
            }
            "unclaim" => GIVE_BACK,
            _ => return None,
        };
        Some((run, report))
    }
}

/// Members that this version does not know are ignored: a newer worker may have written the file.
fn failure(error: &ObjectReader<'_>) -> Option<Failure> {
    let (kind, message) = (error.text("type").ok()?.into(), error.text("message").ok()?.into());
    Some(Failure { kind, message, traceback: error.text("traceback").ok().map(Into::into) })
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
    // Only this user writes to the folder, so an existing file is an unfinished one of a worker.
    open_options().write(true).create(true).truncate(true).open(&unfinished)?.write_all(text)?;
    fs::rename(unfinished, file)
}

/// Returns the contents of a file: which run of which server, and the report as an item of a batch.
fn text(url: &str, run: &RunKey, report: &RunReport) -> Vec<u8> {
    let object = ObjectWriter::new().text("url", url).text("queue", run.queue.as_str());
    let mut text = write_run_item(&run.item(RunAction::End(report.clone())), object).end();
    text.push(b'\n');
    text
}

const BACKOFF: BackoffLimits = BackoffLimits { first: Duration::from_millis(200), longest: Duration::from_secs(2) };

/// The tasks of runs that a worker has left, by what became of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LeftTasks {
    /// Pending again.
    pub given_back: Vec<TaskId>,
    /// The run had ended, and the server knows that now, or had ended it itself.
    pub settled: Vec<TaskId>,
    /// Neither: the server did not answer, or not what settles the run, such as that the token is wrong.
    pub undelivered: Vec<TaskId>,
    /// The last answer to the last of these, if there was one.
    pub last_error: Option<Error>,
}

/// Settles these runs with the server, which is asked again and again for so long. Their processes must be gone.
pub async fn settle_left_runs(
    client: &Client,
    queue: &QueueName,
    spool: Option<&SpoolSettings>,
    runs: Vec<LeftRun>,
    patience: Duration,
) -> LeftTasks {
    let spool = Spool::open(spool).unwrap_or(Spool(None));
    let mut stored: HashMap<RunId, RunReport> =
        spool.load(&()).into_iter().map(|(run, report)| (run.run_id, report)).collect();
    let (deadline, mut left) = (Instant::now() + patience, LeftTasks::default());
    for LeftRun { task_id, run_id } in runs {
        let run = RunKey::new(queue, task_id, run_id);
        let report = match stored.remove(&run_id) {
            Some(report) => report,
            None => {
                spool.store(&run, &GIVE_BACK, &()).await;
                GIVE_BACK
            }
        };
        let is_given_back = report == GIVE_BACK;
        let tasks = match deliver(client, &run, report, deadline).await {
            Err(error) => {
                left.last_error = error.or_else(|| left.last_error.take());
                &mut left.undelivered
            }
            Ok(is_accepted) => {
                spool.remove(&run).await;
                if is_accepted && is_given_back { &mut left.given_back } else { &mut left.settled }
            }
        };
        tasks.push(task_id);
    }
    left
}

/// Returns whether the server accepted (not refused) the report; as an error the last one, if there was one, when the time is over.
async fn deliver(
    client: &Client,
    run: &RunKey,
    mut report: RunReport,
    deadline: Instant,
) -> Result<bool, Option<Error>> {
    let (mut backoff, mut last_error) = (Backoff::new(BACKOFF), None);
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        // A refused connection is faster than the shortest timeout, so that one alone would not end this.
        if left.is_zero() {
            return Err(last_error);
        }
        let error = match timeout(left, client.report_run(run, &report)).await {
            Err(_) => return Err(last_error),
            Ok(Ok(())) => return Ok(true),
            Ok(Err(error)) => error,
        };
        report = match after_error(report, error) {
            AfterError::Retry(report, error) => {
                last_error = Some(error);
                sleep(backoff.next().min(left)).await;
                report
            }
            AfterError::ReportInstead(other) => other,
            AfterError::GiveUp(_) => return Ok(false),
        };
    }
}

type StoredReport = (RunKey, RunReport);

impl WorkerContext {
    /// Delivers these until none is left.
    pub(crate) async fn deliver_earlier(self: Arc<Self>, reports: Vec<StoredReport>) {
        let mut backoff = Backoff::new(self.settings.intervals.backoff);
        let mut reports = self.deliver_together(reports).await;
        while !reports.is_empty() {
            let mut remaining = Vec::new();
            for (run, report) in reports {
                let sent = Instant::now();
                let answer = self.client.report_run(&run, &report).await;
                remaining.extend(self.settle_earlier(run, report, sent, answer).await);
            }
            reports = remaining;
            if !reports.is_empty() {
                sleep(backoff.next()).await;
            }
        }
    }

    /// Sends them once, those of a queue together. Returns what is not settled.
    async fn deliver_together(&self, reports: Vec<StoredReport>) -> Vec<StoredReport> {
        if reports.len() < 2 {
            return reports;
        }
        let mut queues: HashMap<QueueName, Vec<StoredReport>> = HashMap::new();
        reports.into_iter().for_each(|stored| queues.entry(stored.0.queue.clone()).or_default().push(stored));
        let mut remaining = Vec::new();
        for (queue, reports) in queues {
            let item = |(run, report): &StoredReport| run.item(RunAction::End(report.clone()));
            let sent = Instant::now();
            let answer = self.client.report_runs(&queue, &reports.iter().map(item).collect::<Vec<_>>()).await;
            for ((run, report), outcome) in reports.into_iter().zip(answer.items) {
                match outcome {
                    Ok(_) => remaining.extend(self.settle_earlier(run, report, sent, Ok(())).await),
                    // What the server says of the single report counts.
                    Err(_) => remaining.push((run, report)),
                }
            }
        }
        remaining
    }

    /// Removes a report that was accepted or refused. Returns what is to be sent again.
    async fn settle_earlier(
        &self,
        run: RunKey,
        report: RunReport,
        sent: Instant,
        answer: Result<(), Error>,
    ) -> Option<StoredReport> {
        let refused = match answer {
            Ok(()) => None,
            Err(error) => match after_error(report, error) {
                AfterError::Retry(report, error) => {
                    self.reachability.call_failed(&error, sent);
                    return Some((run, report));
                }
                AfterError::ReportInstead(other) => return Some((run, other)),
                AfterError::GiveUp(error) => Some(error.to_string()),
            },
        };
        self.spool.remove(&run).await;
        self.events.on_event(&Event::EarlierReport { task_id: run.task_id, refused: refused.as_deref() });
        None
    }
}

#[cfg(test)]
mod tests {
    use taskqueue_client::JsonObject;

    use super::*;
    use crate::run_dir::RunDir;

    fn run(number: u8) -> RunKey {
        RunKey {
            queue: QueueName::parse("q").unwrap(),
            task_id: TaskId::parse("t_000000000001").unwrap(),
            run_id: RunId::parse(&format!("r_00000000000{number}")).unwrap(),
            trace: None,
        }
    }

    fn reports() -> Vec<(RunKey, RunReport)> {
        let result = JsonObject::from_value(&parse(br#"{"loss":0.5,"text":"\u0000\n"}"#).unwrap()).unwrap();
        let failure = |traceback: Option<&str>| Failure {
            kind: "ExitCode".into(),
            message: "exit code 1 \"quoted\"".into(),
            traceback: traceback.map(Into::into),
        };
        vec![
            (run(1), RunReport::Complete { result }),
            (run(2), RunReport::Fail { failure: failure(Some("line 1\nline 2")), retry: true, retry_after: None }),
            (run(3), RunReport::Fail { failure: failure(None), retry: false, retry_after: None }),
            (run(4), GIVE_BACK),
        ]
    }

    fn sorted(mut reports: Vec<(RunKey, RunReport)>) -> Vec<(RunKey, RunReport)> {
        reports.sort_by_key(|(run, _)| run.run_id);
        reports
    }

    fn opened(folder: &tempfile::TempDir, url: &str) -> Spool {
        let run_dir = RunDir::open(folder.path()).unwrap();
        Spool::open(Some(&SpoolSettings { run_dir, url: url.to_owned() })).unwrap()
    }

    #[tokio::test]
    async fn a_stored_report_is_loaded_until_it_is_removed() {
        let folder = tempfile::tempdir().unwrap();
        let spool = opened(&folder, "http://a");
        for (run, report) in reports() {
            spool.store(&run, &report, &()).await;
            spool.sync(&run).await;
        }
        let again = opened(&folder, "http://a");
        assert_eq!(sorted(again.load(&())), reports());
        spool.remove(&run(2)).await;
        spool.remove(&run(2)).await;
        assert_eq!(again.load(&()).len(), 3);
    }

    /// Notes that are told.
    #[derive(Default)]
    struct Notes(std::sync::Mutex<Vec<String>>);

    impl EventSink for Notes {
        fn on_event(&self, event: &Event<'_>) {
            if let Event::Note { text, .. } = event {
                self.0.lock().unwrap().push((*text).to_owned());
            }
        }
    }

    #[tokio::test]
    async fn a_report_that_others_can_have_written_is_noted_and_neither_delivered_nor_removed() {
        use std::os::unix::fs::PermissionsExt;
        let (folder, notes) = (tempfile::tempdir().unwrap(), Notes::default());
        let spool = opened(&folder, "http://a");
        spool.store(&run(1), &GIVE_BACK, &()).await;
        let file = folder.path().join("undelivered/r_000000000001.json");
        fs::set_permissions(&file, fs::Permissions::from_mode(0o666)).unwrap();
        assert!(spool.load(&notes).is_empty() && file.exists());
        let told = notes.0.lock().unwrap();
        assert!(told.len() == 1 && told[0].starts_with("a report is not delivered: "), "{told:?}");
        assert!(told[0].contains("r_000000000001.json is writable by everybody"), "{told:?}");
    }

    /// A run directory outlives an upgrade and a downgrade of the worker.
    #[test]
    fn reports_of_other_versions_are_loaded() {
        let folder = tempfile::tempdir().unwrap();
        let spool = opened(&folder, "http://a");
        let reports = [
            (1, r#""action":"complete","result":{"x":1}"#),
            (2, r#""action":"fail","error":{"type":"E","message":"m"}"#),
            (
                3,
                r#""action":"fail","error":{"type":"E","message":"m","traceback":null,"later":1},"retry":false,"later":{}"#,
            ),
            (4, r#""action":"unclaim""#),
        ];
        for (number, report) in reports {
            let run_id = format!("r_00000000000{number}");
            let text =
                format!(r#"{{"url":"http://a","queue":"q","task_id":"t_000000000001","run_id":"{run_id}",{report}}}"#);
            fs::write(folder.path().join(format!("undelivered/{run_id}.json")), text + "\n").unwrap();
        }
        let failure = || Failure { kind: "E".into(), message: "m".into(), traceback: None };
        let result = JsonObject::from_value(&parse(br#"{"x":1}"#).unwrap()).unwrap();
        let expected = vec![
            (run(1), RunReport::Complete { result }),
            (run(2), RunReport::Fail { failure: failure(), retry: true, retry_after: None }),
            (run(3), RunReport::Fail { failure: failure(), retry: false, retry_after: None }),
            (run(4), GIVE_BACK),
        ];
        assert_eq!(sorted(spool.load(&())), expected);
    }

    #[tokio::test]
    async fn reports_for_another_server_and_other_files_are_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let spool = opened(&folder, "http://a");
        spool.store(&run(1), &GIVE_BACK, &()).await;
        fs::write(folder.path().join("undelivered/half.json"), "{\"url\":\"http://b\"").unwrap();
        assert!(opened(&folder, "http://b").load(&()).is_empty());
        assert_eq!(spool.load(&()).len(), 1);
    }

    #[tokio::test]
    async fn without_a_run_directory_nothing_is_stored() {
        let spool = Spool::open(None).unwrap();
        spool.store(&run(1), &GIVE_BACK, &()).await;
        assert!(spool.load(&()).is_empty());
    }
}
