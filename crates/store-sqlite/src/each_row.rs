//! Going through the rows of a statement, the one loop that readers, the writer and the claim index share.

use std::ops::ControlFlow;

use rusqlite::{Connection, Params, Row};

/// Whether rows go on to be read.
pub(crate) type Go = ControlFlow<()>;
pub(crate) const GO_ON: Go = Go::Continue(());

/// Hands every row to `read`, until it breaks off or fails. The statement is kept prepared.
pub(crate) fn each_row(
    connection: &Connection,
    statement: &str,
    params: impl Params,
    mut read: impl FnMut(&Row<'_>) -> rusqlite::Result<Go>,
) -> rusqlite::Result<()> {
    let mut statement = connection.prepare_cached(statement)?;
    let mut rows = statement.query(params)?;
    while let Some(row) = rows.next()? {
        if read(row)?.is_break() {
            break;
        }
    }
    Ok(())
}
