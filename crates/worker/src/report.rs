//! What a worker says of its runs: heartbeats, progress and final reports, as messages that are sent alone or together, and what
//! the error of such a call means for the run. Claims, heartbeats and reports use the same classes of errors.
//!
//! What slots want to send at about the same time is collected, and sent with one request; each message is answered for itself. There is no timer
//! while the server answers: the next batch forms while the last one is under way, as in the writers of the server. A slow answer delays nothing
//! by more than 5 milliseconds. What is repeated is sent alone. A final report is sent until the server accepts or refuses it. Of the progress
//! of a run the newest is sent, at most once a second, and the last one before the final report, because afterwards the server takes none.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use taskqueue_client::{
    Claim, Code, Error, ErrorCode, Failure, JsonObject, QueueName, RunAction, RunItem, RunKey, RunReport, TraceParent,
};
use taskqueue_core::limits::{BATCH_ITEMS, REQUEST_BODY_BYTES};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::{JoinSet, yield_now};
use tokio::time::{Instant, sleep, timeout, timeout_at};

use crate::handler::{Event, RunProgress, StopMode, stop_reached};
use crate::settings::Backoff;
use crate::worker::WorkerContext;

/// The key of the run that a claim began.
pub(crate) fn run_of(queue: &QueueName, claim: &Claim) -> RunKey {
    RunKey { trace: Some(trace_of(claim)), ..RunKey::new(queue, claim.task.id, claim.run_id) }
}

/// The member of a task's metadata in which its creator says which trace it belongs to.
const TRACE_MEMBER: &str = "traceparent";

/// The trace of a run: that of the task, or a new one.
pub(crate) fn trace_of(claim: &Claim) -> TraceParent {
    let creator = claim.task.metadata.text(TRACE_MEMBER).and_then(|text| TraceParent::parse(&text));
    TraceParent::of_run(claim.run_id, creator)
}

/// Renews the lease of a run.
pub(crate) const HEARTBEAT: RunAction = RunAction::Heartbeat { progress: None };
/// Gives the task of a run back, uncharged.
pub(crate) const GIVE_BACK: RunReport = RunReport::Unclaim { delay: None };

/// The next step after an error.
pub(crate) enum AfterError {
    Retry(RunReport, Error),
    /// Send this report at once.
    ReportInstead(RunReport),
    GiveUp(Error),
}

