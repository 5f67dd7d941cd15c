//! `taskqueue top`: the requests are in `fetch.rs`, their result in `snapshot.rs`, the selection in `view.rs`, the drawing in `draw/`.

mod draw;
mod fetch;
mod snapshot;
mod view;

use std::sync::Arc;

use tokio::sync::Mutex;

use self::fetch::Readers;
use self::view::TopView;
use crate::args::{OutputArgs, QueueArg, TopArgs};
use crate::client_context::{ClientContext, Retrying};
use crate::failure::Failure;
use crate::live;

pub(crate) fn run(args: &TopArgs) -> Result<(), Failure> {
    live::require_terminal("taskqueue top", "taskqueue task count --group-by status --output json")?;
    let output = OutputArgs::TABLE;
    let context = ClientContext::open(&args.connection, &QueueArg::default(), output, Retrying::Never)?;
    context.run(None, async |context| {
        let view = TopView::new(context.url.clone(), context.queue.clone());
        // At most one refresh runs at a time, so this is never waited for.
        let readers = Arc::new(Mutex::new(Readers::default()));
        live::run(view, args.interval, |query| {
            fetch::snapshot(context.client.clone(), args.queues.clone(), query, Arc::clone(&readers))
        })
        .await
    })
}
