//! The loop over the rows of a statement.

use std::ops::ControlFlow;

use rusqlite::{Connection, Params, Row};

pub(crate) type NextRow = ControlFlow<()>;
pub(crate) const CONTINUE: NextRow = NextRow::Continue(());

/// Passes every row to `read`, until it breaks or fails. The statement stays prepared.
pub(crate) fn each_row(
    connection: &Connection,
    statement: &str,
    params: impl Params,
    mut read: impl FnMut(&Row<'_>) -> rusqlite::Result<NextRow>,
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
