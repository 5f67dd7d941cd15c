//! Properties that hold after every step of every history: random actions at random times, also when the clock steps
//! back, keep the invariants of a single task (I5, I6, I11, I24, I30). One action at a time is in `lifecycle_tests.rs`.

use std::collections::HashSet;
use std::time::Duration;

use proptest::collection::vec;
use proptest::prelude::*;
use taskqueue_core::scheduling::RetryDelay;
use taskqueue_core::{json, lease, soundness};

use crate::any_action::{Action, Decision, decide};
use crate::prelude::*;

/// What happens next, and how far the clock moves before it.
#[derive(Clone, Debug)]
struct Event {
    what: What,
    /// How many runs back the report comes from: 0 is the latest one.
    back: usize,
    seconds: i64,
    /// What a report says of the next attempt.
    delay: Option<Duration>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum What {
    Claim,
    Heartbeat { progress: bool },
    Progress,
    Complete,
    Fail { retry: bool },
    Unclaim,
    Expire,
    Cancel,
    Requeue,
    Delete,
    SetBudget(i64),
}

fn event() -> impl Strategy<Value = Event> {
    use What::{Cancel, Claim, Complete, Delete, Expire, Fail, Heartbeat, Progress, Requeue, Unclaim};
    let action = prop_oneof![
        6 => Just(Claim),
        2 => any::<bool>().prop_map(|progress| Heartbeat { progress }),
        3 => Just(Progress),
        1 => Just(Complete),
        3 => Just(Fail { retry: true }),
        1 => Just(Fail { retry: false }),
        2 => Just(Unclaim),
        2 => Just(Expire),
        1 => Just(Cancel),
        2 => Just(Requeue),
        1 => Just(Delete),
        1 => prop_oneof![4 => 1..5_i64, 1 => Just(i64::MAX)].prop_map(What::SetBudget),
    ];
    let back = prop_oneof![6 => Just(0_usize), 2 => Just(1), 1 => 2..4_usize];
    let seconds = prop_oneof![6 => 0..5_i64, 2 => 250..350_i64, 1 => -1000..0_i64];
    let delay = prop_oneof![3 => Just(None), 1 => Just(Some(Duration::ZERO)), 2 => Just(Some(Duration::from_secs(7)))];
    (action, back, seconds, delay).prop_map(|(what, back, seconds, delay)| Event { what, back, seconds, delay })
}

/// Half of all tasks use nothing of it.
fn scheduling() -> impl Strategy<Value = Scheduling> {
    let timeout_seconds = prop_oneof![Just(None), Just(Some(3)), Just(Some(300))];
    let retry_delay = prop_oneof![Just(None), Just(RetryDelay::new(5.0, None, Some(8.0)))];
    let used = (timeout_seconds, retry_delay).prop_map(|(timeout_seconds, retry_delay)| {
        Scheduling::from(SchedulingFields { timeout_seconds, retry_delay, ..SchedulingFields::default() })
    });
    prop_oneof![Just(Scheduling::default()), used]
}

/// One task with everything that an observer knows about its past.
struct History {
    task: Task,
    now: Timestamp,
    runs: Vec<RunId>,
    last_seq: i64,
    /// Claims minus unclaims since creation or requeue.
    charged: i64,
}

fn run_id(number: usize) -> RunId {
    RunId::parse(&format!("r_{number:012}")).unwrap()
}

fn result(number: usize) -> JsonObject {
    JsonObject::from_value(&json::parse(format!("{{\"n\":{number}}}").as_bytes()).unwrap()).unwrap()
}

impl History {
    fn begin(scheduling: Scheduling) -> Self {
        let now = Timestamp::from_micros(0).plus_seconds(1_000_000);
        let definition = Definition { scheduling, ..Definition::default() };
        let task = Task { definition, lifecycle: Lifecycle::created(now, 1), ..new_task() };
        Self { task, now, runs: Vec::new(), last_seq: 1, charged: 0 }
    }

    /// The run that is `back` runs old, or one that never existed.
    fn run(&self, back: usize) -> RunId {
        self.runs.iter().rev().nth(back).copied().unwrap_or_else(|| run_id(999_999))
    }

