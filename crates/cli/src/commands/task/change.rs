//! What every change of tasks has in common: its words, which states it applies to, the question before it, and the reasons why selected
//! tasks are left out. `task update`, `task archive` and `task unarchive`, which change tasks that are named by id, one by one, or all that
//! match, in one request. And the bulk actions of the server, by which selected tasks are cancelled, requeued and deleted: one request for all of
//! them, repeated while the server says that its time was over. For selections that no filter says there are single requests (`actions.rs`).

use std::time::{Duration, Instant};

use taskqueue_client::{
    Acted, BulkActionRequest, BulkUpdateRequest, Error, ErrorCode, OrderField, Status, TaskId, TaskQuery,
    TaskSelection, Timestamp, Update, Updated,
};
use taskqueue_core::bulk_action::BulkAction;
use taskqueue_core::filter::TaskFilter;
use taskqueue_core::status::Statuses;
use taskqueue_core::words;

use super::actions::{self, Action};
use super::{dry_run, named_tasks};
use crate::args::{ConfirmArgs, SelectionArgs, TargetArgs, UpdateArgs};
use crate::commands::queue::StatusCounts;
use crate::config::ClientContext;
use crate::failure::{CommandError, Failure, detail_number, explain};
use crate::json_args;
use crate::output::{self, Progress, Summary, confirm};

/// A change of tasks, as people name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    Cancel,
    Requeue,
    Delete,
    Update,
    Rerun,
    Archive,
    Unarchive,
}

/// The words for a change.
pub(super) struct ChangeWords {
    imperative: &'static str,
    pub(super) done: &'static str,
    pub(super) doing: &'static str,
}

impl Change {
    /// Returns the states of the selected tasks that are changed. A pending task can be requeued by id.
    pub(super) const fn applies_to(self) -> Statuses {
        match (self.bulk(), self) {
            (Some(action), _) => action.applies_to(),
            (None, Self::Update) => Statuses::NOT_RUNNING,
            (None, _) => Statuses::ENDED,
        }
    }

    /// Returns the action on all tasks that match, if there is one.
    pub(super) const fn bulk(self) -> Option<BulkAction> {
        match self {
            Self::Cancel => Some(BulkAction::Cancel),
            Self::Requeue => Some(BulkAction::Requeue),
            Self::Delete => Some(BulkAction::Delete),
            Self::Update | Self::Rerun | Self::Archive | Self::Unarchive => None,
        }
    }

    /// Returns its words for messages.
    pub(super) const fn words(self) -> ChangeWords {
        let (imperative, done, doing) = match self {
            Self::Cancel => ("Cancel", "cancelled", "cancelling"),
            Self::Requeue => ("Requeue", "requeued", "requeueing"),
            Self::Delete => ("Delete", "deleted", "deleting"),
            Self::Update => ("Update", "updated", "updating"),
            Self::Rerun => ("Rerun", "submitted", "submitting"),
            Self::Archive => ("Archive", "archived", "archiving"),
            Self::Unarchive => ("Unarchive", "unarchived", "unarchiving"),
        };
        ChangeWords { imperative, done, doing }
    }

