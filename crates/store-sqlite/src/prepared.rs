//! The statements that a transaction uses. Taking one from the cache of the connection and giving it back costs about as much as
//! a small statement itself, so a transaction takes each once, however many commands it executes.

use std::cell::RefCell;

use rusqlite::{CachedStatement, Connection};

pub(crate) struct Prepared<'a> {
    connection: &'a Connection,
    /// A transaction uses few: comparing their texts, most of which differ in length, is faster than hashing one.
    statements: RefCell<Vec<(&'static str, CachedStatement<'a>)>>,
}

impl<'a> Prepared<'a> {
    pub(crate) fn new(connection: &'a Connection) -> Self {
        Self { connection, statements: RefCell::default() }
    }

    /// Works with the statement of this text. The work must not use another one.
    pub(crate) fn with<T>(
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
}
