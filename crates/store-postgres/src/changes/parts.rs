//! Statements for several rows: those with large texts are divided into parts of bounded size, and keys alone are one statement.
//! Which rows these are is decided in `changes.rs`.

use tokio_postgres::types::ToSql;

use super::Write;
use crate::session::Sql;

/// Large texts are sent in parts of about this size. What the driver encodes has a buffer that grows by doubling, a copy of it is
/// what is written to the socket, and each connection keeps both: a batch of 16 MiB in one statement would cost four times
/// its size, and for as long as the connection lives.
const PART_BYTES: usize = 1_048_576;

/// The rows of a set with large texts, in parts that are statements of their own.
pub(super) struct Parts<S> {
    parts: Vec<S>,
    /// Of the last one.
    bytes: usize,
}

impl<S> Default for Parts<S> {
    fn default() -> Self {
        Self { parts: Vec::new(), bytes: 0 }
    }
}

impl<S: Default> Parts<S> {
    /// The part that a row with so many bytes belongs to.
    pub(super) fn for_row(&mut self, bytes: usize) -> &mut S {
        if self.parts.is_empty() || self.bytes + bytes > PART_BYTES {
            self.parts.push(S::default());
            self.bytes = 0;
        }
        self.bytes += bytes;
        let last = self.parts.len() - 1;
        &mut self.parts[last]
    }

    pub(super) fn writes<'a>(
        &'a self,
        write: impl Fn(&'a S) -> Option<Write<'a>>,
    ) -> impl Iterator<Item = Option<Write<'a>>> {
        self.parts.iter().map(write)
    }
}

/// A statement for the tasks with these keys, if there are any.
pub(super) fn write_keys<'a>(sql: &'static Sql, keys: &'a Vec<i64>) -> Option<Write<'a>> {
    let params: Vec<&(dyn ToSql + Sync)> = vec![keys];
    (!keys.is_empty()).then_some((sql, params))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_has_about_a_mebibyte_and_at_least_one_row() {
        let mut parts = Parts::<Vec<usize>>::default();
        for bytes in [10, PART_BYTES - 10, 1, PART_BYTES, 3 * PART_BYTES, 5, 5] {
            parts.for_row(bytes).push(bytes);
        }
        let expected = [vec![10, PART_BYTES - 10], vec![1], vec![PART_BYTES], vec![3 * PART_BYTES], vec![5, 5]];
        assert_eq!(parts.parts, expected);
        assert!(Parts::<Vec<usize>>::default().parts.is_empty());
    }
}