    /// Returns why tasks in a state to which it does not apply are left out, and what helps.
    pub(super) fn reason(self, status: Status) -> &'static str {
        match (self, status) {
            (Self::Cancel, Status::Cancelled) => "nothing is left to cancel",
            (Self::Cancel, _) => "what has ended cannot be cancelled",
            (Self::Requeue, Status::Pending) => "already waiting; requeue by id resets the attempts",
            (Self::Requeue, Status::Succeeded) => "taskqueue task rerun submits such tasks again as new ones",
            (Self::Rerun, Status::Pending) => "not run yet",
            (Self::Archive | Self::Unarchive, Status::Pending) => "only what has ended can be archived",
            _ => "wait for the end, or cancel first with taskqueue task cancel",
        }
    }

    /// Returns `3 are running: ...` and `1 succeeded, 2 failed: ...`. What several states have in common is said once.
    fn reasons(self, counts: &StatusCounts) -> Vec<String> {
        let mut reasons: Vec<(&str, Vec<String>)> = Vec::new();
        for status in Status::ALL {
            let (count, reason) = (counts.get(status), self.reason(status));
            if self.applies_to().contains(status) || count == 0 {
                continue;
            }
            match reasons.iter_mut().find(|(known, _)| *known == reason) {
                Some((_, states)) => states.push(in_state(count, status)),
                None => reasons.push((reason, vec![in_state(count, status)])),
            }
        }
        reasons.into_iter().map(|(reason, states)| format!("{}: {reason}", states.join(", "))).collect()
    }

    /// Counts the selected tasks by their state and, if the change applies to some of them, asks before they are changed.
    pub(super) async fn count(
        self,
        context: &ClientContext,
        selection: TaskSelection,
        args: ConfirmArgs,
    ) -> Result<StatusCounts, CommandError> {
        let counts = StatusCounts::of(&context.client, &context.queue, selection).await?;
        let (queue, applicable) = (&context.queue, counts.among(self.applies_to()));
        if applicable > 0 {
            let (imperative, tasks) = (self.words().imperative, words::count(applicable, "task"));
            let left_out = counts.words(|status| !self.applies_to().contains(status));
            let left_out = if left_out.is_empty() { left_out } else { format!(" ({left_out} left out)") };
            let end = if self == Self::Rerun { " as new tasks" } else { "" };
            confirm(&format!("{imperative} {tasks} of queue {queue}{end}{left_out}?"), args)?;
        } else if counts.total() == 0 {
            output::note(&format!("no task of queue {queue} matches"));
        }
        Ok(counts)
    }

    /// Says why tasks were left out. Fails if tasks match and none of them was changed.
    pub(super) fn conclude(self, counts: &StatusCounts, outcome: ChangeOutcome) -> Result<(), CommandError> {
        let (by_state, ChangeOutcome { changed, equal, missed }) = (self.reasons(counts), outcome);
        if changed > 0 {
            let missed = (missed > 0).then(|| format!("{missed}: each {}", self.reason_missed()));
            let left_out: Vec<String> = by_state.into_iter().chain(missed).collect();
            if !left_out.is_empty() {
                output::note(&format!("left out: {}", left_out.join("; ")));
            }
            return Ok(());
        }
        if counts.total() == 0 {
            return Ok(());
        }
        let have = if equal == 1 { "has" } else { "have" };
        let equal = (equal > 0).then(|| format!("{equal} {have} these values already"));
        let mut reasons: Vec<String> = equal.into_iter().chain(by_state).collect();
        if reasons.is_empty() {
            reasons.push(format!("each task {}", self.reason_missed()));
        }
        Err(Failure::Refused(format!("nothing was changed: {}", reasons.join("; "))).into())
    }

    /// Returns why a task was left as it was although the change applies to its state.
    fn reason_missed(self) -> &'static str {
        match self {
            Self::Requeue => {
                "would be cancelled again because of what it waits for (taskqueue task explain ID), or changed meanwhile"
            }
            _ => "changed meanwhile",
        }
    }
}

/// The outcome for the selected tasks to which a change applies.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ChangeOutcome {
    pub(super) changed: u64,
    /// Those that had the new values already.
    pub(super) equal: u64,
    /// Those that the server left as they are.
    pub(super) missed: u64,
}

/// Returns `3 are running` or `1 succeeded`.
pub(super) fn in_state(count: u64, status: Status) -> String {
    let verb = match (status, count) {
        (Status::Failed | Status::Succeeded, _) => "",
        (_, 1) => "is ",
        _ => "are ",
    };
    format!("{count} {verb}{}", status.as_str())
}

