//! Actions on many tasks. The question before: how many, and exactly what will happen to them. The address has all of it but the number; the
//! form that is sent from here carries the number that was agreed to. Then it is done, and said what was done.

use std::sync::Arc;

use askama::Template;
use axum::body::Body;
use axum::http::StatusCode;
use taskqueue_core::json::JsonObject;
use taskqueue_core::limits::PAGE_BYTES;
use taskqueue_core::task::Lifecycle;
use taskqueue_core::{
    BulkAction, QueueName, Refusal, Scope, Status, Statuses, Task, TaskFilter, TaskId, TaskOrder, TaskQuery,
    TaskSelection, Update,
};
use taskqueue_store::command::{ActOnTasks, BulkUpdate};
use taskqueue_store::{StoreError, StoreExt};

use super::view::View;
use crate::address::Query;
use crate::layout::{self, PageResult, Section, Shell};
use crate::problem::Problem;
use crate::selected::{
    IDS_MAX, Selectors, Target, Unreadable, and, as_filter, bytes_of, count_by_status, filter_of, find_task,
};
use crate::state::Dashboard;
use crate::visit::Visit;
use crate::{field, json_field, show};

/// What can be done to many tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    Bulk(BulkAction),
    Priority,
    Routes,
    Args,
    Archive,
    Unarchive,
}

impl Action {
    pub(super) fn read(word: Option<&str>) -> Result<Self, Problem> {
        let action = match word {
            Some("priority") => Some(Self::Priority),
            Some("routes") => Some(Self::Routes),
            Some("args") => Some(Self::Args),
            Some("archive") => Some(Self::Archive),
            Some("unarchive") => Some(Self::Unarchive),
            word => BulkAction::ALL.into_iter().find(|action| Some(action.as_str()) == word).map(Self::Bulk),
        };
        action.ok_or_else(|| Problem::invalid("There is no such action", "Go back to the list and use its buttons."))
    }

    pub(super) const fn applies_to(self) -> Statuses {
        match self {
            Self::Bulk(action) => action.applies_to(),
            Self::Priority | Self::Routes | Self::Args => Statuses::NOT_RUNNING,
            Self::Archive | Self::Unarchive => Statuses::ENDED,
        }
    }

    /// Returns whether a task must be archived for it, or must not be.
    pub(super) const fn needs_archived(self) -> Option<bool> {
        match self {
            Self::Archive => Some(false),
            Self::Unarchive => Some(true),
            Self::Bulk(_) | Self::Priority | Self::Routes | Self::Args => None,
        }
    }

    /// Returns what matches and is not done already.
    pub(super) fn narrow(self, selection: TaskSelection) -> Result<TaskSelection, Unreadable> {
        let Some(archived) = self.needs_archived() else { return Ok(selection) };
        and(selection, &format!("archived == {archived}"))
    }

    const fn imperative(self) -> &'static str {
        match self {
            Self::Bulk(BulkAction::Cancel) => "Cancel",
            Self::Bulk(BulkAction::Requeue) => "Requeue",
            Self::Bulk(BulkAction::Delete) => "Delete",
            Self::Priority => "Change the priority of",
            Self::Routes => "Change the routes of",
            Self::Args => "Change the args of",
            Self::Archive => "Archive",
            Self::Unarchive => "Unarchive",
        }
    }

    /// Returns why tasks in a state to which it does not apply are left out.
    const fn reason(self, status: Status) -> &'static str {
        match (self, status) {
            (Self::Bulk(BulkAction::Cancel), _) => "what has ended cannot be cancelled",
            (Self::Bulk(BulkAction::Requeue), Status::Pending) => "they already wait",
            (Self::Bulk(BulkAction::Requeue), Status::Succeeded) => {
                "what has succeeded is submitted again as a new task"
            }
            (Self::Archive | Self::Unarchive, _) => "only what has ended can be archived",
            (Self::Bulk(BulkAction::Requeue), _) => "wait for their end, or cancel them first",
            _ => "they cannot be changed while they run: wait for their end, or cancel them first",
        }
    }
}

/// How many of the tasks of a target are in each state.
#[derive(Default)]
struct TargetCounts {
    by_status: [u64; 5],
    /// How many chosen ones are archived already, or are not.
    done_before: u64,
}

impl TargetCounts {
    fn of(&self, statuses: Statuses) -> u64 {
        statuses.iter().map(|status| self.by_status[status as usize]).sum()
    }
}

