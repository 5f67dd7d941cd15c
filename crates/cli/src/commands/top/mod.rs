//! `taskqueue top`: one round of requests in `fetch.rs`, what is known in `snapshot.rs` and `rates.rs`, what people chose
//! in `view.rs`, how it looks in `draw/`.

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
use crate::session::{Patience, Session};

pub(crate) fn run(args: &TopArgs) -> Result<(), Failure> {
    live::require_terminal("taskqueue top", "taskqueue task count --group-by status --output json")?;
    let output = OutputArgs { output: Format::Table };
    let session = Session::open(&args.connection, &QueueArg::default(), output, Patience::None)?;
    client_runtime::run(&session, None, async |session| {
        let view = TopView::new(session.url.clone(), session.queue.clone());
        live::run(view, args.interval, |query| fetch::round(session.client.clone(), args.queues.clone(), query)).await
    })
}