pub(super) async fn run(context: &ClientContext, args: &UpdateArgs) -> Result<(), CommandError> {
    let after = named_tasks::awaited(context, &args.change.scheduling.new).await?;
    let update = json_args::update(&args.change, after, output::now())?;
    // An update as the contract has it needs no second request.
    if update.uses_extensions() {
        context.client.require_extensions().await?;
    }
    let ids = named_tasks::ids(context, &args.ids).await?;
    match ids.as_slice() {
        [] if args.dry_run => dry_run::preview_selection(context, args.selection().selection(), &update).await,
        [] => {
            let selection = args.selection();
            // What this program cannot read, or what becomes too long, is for the server to judge.
            let filter = selection.as_filter().unwrap_or_else(|| selection.as_typed());
            update_selected(context, Change::Update, &selection, filter, args.confirm, update).await
        }
        ids if args.dry_run => dry_run::preview_ids(context, ids, &update).await,
        ids => update_ids(context, ids, &update).await,
    }
}

/// Puts tasks into the archive, or takes them out. Named tasks are changed one by one, selected ones together; a fuzzy search, which no
/// filter says, is walked through.
pub(super) async fn archive(context: &ClientContext, args: &TargetArgs, change: Change) -> Result<(), CommandError> {
    context.client.require_extensions().await?;
    let (is_archived, mut target) = (change == Change::Archive, args.clone());
    target.selection.include_archived |= !is_archived;
    // Those that are as they are to be already are no part of it.
    if let Some(narrowed) = target.selection.narrowed(&format!("archived == {}", !is_archived)) {
        target.selection = narrowed;
    }
    let update = Update { archived: Some(is_archived), ..Update::default() };
    let filter =
        target.selection.narrowed(&change.applies_to().filter_text()).and_then(|narrowed| narrowed.as_filter());
    let Some(filter) = filter.filter(|_| target.ids.is_empty()) else {
        return actions::run(context, Action::new(change, Some(update)), &target).await;
    };
    update_selected(context, change, &target.selection, filter, target.confirm, update).await
}

/// Updates the selected tasks to which the change applies: all of them or none. The command fails if that leaves nothing to do. `filter`
/// says which tasks they are, which is all that a bulk update takes.
async fn update_selected(
    context: &ClientContext,
    change: Change,
    args: &SelectionArgs,
    filter: String,
    confirm: ConfirmArgs,
    changes: Update,
) -> Result<(), CommandError> {
    let counts = change.count(context, args.selection(), confirm).await?;
    let applicable = counts.among(change.applies_to());
    let mut updated = Updated { matched: 0, updated: 0 };
    if applicable > 0 {
        let request = BulkUpdateRequest { filter: filter.into(), changes, include_archived: args.include_archived };
        updated = context.client.update_tasks(&context.queue, &request).await?;
    }
    let (changed, equal) = (updated.updated, updated.matched.saturating_sub(updated.updated));
    let (done, left_out) = (change.words().done, counts.total() - applicable);
    let summary = match change {
        Change::Update => Summary::of([(done, changed), ("unchanged", equal), ("running_left_out", left_out)]),
        _ => Summary::of([(done, changed), ("skipped", left_out + equal), ("refused", 0)]),
    };
    context.printer.done(&summary, &summary.sentence())?;
    change.conclude(&counts, ChangeOutcome { changed, equal, missed: 0 })
}

async fn update_ids(context: &ClientContext, ids: &[TaskId], update: &Update) -> Result<(), CommandError> {
    if let [id] = ids {
        let task = context.client.update_task(&context.queue, *id, update).await?;
        return Ok(context.printer.done(&task, &format!("{id} updated"))?);
    }
    let (mut updated, mut refused) = (0, 0);
    let summary = |updated, refused| Summary::of([("updated", updated), ("refused", refused)]);
    for id in ids {
        match context.client.update_task(&context.queue, *id, update).await {
            Ok(_) => updated += 1,
            Err(error) => match explain(context, error, None).await {
                unreachable @ Failure::Unreachable(_) => {
                    output::note(&format!("{} so far", summary(updated, refused).sentence()));
                    return Err(unreachable.into());
                }
                failure => {
                    refused += 1;
                    output::warning(&format!("{id}: {}", failure.message().unwrap_or_default()));
                }
            },
        }
    }
    let summary = summary(updated, refused);
    context.printer.done(&summary, &summary.sentence())?;
    if refused == 0 { Ok(()) } else { Err(Failure::Unfinished.into()) }
}