async fn count_target(
    dashboard: &Dashboard,
    queue: &QueueName,
    action: Action,
    target: &Target,
) -> Result<TargetCounts, Problem> {
    let ids = match target {
        Target::Tasks(ids) => ids,
        Target::Matching(selectors) => {
            let read = move |selectors: Selectors| action.narrow(selectors.selection()?);
            let selection = selectors.in_turn(dashboard, read).await??;
            let by_status = count_by_status(dashboard.store(), queue, selection).await?;
            return Ok(TargetCounts { by_status, done_before: 0 });
        }
    };
    let mut counts = TargetCounts::default();
    // Much quicker than to look for them among a million.
    for id in ids {
        match find_task(dashboard.store(), queue, *id).await? {
            Some(task) if is_done(action, &task) => counts.done_before += 1,
            Some(task) => counts.by_status[task.lifecycle.status as usize] += 1,
            None => {}
        }
    }
    Ok(counts)
}

/// Returns whether an ended task is archived already, or is not, as the action would make it.
fn is_done(action: Action, task: &Task) -> bool {
    let Lifecycle { status, archived, .. } = task.lifecycle;
    status.is_ended() && action.needs_archived().is_some_and(|needed| needed != archived)
}

#[derive(Template)]
#[template(path = "tasks_confirm.html")]
struct ConfirmPage {
    shell: Shell,
    action: Action,
    queue: QueueName,
    target: Target,
    left_out: Vec<String>,
    again: AskedAgain,
    number: u64,
    address: String,
    back: String,
}

/// Why the question is asked again.
#[derive(Default)]
pub(super) struct AskedAgain {
    /// The number that was agreed to, and is another one by now.
    pub(super) agreed: Option<u64>,
    /// The new value, which is not lost.
    pub(super) value: String,
    pub(super) wrong: Option<String>,
}

/// Asks.
pub(crate) async fn confirm(visit: Visit) -> PageResult {
    ask(&visit, AskedAgain::default()).await
}

/// Returns what the action is for. Nothing chosen is nothing to do, and not everything.
pub(super) fn target(query: &Query) -> Result<Target, Problem> {
    let nothing = || Problem::invalid("No task is selected", "Go back to the list, and select tasks first.");
    Target::read(query).ok_or_else(nothing)
}

/// Asks, perhaps again.
pub(super) async fn ask(visit: &Visit, again: AskedAgain) -> PageResult {
    let queue = visit.queue_for(Scope::Submit)?;
    let action = Action::read(visit.query.get("action"))?;
    let target = target(&visit.query)?;
    let counts = count_target(&visit.dashboard, &queue, action, &target).await?;
    let number = counts.of(action.applies_to());
    let title = format!("{} {}?", action.imperative(), show::count(number, "task"));
    let status = match (&again.agreed, &again.wrong) {
        (Some(_), _) => StatusCode::CONFLICT,
        (None, Some(_)) => StatusCode::UNPROCESSABLE_ENTITY,
        (None, None) => StatusCode::OK,
    };
    let page = ConfirmPage {
        left_out: left_out(action, &counts),
        address: visit.query.at(&visit.path),
        back: View::read(&queue, &visit.query).address(),
        shell: Shell::new(visit, title, Section::Tasks, Some(&queue)).await?,
        queue,
        target,
        action,
        again,
        number,
    };
    layout::page_with(visit, status, &page)
}

fn left_out(action: Action, counts: &TargetCounts) -> Vec<String> {
    let others = Status::ALL.into_iter().filter(|status| !action.applies_to().contains(*status));
    let line = |status: Status| {
        let count = counts.of(Statuses::NONE.with(status));
        (count > 0).then(|| format!("{} {} left out: {}.", show::number(count), status.as_str(), action.reason(status)))
    };
    let before = (counts.done_before > 0).then(|| {
        let already = if action == Action::Archive { "archived already" } else { "not archived" };
        format!("{} left out: {already}.", show::number(counts.done_before))
    });
    others.filter_map(line).chain(before).collect()
}

/// A name search is in no filter: the tasks that it finds are acted on by id, at most so many.
const FOUND_MAX: usize = 5_000;
const FOUND_AT_ONCE: u16 = 1_000;