    /// Something else each time.
    fn progress(&self) -> JsonObject {
        result(self.now.as_micros() as usize)
    }

    fn action(&self, event: &Event) -> Option<Action> {
        let run_id_of = self.run(event.back);
        let report = |report| Action::Report { run_id: run_id_of, report };
        Some(match event.what {
            What::Claim => Action::Claim { route: Route::parse("default").unwrap(), run_id: run_id(self.runs.len()) },
            What::Heartbeat { progress } => {
                Action::Heartbeat { run_id: run_id_of, progress: progress.then(|| self.progress()) }
            }
            What::Progress => Action::Progress { run_id: run_id_of, value: self.progress() },
            What::Complete => report(RunReport::Complete { result: result(self.runs.len()) }),
            What::Fail { retry } => report(RunReport::Fail { failure: failure(), retry, retry_after: event.delay }),
            What::Unclaim => report(RunReport::Unclaim { delay: event.delay }),
            What::Expire => Action::Expire,
            What::Cancel => Action::Cancel,
            What::Requeue => Action::Requeue,
            What::Delete => Action::Delete,
            What::SetBudget(_) => return None,
        })
    }

    fn write(&mut self, change: &Change) {
        self.task.lifecycle = change.lifecycle.clone();
        change.apply_to_outcome(&mut self.task.outcome);
    }

    /// Lets the event happen and checks what only the step itself shows.
    fn step(&mut self, event: &Event) -> Result<(), TestCaseError> {
        self.now = self.now.plus_seconds(event.seconds);
        let before = self.task.clone();
        let Some(action) = self.action(event) else { return self.set_budget(event, &before) };
        let seq = self.last_seq + 1;
        let decision = decide(&before.head(), &before.outcome, &action, self.now, seq);
        match &decision {
            Decision::Change(change) | Decision::Expire(change, _) => {
                self.write(change);
                prop_assert_eq!(change.head_after(&before.head()), self.task.head(), "the head is that of the task");
            }
            Decision::Unchanged | Decision::Refuse(_) | Decision::Delete => {}
        }
        if self.task.lifecycle.pending_seq != before.lifecycle.pending_seq {
            prop_assert_eq!(self.task.lifecycle.pending_seq, seq);
            prop_assert_eq!(self.task.lifecycle.status, Status::Pending, "only a pending task goes to the back");
            self.last_seq = seq;
        }
        self.check_run_rule(&before, event, &action, &decision)?;
        self.check_charge(&before, &action, &decision)?;
        self.check_progress(&before, &action, &decision)?;
        self.check_delay(&before, event, &action, &decision)?;
        if before.lifecycle.status == Status::Running && matches!(action, Action::Delete) {
            prop_assert!(matches!(decision, Decision::Refuse(Refusal::TaskRunning { .. })), "I24");
        }
        Ok(())
    }

    /// A task that is tried again waits as its worker says, else as it says itself. Claims and requeues clear the time.
    fn check_delay(
        &self,
        before: &Task,
        event: &Event,
        action: &Action,
        decision: &Decision,
    ) -> Result<(), TestCaseError> {
        let after = &self.task.lifecycle;
        let own = before.definition.scheduling.retry_delay.map(|delay| delay.after_attempt(before.lifecycle.attempt));
        let said = match (action, decision) {
            (_, Decision::Unchanged | Decision::Refuse(_) | Decision::Delete) => {
                prop_assert_eq!(after.not_before, before.lifecycle.not_before);
                return Ok(());
            }
            (Action::Report { report: RunReport::Fail { .. }, .. }, Decision::Change(_)) => event.delay.or(own),
            (Action::Report { report: RunReport::Unclaim { .. }, .. }, Decision::Change(_)) => event.delay,
            (Action::Expire, Decision::Change(_)) | (_, Decision::Expire(..)) => own,
            (Action::Claim { .. } | Action::Requeue, _) => None,
            _ => {
                prop_assert_eq!(after.not_before, before.lifecycle.not_before);
                return Ok(());
            }
        };
        let waits = said.filter(|delay| !delay.is_zero() && after.status == Status::Pending);
        prop_assert_eq!(after.not_before, waits.map(|delay| after.updated_at.plus(delay)));
        Ok(())
    }

