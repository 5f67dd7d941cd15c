//! A move between two databases in memory, of which the target may lie about what it was given.

use taskqueue_core::definition::Definition;
use taskqueue_core::output::Part;
use taskqueue_core::task::{Lifecycle, Outcome};

use super::*;
use crate::StoreResult;

/// A database in memory; it gives its tasks in chunks of two.
#[derive(Clone, Default)]
struct Memory {
    queues: Vec<(QueueKey, QueueName)>,
    tasks: Vec<TransferredTask>,
    deleted_runs: Vec<DeletedRun>,
    settings: Option<QueueSettings>,
    /// What becomes of the tasks that are added.
    spoil: Option<fn(&mut Vec<TransferredTask>)>,
    miscounts: bool,
    loses_deleted_runs: bool,
    loses_settings: bool,
}

fn task(n: i64) -> TransferredTask {
    let definition = Definition::default();
    let identity = definition.identity(None);
    let task = Task {
        queue: QueueName::parse("q").unwrap(),
        id: TaskId::parse(&format!("t_{n:012}")).unwrap(),
        definition,
        lifecycle: Lifecycle::created(Timestamp::from_micros(n), n),
        outcome: Outcome::empty(),
    };
    let runs = vec![RunId::parse(&format!("r_{n:012}")).unwrap()];
    TransferredTask { output: (n == 1).then(output), ..TransferredTask::new(QueueKey(1), task, identity, runs) }
}

fn output() -> TransferredOutput {
    let parts = vec![Part { start: 3, end: 8 }, Part { start: 100, end: 101 }];
    let kept = KeptOutput { run_id: RunId::parse("r_printing0001").unwrap(), attempt: 1, parts };
    TransferredOutput { kept, bytes: vec![b"bytes".to_vec(), b"x".to_vec()] }
}

fn deleted_run(n: i64) -> DeletedRun {
    (Timestamp::from_micros(n / 2), RunId::parse(&format!("r_{n:012}")).unwrap())
}

#[async_trait(?Send)]
impl Source for Memory {
    async fn queues(&mut self) -> StoreResult<Vec<(QueueKey, QueueName)>> {
        Ok(self.queues.clone())
    }
    async fn tasks(&mut self, behind: Option<i64>) -> StoreResult<Chunk> {
        let first = usize::try_from(behind.unwrap_or(0)).unwrap();
        let tasks: Vec<_> = self.tasks.iter().skip(first).take(2).cloned().collect();
        let last_key = (!tasks.is_empty()).then(|| i64::try_from(first + tasks.len()).unwrap());
        Ok(Chunk { tasks, last_key })
    }
    async fn settings(&mut self, _: QueueKey) -> StoreResult<Option<QueueSettings>> {
        Ok(self.settings.clone())
    }
    async fn unsettled(&mut self, _: QueueKey) -> StoreResult<Vec<TaskId>> {
        Ok(Vec::new())
    }
    async fn observations(&mut self, _: Queue<'_>) -> StoreResult<Vec<Observation>> {
        Ok(Vec::new())
    }
    async fn deleted_runs(&mut self, behind: Option<DeletedRun>) -> StoreResult<Vec<DeletedRun>> {
        let behind = self.deleted_runs.iter().filter(|run| behind.is_none_or(|last| **run > last));
        Ok(behind.take(2).copied().collect())
    }
    async fn last_scan_at(&mut self) -> StoreResult<Option<Timestamp>> {
        Ok(None)
    }
    async fn totals(&mut self) -> StoreResult<Totals> {
        let mut totals = Totals { queues: self.queues.len() as u64, ..Totals::default() };
        totals.add_tasks(&self.tasks);
        totals.runs += u64::from(self.miscounts);
        Ok(totals)
    }
}

