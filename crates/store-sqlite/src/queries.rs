//! Statements on a connection: executed, or read row by row. They stay prepared.

use std::cell::RefCell;
use std::ops::ControlFlow;

use rusqlite::{CachedStatement, Connection, OptionalExtension, Params, Row};
use taskqueue_store::transaction::Loaded;

use crate::failure::Doing;

pub(crate) type NextRow = ControlFlow<()>;
pub(crate) const CONTINUE: NextRow = NextRow::Continue(());

/// Passes every row to `read`, until it breaks or fails.
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

/// Returns what `read` makes of every row.
pub(crate) fn all_rows<T>(
    connection: &Connection,
    statement: &str,
    params: impl Params,
    read: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
) -> rusqlite::Result<Vec<T>> {
    connection.prepare_cached(statement)?.query_map(params, read)?.collect()
}

/// Returns what `read` makes of the first row.
pub(crate) fn first_row<T>(
    connection: &Connection,
    statement: &str,
    params: impl Params,
    read: impl FnOnce(&Row<'_>) -> rusqlite::Result<T>,
) -> rusqlite::Result<Option<T>> {
    connection.prepare_cached(statement)?.query_row(params, read).optional()
}

/// Executes a statement that returns no rows, and returns how many rows it changed.
pub(crate) fn execute(connection: &Connection, statement: &str, params: impl Params) -> rusqlite::Result<usize> {
    connection.prepare_cached(statement)?.execute(params)
}

/// The statements that a transaction uses. Taking one from the cache of the connection and giving it back costs about as much as
/// a small statement itself, so a transaction takes each once, however many commands it executes.
pub(crate) struct Prepared<'a> {
    pub(crate) connection: &'a Connection,
    /// A transaction uses few: comparing their texts, most of which differ in length, is faster than hashing one.
    statements: RefCell<Vec<(&'static str, CachedStatement<'a>)>>,
}

impl<'a> Prepared<'a> {
    pub(crate) fn new(connection: &'a Connection) -> Self {
        Self { connection, statements: RefCell::default() }
    }

    /// Works with the statement of this text. The work must not use another one.
    fn with<T>(
        &self,
        text: &'static str,
        work: impl FnOnce(&mut CachedStatement<'a>) -> rusqlite::Result<T>,
    ) -> rusqlite::Result<T> {
        let mut statements = self.statements.borrow_mut();
        let place = match statements.iter().position(|(known, _)| *known == text) {
            Some(place) => place,
            None => {
                statements.push((text, self.connection.prepare_cached(text)?));
                statements.len() - 1
            }
        };
        work(&mut statements[place].1)
    }

    /// Executes a statement that returns no rows, and returns how many rows it changed.
    pub(crate) fn run(&self, statement: &'static str, params: impl Params, doing: &'static str) -> Loaded<usize> {
        self.with(statement, |s| s.execute(params)).doing(doing)
    }

    /// Returns what `read` makes of the first row.
    pub(crate) fn one<T>(
        &self,
        statement: &'static str,
        params: impl Params,
        doing: &'static str,
        read: impl FnOnce(&Row<'_>) -> rusqlite::Result<T>,
    ) -> Loaded<Option<T>> {
        self.with(statement, |s| s.query_row(params, read).optional()).doing(doing)
    }

    /// Returns what `read` makes of every row.
    pub(crate) fn all<T>(
        &self,
        statement: &'static str,
        params: impl Params,
        doing: &'static str,
        read: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
    ) -> Loaded<Vec<T>> {
        self.with(statement, |s| s.query_map(params, read)?.collect()).doing(doing)
    }
}
