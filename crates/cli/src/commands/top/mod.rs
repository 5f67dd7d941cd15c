//! `taskqueue top`: the requests are in `fetch.rs`, their result in `snapshot.rs` and `rates.rs`, the output of a task in
//! `output_reader.rs`, the selection in `view.rs`, the drawing in `draw/`.

mod draw;
mod fetch;
mod output_reader;
mod rates;
mod snapshot;
mod view;

use std::sync::Arc;

use tokio::sync::Mutex;

use self::output_reader::OutputReader;
use self::view::TopView;
use super::client_runtime;
use crate::args::{Format, OutputArgs, QueueArg, TopArgs};
use crate::client_context::{ClientContext, Retrying};
use crate::failure::Failure;
use crate::live;

pub(crate) fn run(args: &TopArgs) -> Result<(), Failure> {
    live::require_terminal("taskqueue top", "taskqueue task count --group-by status --output json")?;
    let output = OutputArgs { output: Format::Table };
    let context = ClientContext::open(&args.connection, &QueueArg::default(), output, Retrying::Never)?;
    client_runtime::run(&context, None, async |context| {
        let view = TopView::new(context.url.clone(), context.queue.clone());
        // At most one refresh runs at a time, so this is never waited for.
        let reader = Arc::new(Mutex::new(OutputReader::default()));
        live::run(view, args.interval, |query| {
            fetch::snapshot(context.client.clone(), args.queues.clone(), query, Arc::clone(&reader))
        })
        .await
    })
}