/// Does it, if the number is still the one that was agreed to.
pub(crate) async fn act(visit: Visit, body: Body) -> PageResult {
    let form = visit.form(body).await?;
    let queue = visit.queue_for(Scope::Submit)?;
    let action = Action::read(visit.query.get("action"))?;
    let no_number = || Problem::invalid("The number of tasks is missing", "Go back to the list and begin again.");
    let agreed: u64 = form.get("expect").and_then(|text| text.parse().ok()).ok_or_else(no_number)?;
    let value = form.get("value").unwrap_or_default().to_owned();
    let change = match change(action, &value) {
        Ok(change) => change,
        Err(wrong) => return ask(&visit, AskedAgain { value, wrong: Some(wrong), agreed: None }).await,
    };
    let target = target(&visit.query)?;
    let include_archived = target.includes_archived();
    let work = BulkWork { dashboard: &visit.dashboard, queue: &queue, action, agreed, include_archived };
    match work.act(&change, &target).await {
        Ok(told) => Ok(layout::done(&visit, &View::read(&queue, &visit.query).address(), &told)),
        Err(Undone::OtherNumber) => ask(&visit, AskedAgain { agreed: Some(agreed), value, wrong: None }).await,
        Err(Undone::Problem(problem)) => Err(problem),
    }
}

/// What is changed.
#[derive(Debug, PartialEq)]
enum Change {
    Bulk(BulkAction),
    Update(Box<Update>),
}

fn change(action: Action, value: &str) -> Result<Change, String> {
    let update = match action {
        Action::Bulk(action) => return Ok(Change::Bulk(action)),
        Action::Priority => Update { priority: Some(field::integer(value, i64::MIN)?), ..Update::default() },
        Action::Routes => Update { routes: Some(field::routes(value)?), ..Update::default() },
        Action::Args => Update { args_patch: Some(patch(value)?), ..Update::default() },
        Action::Archive => Update { archived: Some(true), ..Update::default() },
        Action::Unarchive => Update { archived: Some(false), ..Update::default() },
    };
    Ok(Change::Update(Box::new(update)))
}

/// Returns what to change of args. An empty object would change nothing, so it is a mistake.
fn patch(value: &str) -> Result<JsonObject, String> {
    let patch = json_field::read(value)?;
    if patch.is_empty_object() { Err(json_field::EXAMPLE.to_owned()) } else { Ok(patch) }
}

/// Why nothing was done, or not all.
enum Undone {
    /// Another number of tasks than was agreed to.
    OtherNumber,
    Problem(Problem),
}

impl<E: Into<Problem>> From<E> for Undone {
    fn from(error: E) -> Self {
        Self::Problem(error.into())
    }
}

struct BulkWork<'w> {
    dashboard: &'w Dashboard,
    queue: &'w QueueName,
    action: Action,
    agreed: u64,
    include_archived: bool,
}

