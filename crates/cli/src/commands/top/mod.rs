//! `taskqueue top`: the requests are in `fetch.rs`, their result in `snapshot.rs` and `rates.rs`, the selection in `view.rs`,
//! the drawing in `draw/`.

mod draw;
mod fetch;
mod rates;
mod snapshot;
mod view;

use self::view::TopView;
use super::client_runtime;
use crate::args::{Format, OutputArgs, QueueArg, TopArgs};
use crate::failure::Failure;
use crate::live;
use crate::session::{Retrying, Session};

pub(crate) fn run(args: &TopArgs) -> Result<(), Failure> {
    live::require_terminal("taskqueue top", "taskqueue task count --group-by status --output json")?;
    let output = OutputArgs { output: Format::Table };
    let session = Session::open(&args.connection, &QueueArg::default(), output, Retrying::Never)?;
    client_runtime::run(&session, None, async |session| {
        let view = TopView::new(session.url.clone(), session.queue.clone());
        live::run(view, args.interval, |query| fetch::snapshot(session.client.clone(), args.queues.clone(), query))
            .await
    })
}
