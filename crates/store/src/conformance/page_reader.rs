//! Pages as the tests read them. A store writes each task of a page with whatever function it is given; this one keeps
//! every field, so that the page can be read back as tasks (without what no client sees: run and pending order).

use taskqueue_core::scheduling::Scheduling;
use taskqueue_core::task::LastRun;

use super::prelude::*;
use crate::page::WrittenTasks;

/// One page of a list, as tasks.
pub async fn list(store: &dyn Store, queue: &QueueName, query: TaskQuery) -> Result<Page<Task>, StoreError> {
    store.list_tasks(queue, query, Arc::new(write)).await.map(|page| read(page, queue))
}

/// Reads a page that [`write`] wrote.
pub fn read(WrittenTasks { bytes, next }: WrittenTasks, queue: &QueueName) -> Page<Task> {
    let (mut fields, mut items) = (Fields(&bytes), Vec::new());
    while !fields.0.is_empty() {
        items.push(fields.task(queue.clone()));
    }
    Page { items, next }
}

/// Writes a task of a page.
pub fn write(out: &mut Vec<u8>, task: &TaskView<'_>) {
    let number = |value: i64| Some(value.to_string());
    let time = |at: Option<Timestamp>| at.map(|at| at.as_micros().to_string());
    let error = task.last_error;
    let run = task.last_run;
    let fields: [Option<String>; 30] = [
        Some(task.id.to_string()),
        Some(task.status.as_str().into()),
        task.name.map(Into::into),
        Some(task.args.into()),
        Some(task.metadata.into()),
        number(task.priority),
        number(task.attempt),
        number(task.max_attempts),
        Some(task.routes.into()),
        Some(task.result.into()),
        task.last_route.map(Into::into),
        time(Some(task.created_at)),
        time(Some(task.updated_at)),
        time(task.started_at),
        time(task.finished_at),
        error.map(|error| error.kind.into()),
        error.map(|error| error.message.into()),
        error.and_then(|error| error.traceback.map(Into::into)),
        time(error.map(|error| error.occurred_at)),
        error.map(|error| error.attempt.to_string()),
        error.and_then(|error| error.run_id.map(Into::into)),
        run.map(|run| run.attempt.to_string()),
        run.map(|run| run.worker.into()),
        run.and_then(|run| run.run_id.map(Into::into)),
        task.progress.map(Into::into),
        time(task.progress_updated_at),
        task.progress_attempt.map(|attempt| attempt.to_string()),
        time(task.not_before),
        task.scheduling.map(Into::into),
        task.archived.then(String::new),
    ];
    for field in fields {
        // A missing field has a length that no text has.
        let length = field.as_ref().map_or(u32::MAX, |text| u32::try_from(text.len()).unwrap());
        out.extend_from_slice(&length.to_le_bytes());
        out.extend_from_slice(field.unwrap_or_default().as_bytes());
    }
}

/// A finished run of which only the id is shown.
pub fn shown_run(run_id: RunId) -> FinishedRun {
    FinishedRun { run_id, end: RunEnd::Complete }
}

/// What is left of the fields that were written.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn text_or_null(&mut self) -> Option<&'a str> {
        let (length, rest) = self.0.split_first_chunk().unwrap();
        let length = u32::from_le_bytes(*length);
        let (text, rest) = rest.split_at(if length == u32::MAX { 0 } else { length as usize });
        self.0 = rest;
        (length != u32::MAX).then(|| std::str::from_utf8(text).unwrap())
    }

    fn text(&mut self) -> &'a str {
        self.text_or_null().unwrap()
    }

    fn number(&mut self) -> i64 {
        self.text().parse().unwrap()
    }

    fn time_or_null(&mut self) -> Option<Timestamp> {
        self.text_or_null().map(|text| Timestamp::from_micros(text.parse().unwrap()))
    }

    fn task(&mut self, queue: QueueName) -> Task {
        let id = TaskId::parse(self.text()).unwrap();
        let status = Status::parse(self.text()).unwrap();
        let name = self.text_or_null().map(Into::into);
        let (args, metadata) = (JsonObject::from_canonical(self.text()), JsonObject::from_canonical(self.text()));
        let (priority, attempt, max_attempts) = (self.number(), self.number(), self.number());
        let routes = Routes::from_json(self.text());
        let scheduling = Scheduling::default();
        let mut definition = Definition { name, args, metadata, priority, max_attempts, routes, scheduling };
        let result = JsonObject::from_canonical(self.text());
        let mut lifecycle = Lifecycle {
            status,
            attempt,
            pending_seq: 0,
            last_route: self.text_or_null().map(|route| Route::parse(route).unwrap()),
            created_at: self.time_or_null().unwrap(),
            updated_at: self.time_or_null().unwrap(),
            started_at: self.time_or_null(),
            finished_at: self.time_or_null(),
            run: None,
            finished_run: None,
            not_before: None,
            unmet: 0,
            archived: false,
        };
        let last_error = self.error();
        let last_run = self.last_run();
        // The run id of a last run is all that a list shows of finished runs.
        lifecycle.finished_run = self.text_or_null().map(|run_id| shown_run(RunId::parse(run_id).unwrap()));
        let progress = self.progress();
        lifecycle.not_before = self.time_or_null();
        definition.scheduling =
            self.text_or_null().map(|text| Scheduling::from_json(text).unwrap()).unwrap_or_default();
        lifecycle.archived = self.text_or_null().is_some();
        Task { queue, id, definition, lifecycle, outcome: Outcome { result, last_error, last_run, progress } }
    }

    fn last_run(&mut self) -> Option<LastRun> {
        let (attempt, worker) = (self.text_or_null(), self.text_or_null());
        Some(LastRun { attempt: attempt?.parse().unwrap(), worker: JsonObject::from_canonical(worker?) })
    }

    fn progress(&mut self) -> Option<Progress> {
        let (value, updated_at, attempt) = (self.text_or_null(), self.time_or_null(), self.text_or_null());
        let value = JsonObject::from_canonical(value?);
        Some(Progress { value, updated_at: updated_at?, attempt: attempt?.parse().unwrap() })
    }

    fn error(&mut self) -> Option<LastError> {
        let (kind, message, traceback) = (self.text_or_null(), self.text_or_null(), self.text_or_null());
        let (occurred_at, attempt, run_id) = (self.time_or_null(), self.text_or_null(), self.text_or_null());
        let failure = Failure { kind: kind?.into(), message: message?.into(), traceback: traceback.map(Into::into) };
        let run_id = run_id.map(|run_id| RunId::parse(run_id).unwrap());
        Some(LastError { failure, occurred_at: occurred_at?, attempt: attempt?.parse().unwrap(), run_id })
    }
}