/// A request that took as long as this may have ended because of its time.
const LONG: Duration = Duration::from_secs(20);
/// How often a later request is sent again because fewer tasks match than are left. Then somebody is asked again.
const MISCOUNTS: u32 = 10;

/// The outcome for the tasks.
#[derive(Debug, Default)]
pub(super) struct BulkOutcome {
    pub(super) changed: u64,
    /// Matching tasks that others were faster with.
    pub(super) missed: u64,
    /// The error that kept the rest from being tried. [`ErrorCode::ExpectationFailed`] means that another number matches than was agreed to.
    pub(super) error: Option<Error>,
}

/// Returns the selection as one filter, which is short enough also as a later request has it.
pub(super) fn bulk_filter(args: &SelectionArgs) -> Option<String> {
    let later = |filter: &String| unchanged_since(filter, Timestamp::from_micros(0));
    args.as_filter().filter(|filter| TaskFilter::parse(&later(filter)).is_ok())
}

/// Acts on all tasks that match; with `agreed` only if they are so many.
pub(super) async fn act_in_bulk(
    context: &ClientContext,
    action: BulkAction,
    filter: &str,
    include_archived: bool,
    agreed: Option<u64>,
    bar: &Progress,
) -> BulkOutcome {
    let later = match later_filter(context, action, filter, include_archived).await {
        Ok(later) => later,
        Err(error) => return BulkOutcome { error: Some(error), ..BulkOutcome::default() },
    };
    let send = async |request: BulkActionRequest| {
        let (begun, request) = (Instant::now(), BulkActionRequest { include_archived, ..request });
        Ok((context.client.act_on_tasks(&context.queue, action, &request).await?, begun.elapsed()))
    };
    repeat(send, filter, later.as_deref(), agreed, |changed| bar.set_position(changed)).await
}

/// Returns the filter of every request after the first one, if there may be another. A task that was requeued may have failed again
/// by then: it must not be requeued twice, or this might never end. So only tasks are left that have not changed since.
async fn later_filter(
    context: &ClientContext,
    action: BulkAction,
    filter: &str,
    include_archived: bool,
) -> Result<Option<String>, Error> {
    if action != BulkAction::Requeue {
        return Ok(Some(filter.to_owned()));
    }
    // By the times of the tasks: the clock here, or of a server before a database, may be another one.
    let selection = TaskSelection::all().filter(filter).include_archived(include_archived);
    let query = TaskQuery::of(selection).descending_by(OrderField::UpdatedAt).limit(1);
    let newest = context.client.walk(&context.queue, query).next().await?;
    Ok(newest.map(|task| unchanged_since(filter, task.updated_at)))
}

fn unchanged_since(filter: &str, time: Timestamp) -> String {
    format!("({filter}) and updated_at <= \"{time}\"")
}

