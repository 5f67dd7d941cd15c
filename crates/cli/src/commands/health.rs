//! `taskqueue health`

use super::client_runtime;
use crate::args::{HealthArgs, QueueArg};
use crate::client_context::{ClientContext, Retrying};
use crate::failure::Failure;
use crate::output::HealthRecord;

pub(crate) fn run(args: &HealthArgs) -> Result<(), Failure> {
    let context = ClientContext::open(&args.connection, &QueueArg::default(), args.output, Retrying::Interactive)?;
    client_runtime::run(&context, None, async |context| {
        let health = context.client.health().await?;
        let is_ok = health.is_ok;
        context.printer.one(&HealthRecord { url: &context.url, health })?;
        if is_ok {
            return Ok(());
        }
        let message = "the server's database does not work; see the server's log";
        Err(Failure::Refused(message.to_owned()).into())
    })
}