    fn set_budget(&mut self, event: &Event, before: &Task) -> Result<(), TestCaseError> {
        let What::SetBudget(max_attempts) = event.what else { return Ok(()) };
        let update = Update { max_attempts: Some(max_attempts), ..Update::default() };
        match update.apply(before, self.now) {
            Ok(Some(after)) => self.task = after,
            Ok(None) => {}
            Err(Refusal::TaskRunning { .. }) => prop_assert_eq!(before.lifecycle.status, Status::Running),
            Err(Refusal::UpdateConflict { .. }) => prop_assert!(max_attempts <= before.lifecycle.attempt),
            Err(other) => prop_assert!(false, "{other:?}"),
        }
        prop_assert_eq!(self.task.lifecycle.pending_seq, before.lifecycle.pending_seq);
        Ok(())
    }

    /// I5 and I6: only the active run acts, only the latest finished one may repeat itself.
    fn check_run_rule(
        &self,
        before: &Task,
        event: &Event,
        action: &Action,
        decision: &Decision,
    ) -> Result<(), TestCaseError> {
        let end = match event.what {
            What::Heartbeat { .. } | What::Progress => None,
            What::Complete => Some(RunEnd::Complete),
            What::Fail { .. } => Some(RunEnd::Fail),
            What::Unclaim => Some(RunEnd::Unclaim),
            _ => return Ok(()),
        };
        let reporter = self.run(event.back);
        let Lifecycle { run, finished_run, updated_at, .. } = &before.lifecycle;
        if let Some(run) = run.filter(|run| run.run_id == reporter) {
            let over = lease::run_over(&run, lease::lease_time(self.now, *updated_at)).is_some();
            prop_assert_eq!(matches!(decision, Decision::Expire(..)), over);
            prop_assert_eq!(matches!(decision, Decision::Change(_)), !over);
            if end.is_none() && !over {
                let visible = |task: &Task| {
                    let outcome = Outcome { progress: None, ..task.outcome.clone() };
                    Task { lifecycle: Lifecycle { run: None, ..task.lifecycle.clone() }, outcome, ..task.clone() }
                };
                prop_assert_eq!(visible(&self.task), visible(before), "a heartbeat and progress are invisible");
            }
            if event.what == What::Progress && !over {
                prop_assert_eq!(&self.task.lifecycle, &before.lifecycle, "progress renews no lease");
            }
            return Ok(());
        }
        prop_assert_eq!(&self.task, before, "a stale report left a trace: {:?}", action);
        match finished_run.filter(|run| run.run_id == reporter) {
            Some(FinishedRun { end: ended, .. }) if Some(ended) == end => {
                prop_assert_eq!(decision, &Decision::Unchanged);
            }
            Some(FinishedRun { end, .. }) => {
                prop_assert_eq!(decision, &Decision::Refuse(Refusal::RunFinalized { end }));
            }
            None => prop_assert_eq!(decision, &Decision::Refuse(Refusal::StaleRun { run_id: reporter })),
        }
        Ok(())
    }

    /// I11: attempt = claims minus unclaims since creation or requeue.
    fn check_charge(&mut self, before: &Task, action: &Action, decision: &Decision) -> Result<(), TestCaseError> {
        if let (Action::Claim { run_id, .. }, Decision::Change(_)) = (action, decision) {
            prop_assert_eq!(before.lifecycle.status, Status::Pending);
            prop_assert!(before.lifecycle.attempt < before.definition.max_attempts, "claimed beyond the budget");
            self.runs.push(*run_id);
            self.charged += 1;
        }
        match (action, decision) {
            (Action::Report { report: RunReport::Unclaim { .. }, .. }, Decision::Change(_)) => self.charged -= 1,
            (Action::Requeue, Decision::Change(_)) => self.charged = 0,
            (Action::Report { report: RunReport::Fail { retry, .. }, .. }, Decision::Change(_)) => {
                let again = *retry && before.lifecycle.attempt < before.definition.max_attempts;
                let expected = if again { Status::Pending } else { Status::Failed };
                prop_assert_eq!(self.task.lifecycle.status, expected);
            }
            _ => {}
        }
        prop_assert_eq!(self.task.lifecycle.attempt, self.charged);
        Ok(())
    }