/// If the server refuses the result of a success, the run is reported as failed, with that reason: otherwise the task would stay
/// running until its lease ends, and then run again.
pub(crate) fn after_error(report: RunReport, error: Error) -> AfterError {
    match (ErrorClass::of(&error), report) {
        (ErrorClass::Retryable, report) => AfterError::Retry(report, error),
        (ErrorClass::Rejected, RunReport::Complete { .. }) => AfterError::ReportInstead(RunReport::Fail {
            failure: Failure {
                kind: "ResultRefused".into(),
                message: format!("the command succeeded, but the server refused its result: {error}").into(),
                traceback: None,
            },
            retry: true,
            retry_after: None,
        }),
        (ErrorClass::Rejected | ErrorClass::RunOver, _) => AfterError::GiveUp(error),
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ErrorClass {
    /// Neither is decided: the server was not reached, was busy or broken, or a proxy answered. Call again.
    Retryable,
    /// The run is over or belongs to another worker.
    RunOver,
    /// The server refuses the content of the report, for example a result that is too large. Repeating it cannot succeed.
    Rejected,
}

impl ErrorClass {
    /// Classifies the error of a call about an existing run.
    ///
    /// A refusal that is about neither the run nor the content (a wrong token, host or path) is retryable: somebody may correct
    /// the configuration, and until then the result is kept.
    pub(crate) fn of(error: &Error) -> Self {
        use ErrorCode as C;
        let Error::Api { status, code, .. } = error else { return Self::Retryable };
        match code {
            _ if !is_final(*status) => Self::Retryable,
            Code::Known(C::StaleRun | C::RunFinalized | C::RunIdConflict) => Self::RunOver,
            // A running task cannot be deleted: it was cancelled first, and its run with it.
            Code::Known(C::TaskNotFound | C::QueueNotFound) => Self::RunOver,
            // Malformed, too large or invalid.
            _ if matches!(status, 400 | 413 | 422) => Self::Rejected,
            _ => Self::Retryable,
        }
    }

    /// Returns whether a claim that failed with this error ends the worker: the configuration is wrong, and repeating the claim cannot
    /// succeed.
    pub(crate) fn ends_claiming(error: &Error) -> bool {
        let Error::Api { status, code, .. } = error else { return matches!(error, Error::ServerTooOld { .. }) };
        let is_about_run_id = matches!(code, Code::Known(ErrorCode::StaleRun | ErrorCode::RunIdConflict));
        is_final(*status) && !is_about_run_id
    }
}

/// Returns whether repeating the call cannot help. Proxies answer 408 and 429 when the call should be repeated later.
fn is_final(status: u16) -> bool {
    status < 500 && !matches!(status, 408 | 429)
}

/// About how much a request takes at most, unless one report alone is larger: what a single request may have. So a network that is
/// too slow for more delivers as much as without batches. Escaping can double a text.
const REQUEST_BYTES: usize = REQUEST_BODY_BYTES / 2;
/// The bytes of a report besides its texts.
const FRAME_BYTES: usize = 160;

/// The time at which a message was sent, or its error.
pub(crate) type SendResult = Result<Instant, Error>;

/// One call about a run of the worker's queue.
pub(crate) struct RunMessage {
    pub(crate) run: RunKey,
    pub(crate) action: RunAction,
    pub(crate) answer: oneshot::Sender<SendResult>,
}

impl RunMessage {
    /// Returns a message, and its answer when it was sent.
    pub(crate) fn new(run: &RunKey, action: RunAction) -> (Self, impl Future<Output = SendResult> + use<>) {
        let (answer, sent) = oneshot::channel();
        let dropped = || Error::Transport { message: "the request was dropped".to_owned(), may_have_arrived: true };
        let answered = async move { sent.await.unwrap_or_else(|_| Err(dropped())) };
        (Self { run: run.clone(), action, answer }, answered)
    }

    pub(crate) fn answer(self, sent: SendResult) {
        // Whoever asked may be gone: a run that has ended needs no heartbeat.
        drop(self.answer.send(sent));
    }
}

/// Splits into what is sent with one request.
pub(crate) fn split_into_requests(items: Vec<RunMessage>) -> Vec<Vec<RunMessage>> {
    let (mut requests, mut bytes): (Vec<Vec<RunMessage>>, usize) = (Vec::new(), 0);
    for item in items {
        let item_bytes = FRAME_BYTES + item.action.bytes();
        bytes += item_bytes;
        match requests.last_mut().filter(|request| request.len() < BATCH_ITEMS && bytes <= REQUEST_BYTES) {
            Some(request) => request.push(item),
            None => {
                bytes = item_bytes;
                requests.push(vec![item]);
            }
        }
    }
    requests
}

/// The longest time that something waits for others to be sent with it.
pub(crate) const LONGEST_DELAY: Duration = Duration::from_millis(5);

/// The end at which slots put what they want to send. There is never more in it than the slots of one worker have under way.
pub(crate) struct Collector<T>(mpsc::UnboundedSender<(Instant, T)>);

/// The other end of a [`Collector`].
pub(crate) struct Collected<T>(mpsc::UnboundedReceiver<(Instant, T)>);

pub(crate) fn collector<T>() -> (Collector<T>, Collected<T>) {
    let (sender, receiver) = mpsc::unbounded_channel();
    (Collector(sender), Collected(receiver))
}

impl<T> Collector<T> {
    pub(crate) fn push(&self, item: T) {
        // If nobody sends any more, the item is dropped, and whoever waits for its answer hears that.
        drop(self.0.send((Instant::now(), item)));
    }
}

impl<T> Collected<T> {
    /// Passes on what was collected, all that is there at once, until the collector is dropped. The future that `send` returns ends
    /// when the request is answered.
    pub(crate) async fn send_all<F>(mut self, send: impl Fn(Vec<T>) -> F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let mut latest = None;
        while let Some((pushed, first)) = self.0.recv().await {
            if let Some(latest) = &mut latest {
                drop(timeout_at(pushed + LONGEST_DELAY, latest).await);
            }
            // Whoever is ready at the same time comes along.
            yield_now().await;
            let mut items = vec![first];
            items.extend(std::iter::from_fn(|| self.0.try_recv().ok()).map(|(_, item)| item));
            latest = Some(tokio::spawn(send(items)));
        }
    }
}

impl WorkerContext {
    /// Sends a message about a run once, alone or with others. Returns the moment before the request was sent: a lease cannot have
    /// been renewed earlier.
    pub(crate) async fn say(&self, run: &RunKey, action: RunAction, is_alone: bool) -> SendResult {
        if is_alone || !self.reports_together() {
            return self.send_alone(run, &action).await;
        }
        let (message, answered) = RunMessage::new(run, action);
        self.outgoing.push(message);
        answered.await
    }

    /// Returns whether what comes together is sent with one request.
    pub(crate) fn reports_together(&self) -> bool {
        self.settings.slots.len() > 1
    }

    async fn send_alone(&self, run: &RunKey, action: &RunAction) -> SendResult {
        let sent = Instant::now();
        match action {
            RunAction::End(report) => self.client.report_run(run, report).await,
            RunAction::Progress { progress } => self.client.report_progress(run, progress).await,
            RunAction::Heartbeat { .. } => self.client.heartbeat(run, None).await.map(drop),
        }
        .map(|()| sent)
    }

    /// Sends what comes together until it is dropped.
    pub(crate) async fn serve_outgoing(self: Arc<Self>, collected: Collected<RunMessage>) {
        collected
            .send_all(move |items| {
                let context = Arc::clone(&self);
                async move {
                    let mut requests: JoinSet<()> = split_into_requests(items)
                        .into_iter()
                        .map(|items| Arc::clone(&context).send_batch(items))
                        .collect();
                    while requests.join_next().await.is_some() {}
                }
            })
            .await;
    }

    async fn send_batch(self: Arc<Self>, items: Vec<RunMessage>) {
        if items.len() == 1 {
            return self.send_one_by_one(items).await;
        }
        let reports: Vec<RunItem> = items.iter().map(|item| item.run.item(item.action.clone())).collect();
        let sent = Instant::now();
        let answer = self.client.report_runs(&self.settings.queue, &reports).await;
        if answer.request_error.as_ref().is_some_and(Error::is_too_large) {
            return self.send_one_by_one(items).await;
        }
        items.into_iter().zip(answer.items).for_each(|(item, outcome)| item.answer(outcome.map(|_| sent)));
    }

    async fn send_one_by_one(self: Arc<Self>, items: Vec<RunMessage>) {
        let mut requests = JoinSet::new();
        for item in items {
            let context = Arc::clone(&self);
            requests.spawn(async move {
                let sent = context.send_alone(&item.run, &item.action).await;
                item.answer(sent);
            });
        }
        while requests.join_next().await.is_some() {}
    }

    /// Sends a report until the server accepts or refuses it, or the worker is asked to exit at once. Meanwhile the report is in
    /// the spool. The first time it may be sent with others; it is repeated alone. The last progress is sent before it.
    pub(crate) async fn deliver(
        &self,
        run: &RunKey,
        mut report: RunReport,
        progress: Option<&ProgressOfRun>,
    ) -> Delivery {
        let (mut backoff, mut stop) = (Backoff::new(self.settings.intervals.backoff), self.stop.subscribe());
        self.spool.store(run, &report, &*self.events).await;
        if let Some(progress) = progress {
            self.send_last_progress(run, progress).await;
        }
        let mut is_repeated = false;
        loop {
            let sent = Instant::now();
            let answer = tokio::select! {
                biased;
                answer = self.say(run, RunAction::End(report.clone()), is_repeated) => answer,
                () = self.shutdown_timeout(stop.clone()) => return Delivery::Abandoned,
            };
            let Err(error) = answer else {
                self.reachability.call_succeeded(sent);
                self.spool.remove(run).await;
                return Delivery::Accepted(report);
            };
            is_repeated = true;
            match after_error(report, error) {
                AfterError::Retry(same, error) => {
                    report = same;
                    self.reachability.call_failed(&error, sent);
                    self.spool.sync(run).await;
                    tokio::select! {
                        biased;
                        _ = stop_reached(&mut stop, StopMode::Kill) => return Delivery::Abandoned,
                        () = sleep(backoff.next()) => {}
                    }
                }
                AfterError::ReportInstead(other) => {
                    report = other;
                    self.spool.store(run, &report, &*self.events).await;
                }
                AfterError::GiveUp(error) => {
                    self.spool.remove(run).await;
                    return Delivery::Refused(error);
                }
            }
        }
    }

    /// Returns some time after the worker was asked to exit at once: long enough for a server that answers.
    async fn shutdown_timeout(&self, mut stop: watch::Receiver<StopMode>) {
        stop_reached(&mut stop, StopMode::Kill).await;
        sleep(self.settings.intervals.shutdown_timeout).await;
    }

    /// Sends the progress of a run while it goes on. Never returns.
    pub(crate) async fn report_progress(&self, run: &RunKey, progress: &ProgressOfRun) {
        let mut backoff = Backoff::new(self.settings.intervals.backoff);
        loop {
            progress.next().await;
            let sending = progress.sending.lock().await;
            let sent = self.send_newest(run, progress).await;
            drop(sending);
            match sent.map_err(|error| ErrorClass::of(&error)) {
                Ok(()) => backoff.reset(),
                // The lease hears of it too.
                Err(ErrorClass::RunOver) => std::future::pending().await,
                Err(ErrorClass::Rejected) => {}
                Err(ErrorClass::Retryable) => sleep(backoff.next()).await,
            }
            sleep(self.settings.intervals.progress).await;
        }
    }

    /// Sends the last progress of a run that is about to be reported, once.
    pub(crate) async fn send_last_progress(&self, run: &RunKey, progress: &ProgressOfRun) {
        let last = async {
            // One that is not answered by then is probably lost.
            let _sending = timeout(LAST_TIMEOUT / 2, progress.sending.lock()).await;
            self.send_newest(run, progress).await
        };
        drop(timeout(LAST_TIMEOUT, last).await);
        progress.state.lock().is_over = true;
    }

    /// Sends the newest, if that has not arrived. One that is refused is not sent again.
    async fn send_newest(&self, run: &RunKey, progress: &ProgressOfRun) -> Result<(), Error> {
        let Some(newest) = progress.unsent() else { return Ok(()) };
        let sent = self.say(run, RunAction::Progress { progress: newest.clone() }, false).await.map(drop);
        match &sent {
            Ok(()) => progress.state.lock().settled = Some(newest),
            Err(error) if ErrorClass::of(error) == ErrorClass::Rejected => {
                progress.state.lock().settled = Some(newest);
                // A run may send something new every second, and all of it be refused.
                if !std::mem::replace(&mut progress.state.lock().is_refusal_noted, true) {
                    let text = &format!("the server refused its progress: {error}");
                    self.events.on_event(&Event::Note { task_id: Some(run.task_id), text });
                }
            }
            Err(_) => {}
        }
        sent
    }
}

#[derive(Debug)]
pub(crate) enum Delivery {
    /// The server accepted this report. It differs from the first one if the server refused that.
    Accepted(RunReport),
    /// The run was over already, or the server refuses every report about it.
    Refused(Error),
    /// The worker was asked to exit at once.
    Abandoned,
}

/// The time that the final report waits for the last progress.
const LAST_TIMEOUT: Duration = Duration::from_secs(1);

/// The other end of a [`RunProgress`].
pub(crate) struct ProgressOfRun {
    values: watch::Receiver<Option<JsonObject>>,
    state: Mutex<ProgressState>,
    /// Held while one is sent: an older one that arrives later would replace it.
    sending: tokio::sync::Mutex<()>,
}

#[derive(Default)]
struct ProgressState {
    /// The progress that needs not be sent again.
    settled: Option<JsonObject>,
    /// The last one was sent, and the report comes next.
    is_over: bool,
    /// It was said that the server refuses it.
    is_refusal_noted: bool,
}

impl ProgressOfRun {
    pub(crate) fn new() -> (RunProgress, Self) {
        let (sender, values) = watch::channel(None);
        let (state, sending) = (Mutex::default(), tokio::sync::Mutex::default());
        (RunProgress(Arc::new(sender)), Self { values, state, sending })
    }

    /// Waits for something that was not sent.
    async fn next(&self) {
        let mut values = self.values.clone();
        loop {
            // Before the look: what comes behind it is a change.
            values.mark_unchanged();
            if self.unsent().is_some() {
                return;
            }
            if values.changed().await.is_err() {
                std::future::pending().await
            }
        }
    }

    /// The newest, if it was not sent.
    fn unsent(&self) -> Option<JsonObject> {
        let (newest, state) = (self.values.borrow().clone(), self.state.lock());
        newest.filter(|newest| !state.is_over && state.settled.as_ref() != Some(newest))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use taskqueue_client::{RunId, TaskId};
    use taskqueue_core::json::JsonObject;
    use tokio::time::{advance, sleep_until};

    use super::*;

    fn api(status: u16, code: &str) -> Error {
        let (message, details) = (String::new(), JsonObject::empty());
        Error::Api { status, code: code.into(), message, details, retry_after: None }
    }

    #[test]
    fn only_an_answer_about_the_run_decides_about_it() {
        type Case<'a> = (&'a [(u16, &'a str)], ErrorClass, bool);
        let cases: [Case<'_>; 11] = [
            (&[(409, "stale_run"), (409, "run_id_conflict")], ErrorClass::RunOver, false),
            (&[(409, "run_finalized"), (404, "task_not_found")], ErrorClass::RunOver, true),
            (&[(404, "queue_not_found")], ErrorClass::RunOver, true),
            (&[(422, "task_data_too_large"), (413, "request_too_large")], ErrorClass::Rejected, true),
            (&[(422, "json_too_deep"), (422, "invalid_request")], ErrorClass::Rejected, true),
            (&[(400, "from_a_newer_server")], ErrorClass::Rejected, true),
            (&[(401, "unauthorized"), (403, "forbidden"), (404, "not_found")], ErrorClass::Retryable, true),
            (&[(405, "method_not_allowed"), (409, "task_state_conflict")], ErrorClass::Retryable, true),
            (&[(409, "from_a_newer_server")], ErrorClass::Retryable, true),
            (&[(429, "slow_down"), (503, "database_busy"), (500, "internal_error")], ErrorClass::Retryable, false),
            (&[(503, "queue_not_found")], ErrorClass::Retryable, false),
        ];
        for (answers, class, ends) in cases {
            for &(status, code) in answers {
                assert_eq!(ErrorClass::of(&api(status, code)), class, "{status} {code}");
                assert_eq!(ErrorClass::ends_claiming(&api(status, code)), ends, "{status} {code}");
            }
        }
    }

    #[test]
    fn garbage_and_silence_decide_nothing() {
        let silence = Error::Transport { message: String::new(), may_have_arrived: true };
        let garbage = Error::Protocol { status: 404, message: String::new(), from_taskqueue: false };
        let unknown = Error::OutcomeUnknown { call: "", advice: "", cause: Box::new(api(503, "database_busy")) };
        for error in [silence, garbage, unknown] {
            assert_eq!(ErrorClass::of(&error), ErrorClass::Retryable, "{error:?}");
            assert!(!ErrorClass::ends_claiming(&error), "{error:?}");
        }
        assert!(ErrorClass::ends_claiming(&Error::ServerTooOld { missing: "batch" }));
    }

    fn report(result_bytes: usize) -> RunMessage {
        let run = RunKey {
            queue: QueueName::parse("q").unwrap(),
            task_id: TaskId::parse("t_000000000001").unwrap(),
            run_id: RunId::parse("r_000000000001").unwrap(),
            trace: None,
        };
        let result = JsonObject::from_canonical(&format!("{{\"a\":\"{}\"}}", "x".repeat(result_bytes)));
        RunMessage { run, action: RunAction::End(RunReport::Complete { result }), answer: oneshot::channel().0 }
    }

    fn sizes(result_bytes: &[usize]) -> Vec<usize> {
        split_into_requests(result_bytes.iter().map(|bytes| report(*bytes)).collect()).iter().map(Vec::len).collect()
    }

    #[test]
    fn a_request_has_no_more_than_a_thousand_and_no_more_bytes_than_a_single_one() {
        assert_eq!(sizes(&[1; 1001]), [1000, 1]);
        assert_eq!(sizes(&[1, 1, REQUEST_BYTES, 1, 1]), [2, 1, 2], "a large one is alone");
        assert_eq!(sizes(&[REQUEST_BYTES / 4; 7]), [3, 3, 1]);
    }

    /// The time of each request, and what was sent with it.
    type Requests = Vec<(u128, Vec<u32>)>;

    /// Sends with answers that take so long. Records what was sent together and after how many milliseconds.
    fn sending(answer_takes: Duration) -> (Collector<u32>, Arc<Mutex<Requests>>) {
        let (collector, collected) = collector();
        let (sent, begin) = (Arc::new(Mutex::new(Vec::new())), Instant::now());
        let record = Arc::clone(&sent);
        tokio::spawn(collected.send_all(move |items| {
            record.lock().unwrap().push((begin.elapsed().as_millis(), items));
            sleep_until(Instant::now() + answer_takes)
        }));
        (collector, sent)
    }

    /// Lets so many milliseconds pass, and all that happens in them.
    async fn pass(count: u32) {
        settle().await;
        for _ in 0..count {
            advance(millis(1)).await;
            settle().await;
        }
    }

    /// Lets everybody do what can be done without time.
    async fn settle() {
        for _ in 0..10 {
            yield_now().await;
        }
    }

    const fn millis(count: u64) -> Duration {
        Duration::from_millis(count)
    }

    #[tokio::test(start_paused = true)]
    async fn the_first_is_sent_at_once_with_all_that_is_there() {
        let (collector, sent) = sending(millis(1));
        (1..=3).for_each(|item| collector.push(item));
        pass(1).await;
        assert_eq!(*sent.lock().unwrap(), [(0, vec![1, 2, 3])]);
        pass(100).await;
        collector.push(4);
        pass(1).await;
        assert_eq!(sent.lock().unwrap()[1], (101, vec![4]), "nothing is under way, so nothing waits");
    }

    #[tokio::test(start_paused = true)]
    async fn the_next_forms_while_the_last_is_under_way_and_goes_when_that_is_answered() {
        let (collector, sent) = sending(millis(3));
        collector.push(1);
        pass(1).await;
        collector.push(2);
        pass(1).await;
        collector.push(3);
        pass(5).await;
        assert_eq!(*sent.lock().unwrap(), [(0, vec![1]), (3, vec![2, 3])]);
    }

    /// The bound, for every moment at which something may come while the server does not answer.
    #[tokio::test(start_paused = true)]
    async fn a_server_that_does_not_answer_delays_nothing_by_more_than_five_milliseconds() {
        let (collector, sent) = sending(Duration::from_secs(3600));
        let mut pushed = Vec::new();
        let begin = Instant::now();
        for item in 0..100 {
            pushed.push(begin.elapsed().as_millis());
            collector.push(item);
            pass(item % 7).await;
        }
        pass(10).await;
        let sent = sent.lock().unwrap().clone();
        let mut delays = Vec::new();
        for (at, items) in &sent {
            delays.extend(items.iter().map(|item| at - pushed[*item as usize]));
        }
        assert_eq!(delays.len(), 100, "each is sent once");
        assert!(delays.iter().all(|delay| *delay <= 5), "{delays:?}");
        assert!(sent.len() < 100, "and some together");
    }

    /// One that comes just when the one before has arrived, again and again: the next look may be long in coming.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn no_progress_is_overlooked_because_of_when_it_comes() {
        let (progress, of_run) = ProgressOfRun::new();
        let of_run = Arc::new(of_run);
        let sender = Arc::clone(&of_run);
        let sending = tokio::spawn(async move {
            loop {
                sender.next().await;
                sender.unsent().into_iter().for_each(|newest| sender.state.lock().settled = Some(newest));
            }
        });
        let reporting = async {
            for step in 0..20_000 {
                progress.report(JsonObject::from_canonical(&format!("{{\"step\":{step}}}")));
                while of_run.unsent().is_some() {
                    tokio::task::yield_now().await;
                }
            }
        };
        timeout(Duration::from_secs(60), reporting).await.expect("one was overlooked");
        sending.abort();
    }
}