/// Sends requests until one ends before its time is over. Together they change no more tasks than were agreed to.
async fn repeat(
    mut send: impl AsyncFnMut(BulkActionRequest) -> Result<(Acted, Duration), Error>,
    first: &str,
    later: Option<&str>,
    agreed: Option<u64>,
    changed_so_far: impl Fn(u64),
) -> BulkOutcome {
    let (mut done, mut filter, mut expect, mut miscounts) = (BulkOutcome::default(), first, agreed, 0);
    loop {
        let request = BulkActionRequest { filter: filter.into(), expect, dry_run: false, include_archived: false };
        let (Acted { matched, changed }, took) = match send(request).await {
            Ok(acted) => acted,
            Err(error) => {
                // Some have ended by themselves since the request before. The others are still what was agreed to.
                let left = agreed.filter(|_| done.changed > 0).map(|agreed| agreed.saturating_sub(done.changed));
                let now = is_other_number(&error).then(|| detail_number(&error, "matched")).flatten();
                let fewer = now.filter(|now| left.is_some_and(|left| *now <= left));
                if fewer.is_none() || miscounts == MISCOUNTS {
                    return BulkOutcome { error: Some(error), ..done };
                }
                (expect, miscounts) = (fewer, miscounts + 1);
                continue;
            }
        };
        done.changed += changed;
        changed_so_far(done.changed);
        let rest = matched.saturating_sub(changed);
        let is_over = rest == 0 || changed == 0 || took < LONG;
        let Some(later) = later.filter(|_| !is_over) else {
            let missed = agreed.map_or(rest, |agreed| agreed.saturating_sub(done.changed));
            return BulkOutcome { missed, ..done };
        };
        (filter, expect) = (later, expect.map(|_| rest));
    }
}

/// Returns whether a bulk action was refused because another number of tasks matches.
pub(super) fn is_other_number(error: &Error) -> bool {
    error.code() == Some(ErrorCode::ExpectationFailed)
}

#[cfg(test)]
mod tests {
    use taskqueue_client::{Code, JsonObject, Status};

    use super::*;

    #[test]
    fn every_state_is_either_changed_or_has_a_reason() {
        let one_each = StatusCounts([1; 5]);
        let cases = [
            (Change::Cancel, "1 succeeded, 1 failed: what has ended cannot be cancelled; 1 is cancelled: ", 2),
            (Change::Requeue, "1 is running: wait for the end", 2),
            (Change::Delete, "1 is running: wait for the end", 4),
            (Change::Update, "1 is running: wait for the end", 4),
            (Change::Rerun, "1 is pending: not run yet", 3),
            (Change::Archive, "1 is pending: only what has ended", 3),
            (Change::Unarchive, "1 is running: wait for the end", 3),
        ];
        for (change, expected, applicable) in cases {
            let reasons = change.reasons(&one_each).join("; ");
            assert!(reasons.contains(expected), "{change:?}: {reasons}");
            assert_eq!(one_each.among(change.applies_to()), applicable, "{change:?}");
            assert_eq!(reasons.matches("1 ").count() as u64, 5 - applicable, "{change:?}: {reasons}");
        }
        let many = StatusCounts([0, 3, 0, 0, 0]);
        assert!(Change::Delete.reasons(&many)[0].starts_with("3 are running: "));
    }

    fn args(status: Option<Status>, name: Option<&str>, filter: Option<&str>) -> SelectionArgs {
        let mut args = SelectionArgs { status, ..SelectionArgs::default() };
        (args.conditions.name, args.conditions.filter) = (name.map(str::to_owned), filter.map(str::to_owned));
        args
    }