impl BulkWork<'_> {
    /// Makes the change, and says what was done.
    async fn act(&self, change: &Change, target: &Target) -> Result<String, Undone> {
        let filters = match change {
            Change::Bulk(_) => self.filters(target).await?,
            Change::Update(_) => self.filters_of_update(target).await?,
        };
        // Several filters were counted when their tasks were found.
        let expect = (filters.len() == 1).then_some(self.agreed);
        let (mut matched, mut changed) = (0, 0);
        for filter in filters {
            let (store, queue, include_archived) = (self.dashboard.store(), self.queue.clone(), self.include_archived);
            let done = match change {
                Change::Bulk(action) => {
                    let (action, selection) = (*action, action.selection(filter, include_archived));
                    let act = ActOnTasks { queue, action, selection, expect, dry_run: false };
                    store.act_on_tasks(Arc::new(act)).await.map(|done| (done.matched, done.changed))
                }
                Change::Update(update) => {
                    let selection = Update::selection(filter, include_archived);
                    let bulk = BulkUpdate { queue, selection, update: (**update).clone() };
                    store.update_tasks(Arc::new(bulk)).await.map(|done| (done.matched, done.updated))
                }
            };
            match done {
                Ok(done) => (matched, changed) = (matched + done.0, changed + done.1),
                Err(StoreError::Refused(Refusal::ExpectationFailed { .. })) => return Err(Undone::OtherNumber),
                Err(_) if changed > 0 => return Err(StoreError::PartlyDone.into()),
                Err(error) => return Err(error.into()),
            }
        }
        let past = match self.action {
            Action::Bulk(BulkAction::Cancel) => "cancelled",
            Action::Bulk(BulkAction::Requeue) => "requeued",
            Action::Bulk(BulkAction::Delete) => "deleted",
            Action::Archive => "archived",
            Action::Unarchive => "unarchived",
            Action::Priority | Action::Routes | Action::Args => "changed",
        };
        Ok(match change {
            Change::Bulk(_) => told(self.agreed, changed, past),
            Change::Update(_) => told_update(self.agreed, matched, changed, past),
        })
    }

    /// The filters of a change of values. Such a change has no expectation of its own. Of a few tasks exactly those are changed that were
    /// agreed to; many are counted right before the change, and what became of them is told.
    async fn filters_of_update(&self, target: &Target) -> Result<Vec<TaskFilter>, Undone> {
        match target {
            Target::Matching(selectors) if self.agreed <= IDS_MAX as u64 => {
                let (action, (selection, ids)) = (self.action, self.agreed_to(selectors).await?);
                let bytes = selection.filter.as_ref().map_or(0, |filter| filter.text().len()) + bytes_of(&ids);
                let read = move || of_right_state(action, narrowed(&as_filter(selection)?, &ids)?);
                Ok(vec![self.dashboard.read_filter(bytes, read).await??])
            }
            _ => self.counted(target).await,
        }
    }

    /// The filters of a target, if they select as many tasks as were agreed to.
    async fn counted(&self, target: &Target) -> Result<Vec<TaskFilter>, Undone> {
        let filters = self.filters(target).await?;
        if let [filter] = filters.as_slice() {
            let selection = TaskSelection::among(self.action.applies_to(), filter.clone(), self.include_archived);
            if self.dashboard.store().count_tasks(self.queue, selection).await? != self.agreed {
                return Err(Undone::OtherNumber);
            }
        }
        Ok(filters)
    }

    /// The filters that select the tasks of a target together. What a name search finds is given by ids, and counted.
    async fn filters(&self, target: &Target) -> Result<Vec<TaskFilter>, Undone> {
        match target {
            Target::Tasks(ids) => self.of_ids(ids.clone()).await,
            Target::Matching(selectors) if selectors.name_fuzzy.is_none() => {
                let action = self.action;
                let read = move |selectors: Selectors| of_right_state(action, as_filter(selectors.selection()?)?);
                Ok(vec![selectors.in_turn(self.dashboard, read).await??])
            }
            Target::Matching(selectors) => self.of_ids(self.agreed_to(selectors).await?.1).await,
        }
    }

    /// The filters that select these tasks together.
    async fn of_ids(&self, ids: Vec<TaskId>) -> Result<Vec<TaskFilter>, Undone> {
        let (action, bytes) = (self.action, bytes_of(&ids));
        let read = move || {
            let filters = ids.chunks(IDS_MAX).map(|ids| of_right_state(action, filter_of(ids)?));
            filters.collect::<Result<Vec<_>, Unreadable>>()
        };
        Ok(self.dashboard.read_filter(bytes, read).await??)
    }

    /// Returns what is selected, and the ids of all tasks of it that the action applies to, if they are as many as were agreed to.
    async fn agreed_to(&self, selectors: &Selectors) -> Result<(TaskSelection, Vec<TaskId>), Undone> {
        let action = self.action;
        let read = move |selectors: Selectors| action.narrow(selectors.selection()?);
        let selection = selectors.in_turn(self.dashboard, read).await??;
        let ids = self.find(&selection).await?;
        if ids.len() as u64 == self.agreed { Ok((selection, ids)) } else { Err(Undone::OtherNumber) }
    }

    /// The ids of all tasks that the action applies to; some more than can be agreed to, if there are too many.
    async fn find(&self, selection: &TaskSelection) -> Result<Vec<TaskId>, Undone> {
        if self.agreed > FOUND_MAX as u64 {
            let advice = format!(
                "A search for names can be followed by an action on {} tasks at most. Use a filter, which has no such limit: \
                 name >= \"a\" and name < \"b\".",
                show::number(FOUND_MAX as u64)
            );
            return Err(Problem::invalid("These are too many tasks for a search by name", advice).into());
        }
        let selection = TaskSelection { among: Some(self.action.applies_to()), ..selection.clone() };
        let (mut ids, mut after) = (Vec::new(), None);
        loop {
            let order = TaskOrder::default();
            let query =
                TaskQuery { selection: selection.clone(), order, limit: FOUND_AT_ONCE, after, max_bytes: PAGE_BYTES };
            let page =
                self.dashboard.store().list_rows(self.queue, query, |task| (task.id, size_of_val(&task.id))).await?;
            ids.extend(page.items);
            after = page.next;
            if after.is_none() || ids.len() > FOUND_MAX {
                return Ok(ids);
            }
        }
    }
}

/// Returns what a filter selects among the tasks that can be archived, if that is what is done: one that cannot would stop all.
fn of_right_state(action: Action, filter: TaskFilter) -> Result<TaskFilter, Unreadable> {
    let Some(archived) = action.needs_archived() else { return Ok(filter) };
    let states = action.applies_to().filter_text();
    Ok(TaskFilter::parse(&format!("({}) and {states} and archived == {archived}", filter.text()))?)
}

