//! Cancelling, requeueing and deleting selected tasks by the server's bulk actions: one request for all of them, repeated while
//! the server says that its time was over. For selections that no filter says there are single requests (`actions.rs`).

use std::time::{Duration, Instant};

use taskqueue_client::{Acted, BulkActionRequest, Error, ErrorCode, OrderField, TaskQuery, TaskSelection, Timestamp};
use taskqueue_core::bulk_action::BulkAction;
use taskqueue_core::filter::TaskFilter;

use crate::args::SelectionArgs;
use crate::client_context::ClientContext;
use crate::explain_error::detail_number;
use crate::progress::Progress;

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
pub(super) fn filter(args: &SelectionArgs) -> Option<String> {
    let later = |filter: &String| unchanged_since(filter, Timestamp::from_micros(0));
    args.as_filter().filter(|filter| TaskFilter::parse(&later(filter)).is_ok())
}

/// Acts on all tasks that match; with `agreed` only if they are so many.
pub(super) async fn act(
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
        let acted = context.client.act_on_tasks(&context.queue, action, &request).await?;
        Ok((acted, begun.elapsed()))
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
            assert_eq!(super::filter(&args).as_deref(), filter);
        }
        let mut fuzzy = args(Some(Status::Pending), None, None);
        fuzzy.conditions.fuzzy = Some("n".to_owned());
        assert_eq!(filter(&fuzzy), None);
    }

    const SHORT: Duration = Duration::from_secs(1);

    fn acted(matched: u64, changed: u64, took: Duration) -> Result<(Acted, Duration), Error> {
        Ok((Acted { matched, changed }, took))
    }

    fn refused(matched: u64) -> Result<(Acted, Duration), Error> {
        Err(Error::Api {
            status: 409,
            code: Code::Known(ErrorCode::ExpectationFailed),
            message: String::new(),
            details: JsonObject::from_canonical(&format!("{{\"matched\":{matched}}}")),
            retry_after: None,
        })
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