    #[test]
    fn a_selection_becomes_one_filter() {
        let cases = [
            (args(Some(Status::Failed), None, None), Some(r#"status == "failed""#)),
            (args(None, Some("a\"b\\"), None), Some(r#"name == "a\"b\\""#)),
            (args(None, None, Some("args.a == 1 or args.b == 2")), Some("args.a == 1 or args.b == 2")),
            (
                args(Some(Status::Pending), Some("n"), Some("args.a == 1 or args.b == 2")),
                Some(r#"(args.a == 1 or args.b == 2) and status == "pending" and name == "n""#),
            ),
            (args(Some(Status::Pending), None, Some("priority == 1) or (priority == 2")), None),
            (args(None, None, Some("(")), None),
            (args(None, None, None), None),
        ];
        for (args, filter) in cases {
            assert_eq!(super::bulk_filter(&args).as_deref(), filter);
        }
        let mut fuzzy = args(Some(Status::Pending), None, None);
        fuzzy.conditions.fuzzy = Some("n".to_owned());
        assert_eq!(bulk_filter(&fuzzy), None);
    }

    const SHORT: Duration = Duration::from_secs(1);

    fn acted(matched: u64, changed: u64, took: Duration) -> Result<(Acted, Duration), Error> {
        Ok((Acted { matched, changed }, took))
    }

    fn refused(matched: u64) -> Result<(Acted, Duration), Error> {
        let (code, message) = (Code::Known(ErrorCode::ExpectationFailed), String::new());
        let details = JsonObject::from_canonical(&format!("{{\"matched\":{matched}}}"));
        Err(Error::Api { status: 409, code, message, details, retry_after: None })
    }

    /// Repeats until the answers are used up; gives what was done, and the filter and the expectation of each request.
    async fn repeated(
        later: Option<&str>,
        agreed: Option<u64>,
        answers: impl IntoIterator<Item = Result<(Acted, Duration), Error>>,
    ) -> (BulkOutcome, Vec<(String, Option<u64>)>) {
        let (mut answers, mut requests) = (answers.into_iter(), Vec::new());
        let send = async |request: BulkActionRequest| {
            requests.push((request.filter.to_string(), request.expect));
            answers.next().unwrap()
        };
        let done = repeat(send, "first", later, agreed, |_| {}).await;
        assert!(answers.next().is_none(), "{requests:?}");
        (done, requests)
    }

    fn requests(expected: &[(&str, Option<u64>)]) -> Vec<(String, Option<u64>)> {
        expected.iter().map(|(filter, expect)| ((*filter).to_owned(), *expect)).collect()
    }

    #[tokio::test]
    async fn only_the_first_request_has_a_filter_that_tasks_meet_again() {
        let answers = [acted(9, 4, LONG), acted(5, 3, LONG), acted(2, 1, SHORT)];
        let (done, sent) = repeated(Some("later"), None, answers).await;
        assert_eq!((done.changed, done.missed, done.error.is_none()), (8, 1, true));
        assert_eq!(sent, requests(&[("first", None), ("later", None), ("later", None)]));
        // Nothing matched before the first request, so there is nothing to go on with.
        let (done, _) = repeated(None, None, [acted(9, 4, LONG)]).await;
        assert_eq!((done.changed, done.missed), (4, 5));
    }

    #[tokio::test]
    async fn a_task_that_ends_by_itself_between_two_requests_does_not_stop_them() {
        let answers = [acted(9, 4, LONG), refused(4), refused(3), acted(3, 3, SHORT)];
        let (done, sent) = repeated(Some("later"), Some(9), answers).await;
        assert_eq!((done.changed, done.missed, done.error.is_none()), (7, 2, true));
        assert_eq!(sent, requests(&[("first", Some(9)), ("later", Some(5)), ("later", Some(4)), ("later", Some(3))]));
    }

    #[tokio::test]
    async fn no_more_tasks_are_changed_than_were_agreed_to() {
        let (done, sent) = repeated(Some("later"), Some(9), [refused(8)]).await;
        assert!(is_other_number(&done.error.unwrap()));
        assert_eq!(sent, requests(&[("first", Some(9))]));
        let (done, _) = repeated(Some("later"), Some(9), [acted(9, 4, LONG), refused(6)]).await;
        assert_eq!(done.changed, 4);
        assert!(is_other_number(&done.error.unwrap()));
        let changing = std::iter::repeat_with(|| refused(4)).take(1 + MISCOUNTS as usize);
        let (done, _) = repeated(Some("later"), Some(9), [acted(9, 4, LONG)].into_iter().chain(changing)).await;
        assert!(is_other_number(&done.error.unwrap()));
    }

    #[test]
    fn a_later_request_leaves_alone_what_has_changed_since() {
        let filter = unchanged_since("priority == 1 or priority == 2", Timestamp::from_micros(1));
        assert_eq!(filter, "(priority == 1 or priority == 2) and updated_at <= \"1970-01-01T00:00:00.000001Z\"");
        TaskFilter::parse(&filter).unwrap();
    }
}