/// Returns what a filter selects among these tasks: nothing that began to match meanwhile.
fn narrowed(filter: &TaskFilter, ids: &[TaskId]) -> Result<TaskFilter, Unreadable> {
    let ids = filter_of(ids)?;
    // A filter that is too long beside the ids is left out: its tasks are known.
    Ok(TaskFilter::parse(&format!("({}) and {}", filter.text(), ids.text())).unwrap_or(ids))
}

/// Returns what a change of values did, in a sentence.
fn told_update(agreed: u64, matched: u64, updated: u64, past: &str) -> String {
    let others = match (matched == agreed, updated == matched) {
        (true, true) => return format!("{} {past}.", show::count(updated, "task")),
        (true, false) => "The others had this value already.".to_owned(),
        (false, _) => format!(
            "By then {} matched, because some have changed in the meantime: look at them.",
            show::number(matched)
        ),
    };
    format!("{} of {} {past}. {others}", show::number(updated), show::count(agreed, "task"))
}

/// Returns what was done, in a sentence.
fn told(agreed: u64, changed: u64, past: &str) -> String {
    if changed == agreed {
        return format!("{} {past}.", show::count(changed, "task"));
    }
    format!(
        "{} of {} {past}. The others have changed in the meantime, or the time for one request was over: look at what is left.",
        show::number(changed),
        show::count(agreed, "task")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_state_is_either_counted_or_told_as_left_out() {
        let counts = TargetCounts { by_status: [1; 5], done_before: 0 };
        let actions = ["cancel", "requeue", "delete", "priority", "routes", "args", "archive", "unarchive"];
        for (word, applies) in actions.into_iter().zip([2, 2, 4, 4, 4, 4, 3, 3]) {
            let action = Action::read(Some(word)).expect(word);
            let expected = (applies, 5 - applies);
            assert_eq!((counts.of(action.applies_to()), left_out(action, &counts).len() as u64), expected, "{word}");
        }
        let counts = TargetCounts { by_status: [0; 5], done_before: 2 };
        assert_eq!(left_out(Action::Archive, &counts), ["2 left out: archived already."]);
        assert!(Action::read(Some("what")).is_err() && Action::read(None).is_err());
    }
}

#[cfg(test)]
mod bulk_tests {
    use super::*;

    #[test]
    fn a_change_is_for_those_that_were_agreed_to_and_another_number_is_told() {
        let ids = [TaskId::parse("t_exampletask0").unwrap()];
        let filter = |text: &str| TaskFilter::parse(text).unwrap();
        let narrow = |text: &str| narrowed(&filter(text), &ids).unwrap().text().to_owned();
        assert_eq!(narrow("args.a==1 or args.b==2"), "(args.a==1 or args.b==2) and id in [\"t_exampletask0\"]");
        assert_eq!(narrow(&format!("name == \"{}\"", "x".repeat(8_170))), "id in [\"t_exampletask0\"]");
        assert_eq!(told_update(3, 3, 3, "changed"), "3 tasks changed.");
        assert_eq!(told_update(3, 3, 3, "archived"), "3 tasks archived.");
        assert_eq!(told_update(3, 3, 1, "changed"), "1 of 3 tasks changed. The others had this value already.");
        assert!(told_update(3, 2, 2, "changed").starts_with("2 of 3 tasks changed. By then 2 matched"));
        let told = told_update(1_000, 1_001, 1_001, "changed");
        assert!(told.starts_with("1,001 of 1,000 tasks changed. By then 1,001 matched"), "{told}");
    }

    #[test]
    fn new_args_are_a_patch_and_nothing_to_change_is_a_mistake() {
        let patched =
            Update { args_patch: Some(JsonObject::from_canonical(r#"{"lr":0.1,"old":null}"#)), ..Update::default() };
        let change = |value: &str| change(Action::Args, value);
        assert_eq!(change(r#" {"lr": 0.1, "old": null}"#), Ok(Change::Update(Box::new(patched))));
        for (value, reason) in [("", "such as"), ("{}", "such as"), ("[1]", "such as"), ("{\"lr\":", "Line 1")] {
            assert!(change(value).is_err_and(|error| error.contains(reason)), "{value}");
        }
    }

    #[test]
    fn what_was_not_done_is_told() {
        assert_eq!(told(12_345, 12_345, "deleted"), "12,345 tasks deleted.");
        assert!(told(3, 1, "cancelled").starts_with("1 of 3 tasks cancelled. The others"));
    }
}
