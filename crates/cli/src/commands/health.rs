//! `taskqueue health`

use super::client_runtime;
use crate::args::{HealthArgs, QueueArg};
use crate::failure::Failure;
use crate::output::HealthRecord;
use crate::session::{Retrying, Session};

pub(crate) fn run(args: &HealthArgs) -> Result<(), Failure> {
    let session = Session::open(&args.connection, &QueueArg::default(), args.output, Retrying::Interactive)?;
    client_runtime::run(&session, None, async |session| {
        let health = session.client.health().await?;
        let is_ok = health.is_ok;
        session.printer.one(&HealthRecord { url: &session.url, health })?;
        if is_ok {
            return Ok(());
        }
        let message = "the server's database does not work; see the server's log";
        Err(Failure::Refused(message.to_owned()).into())
    })
}
