//! Cancelling, requeueing and deleting selected tasks by the server's bulk actions: one request for all of them, repeated while
//! the server says that its time was over. For servers without them, and for selections that no filter says, there are
//! single requests (`actions.rs`).

use std::time::{Duration, Instant};

use taskqueue_client::{Acted, BulkActionRequest, Error, ErrorCode, capabilities};
use taskqueue_core::bulk_action::BulkAction;
use taskqueue_core::filter::TaskFilter;
use taskqueue_core::json::write_string;

use crate::args::SelectionArgs;
use crate::client_context::ClientContext;
use crate::progress::Progress;

/// A request that took as long as this may have ended because of its time.
const LONG: Duration = Duration::from_secs(20);

/// What became of the tasks.
#[derive(Debug, Default)]
pub(super) struct Done {
    pub(super) changed: u64,
    /// Matching tasks that others were faster with.
    pub(super) missed: u64,
    /// Why the rest was not tried. [`ErrorCode::ExpectationFailed`] means that another number matches than was agreed to.
    pub(super) error: Option<Error>,
}

/// The filter for a bulk action, if the selection can be said by one and the server has bulk actions.
pub(super) async fn filter(context: &ClientContext, args: &SelectionArgs) -> Result<Option<String>, Error> {
    let Some(filter) = as_filter(args) else { return Ok(None) };
    Ok(context.client.capabilities().await?.has(capabilities::BULK_ACTIONS).then_some(filter))
}

/// Nothing for a fuzzy search, and for a filter that is too long.
fn as_filter(args: &SelectionArgs) -> Option<String> {
    let conditions = &args.conditions;
    if conditions.fuzzy.is_some() {
        return None;
    }
    let status = args.status.map(|status| format!("status == \"{}\"", status.as_str()));
    let name = conditions.name.as_ref().map(|name| {
        let mut text = b"name == ".to_vec();
        write_string(&mut text, name);
        String::from_utf8_lossy(&text).into_owned()
    });
    let parts: Vec<String> = [status, name].into_iter().flatten().collect();
    let filter = match (&conditions.filter, parts.is_empty()) {
        (Some(filter), true) => filter.clone(),
        (Some(filter), false) => format!("{} and ({filter})", parts.join(" and ")),
        (None, true) => return None,
        (None, false) => parts.join(" and "),
    };
    // Alone, a wrong filter is explained by the server; it must not become another one here.
    let is_whole =
        conditions.filter.as_ref().is_none_or(|filter| parts.is_empty() || TaskFilter::parse(filter).is_ok());
    (is_whole && TaskFilter::parse(&filter).is_ok()).then_some(filter)
}

/// Acts on all tasks that match; with `expect` only if they are so many.
pub(super) async fn act(
    context: &ClientContext,
    action: BulkAction,
    filter: &str,
    mut expect: Option<u64>,
    bar: &Progress,
) -> Done {
    let mut done = Done::default();
    loop {
        let (request, begun) = (BulkActionRequest { filter: filter.into(), expect, dry_run: false }, Instant::now());
        let Acted { matched, changed } = match context.client.act_on_tasks(&context.queue, action, &request).await {
            Ok(acted) => acted,
            Err(error) => return Done { error: Some(error), ..done },
        };
        done.changed += changed;
        bar.set_position(done.changed);
        let rest = matched.saturating_sub(changed);
        if rest == 0 || changed == 0 || begun.elapsed() < LONG {
            return Done { missed: rest, ..done };
        }
        expect = expect.map(|_| rest);
    }
}

/// How many tasks match, if that is why a bulk action was refused.
pub(super) fn is_other_number(error: &Error) -> bool {
    error.code() == Some(ErrorCode::ExpectationFailed)
}

#[cfg(test)]
mod tests {
    use taskqueue_client::Status;

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
                Some(r#"status == "pending" and name == "n" and (args.a == 1 or args.b == 2)"#),
            ),
            (args(Some(Status::Pending), None, Some("priority == 1) or (priority == 2")), None),
            (args(None, None, Some("(")), None),
            (args(None, None, None), None),
        ];
        for (args, filter) in cases {
            assert_eq!(as_filter(&args).as_deref(), filter);
        }
        let mut fuzzy = args(Some(Status::Pending), None, None);
        fuzzy.conditions.fuzzy = Some("n".to_owned());
        assert_eq!(as_filter(&fuzzy), None);
    }
}