#[async_trait(?Send)]
impl Target for Memory {
    async fn is_empty(&mut self) -> StoreResult<bool> {
        Ok(self.queues.is_empty())
    }
    async fn add_queues(&mut self, queues: &[(QueueKey, QueueName)]) -> StoreResult<()> {
        self.queues = queues.to_vec();
        Ok(())
    }
    async fn add_tasks(&mut self, tasks: &[TransferredTask]) -> StoreResult<()> {
        self.tasks.extend_from_slice(tasks);
        Ok(())
    }
    async fn add_settings(&mut self, _: Queue<'_>, settings: &QueueSettings) -> StoreResult<()> {
        self.settings = Some(settings.clone()).filter(|_| !self.loses_settings);
        Ok(())
    }
    async fn add_unsettled(&mut self, _: QueueKey, ids: &[TaskId]) -> StoreResult<()> {
        assert_eq!(ids, []);
        Ok(())
    }
    async fn add_observations(&mut self, _: QueueKey, _: &[Observation]) -> StoreResult<()> {
        Ok(())
    }
    async fn clear_deleted_runs(&mut self) -> StoreResult<()> {
        self.deleted_runs.clear();
        Ok(())
    }
    async fn add_deleted_runs(&mut self, runs: &[DeletedRun]) -> StoreResult<()> {
        let kept = if self.loses_deleted_runs { runs.len() - 1 } else { runs.len() };
        self.deleted_runs.extend_from_slice(&runs[..kept]);
        Ok(())
    }
    async fn finish(&mut self, _: Option<Timestamp>) -> StoreResult<()> {
        self.spoil.into_iter().for_each(|spoil| spoil(&mut self.tasks));
        Ok(())
    }
    async fn commit(self: Box<Self>) -> StoreResult<()> {
        Ok(())
    }
}

fn source() -> Memory {
    let queues = vec![(QueueKey(3), QueueName::parse("q").unwrap())];
    Memory {
        queues,
        tasks: (0..5).map(task).collect(),
        deleted_runs: (5..10).map(deleted_run).collect(),
        settings: Some(QueueSettings { paused: true, ..QueueSettings::default() }),
        ..Memory::default()
    }
}

async fn moved(target: Memory) -> Result<Totals, TransferError> {
    transfer(&mut source(), Box::new(target), &mut |_| {}).await
}

#[tokio::test]
async fn everything_is_counted_and_told() {
    let mut told = Vec::new();
    let target = Box::new(Memory::default());
    let totals = transfer(&mut source(), target, &mut |progress| told.push(progress)).await.unwrap();
    assert_eq!((totals.queues, totals.tasks(), totals.pending_entries, totals.runs), (1, 5, 5, 5));
    let copied: Vec<u64> = told.iter().map(|progress| progress.done).collect();
    assert_eq!((copied, told[0].tasks, told[0].step), (vec![2, 4, 5], 5, Step::Copying));
}

#[tokio::test]
async fn a_target_that_is_not_empty_is_refused() {
    assert_eq!(moved(source()).await, Err(TransferError::NotEmpty));
}

#[tokio::test]
async fn run_ids_of_deleted_tasks_come_along_and_those_of_the_target_go() {
    let target = Memory { deleted_runs: vec![deleted_run(4), deleted_run(99)], ..Memory::default() };
    assert!(moved(target).await.is_ok(), "what is read back is what the source has");
}

#[tokio::test]
async fn a_copy_that_differs_in_anything_is_refused() {
    let spoils: [fn(&mut Vec<TransferredTask>); 10] = [
        |tasks| drop(tasks.pop()),
        |tasks| tasks.push(task(9)),
        |tasks| tasks.swap(0, 1),
        |tasks| tasks[4].identity[31] ^= 1,
        |tasks| tasks[2].task.lifecycle.updated_at = Timestamp::from_micros(77),
        |tasks| tasks[1].output = None,
        |tasks| tasks[3].noted.push(DependencyState::Waiting),
        |tasks| tasks[1].output.as_mut().unwrap().bytes[0][3] ^= 1,
        |tasks| tasks[1].output.as_mut().unwrap().kept.attempt += 1,
        |tasks| tasks[3].past_runs[0] = RunId::parse("r_elsewhere123").unwrap(),
    ];
    for (n, spoil) in spoils.into_iter().enumerate() {
        let moved = moved(Memory { spoil: Some(spoil), ..Memory::default() }).await;
        assert!(matches!(moved, Err(TransferError::Differs(_))), "{n}: {moved:?}");
    }
    let moved = moved(Memory { miscounts: true, ..Memory::default() }).await;
    assert!(matches!(moved, Err(TransferError::Differs(_))), "{moved:?}");
    let loses_deleted_runs = Memory { loses_deleted_runs: true, ..Memory::default() };
    for target in [loses_deleted_runs, Memory { loses_settings: true, ..Memory::default() }] {
        let moved = transfer(&mut source(), Box::new(target), &mut |_| {}).await;
        assert!(matches!(moved, Err(TransferError::Differs(_))), "{moved:?}");
    }
}