    /// A run sets its progress, a claim clears it, and nothing else touches it.
    fn check_progress(&self, before: &Task, action: &Action, decision: &Decision) -> Result<(), TestCaseError> {
        let said = match action {
            Action::Progress { value, .. } | Action::Heartbeat { progress: Some(value), .. } => Some(value),
            _ => None,
        };
        let progress = self.task.outcome.progress.as_ref();
        match (action, said, decision) {
            (Action::Claim { .. }, _, Decision::Change(_)) => prop_assert!(progress.is_none()),
            (_, Some(value), Decision::Change(_)) => {
                let attempt = before.lifecycle.attempt;
                prop_assert_eq!(progress.map(|is| (&is.value, is.attempt)), Some((value, attempt)));
                prop_assert!(progress.is_some_and(|is| is.updated_at >= before.lifecycle.updated_at), "I30");
            }
            _ => prop_assert_eq!(progress, before.outcome.progress.as_ref()),
        }
        Ok(())
    }

    /// What holds at any moment.
    fn check_state(&self, before: &Task) -> Result<(), TestCaseError> {
        let broken = soundness::task(&self.task, &self.task.head());
        prop_assert_eq!(broken, vec![], "what `taskqueue check` tests: runs, attempts, times and sizes");
        let lifecycle = &self.task.lifecycle;
        let Lifecycle { created_at, updated_at, started_at, run, .. } = lifecycle;
        prop_assert!(*updated_at >= before.lifecycle.updated_at, "I30");
        prop_assert_eq!(*created_at, before.lifecycle.created_at);
        prop_assert_eq!(started_at.is_some(), !self.runs.is_empty());
        prop_assert_eq!(lifecycle.last_route.is_some(), !self.runs.is_empty());
        if let Some(run) = run {
            prop_assert_eq!(Some(&run.run_id), self.runs.last());
            let promised = match before.lifecycle.run.filter(|known| known.run_id == run.run_id) {
                Some(known) => known.lease_expires_at,
                None => lease::from(lease::lease_time(self.now, before.lifecycle.updated_at)),
            };
            prop_assert!(run.lease_expires_at >= promised, "a promise was shortened");
        }
        let ended = self.runs.len() - usize::from(run.is_some());
        let latest = ended.checked_sub(1).map(|index| self.runs[index]);
        prop_assert_eq!(lifecycle.finished_run.map(|run| run.run_id), latest, "the latest finished run is remembered");
        if let Some(known) = before.lifecycle.finished_run.filter(|known| Some(known.run_id) == latest) {
            prop_assert_eq!(lifecycle.finished_run, Some(known), "a run ends once");
        }
        Ok(())
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn every_history_keeps_the_invariants(scheduling in scheduling(), events in vec(event(), 1..60)) {
        let mut history = History::begin(scheduling);
        for event in &events {
            let before = history.task.clone();
            history.step(event)?;
            history.check_state(&before)?;
        }
        let distinct: HashSet<_> = history.runs.iter().collect();
        prop_assert_eq!(distinct.len(), history.runs.len());
    }

    #[test]
    fn scan_and_report_agree_about_expiry(events in vec(event(), 1..40), seconds in 0..1000_i64) {
        let mut history = History::begin(Scheduling::default());
        for event in &events {
            history.step(event)?;
        }
        let (head, now) = (history.task.head(), history.now.plus_seconds(seconds));
        if let Some(run) = head.lifecycle.run {
            let decided = |action: &Action| decide(&head, &history.task.outcome, action, now, 999);
            let heartbeat = Action::Heartbeat { run_id: run.run_id, progress: None };
            let progress = Action::Progress { run_id: run.run_id, value: history.progress() };
            for report in [heartbeat, progress] {
                match (decided(&Action::Expire), decided(&report)) {
                    (Decision::Change(by_scan), Decision::Expire(by_report, _)) => prop_assert_eq!(by_scan, by_report),
                    (Decision::Unchanged, Decision::Change(_)) => {}
                    other => prop_assert!(false, "{other:?}"),
                }
            }
        }
    }
}
