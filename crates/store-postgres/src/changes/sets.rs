//! Sets of rows as the columns of set statements. Large texts are divided into parts of bounded size.

use tokio_postgres::types::ToSql;

use crate::session::Sql;

/// One statement and the values of its parameters.
pub(crate) type Write<'a> = (&'static Sql, Vec<&'a (dyn ToSql + Sync)>);

/// Rows that one statement writes.
pub(crate) trait RowSet {
    /// How many rows there are.
    fn count(&self) -> usize;

    /// The columns, in the order of the statement's parameters.
    fn columns(&self) -> Vec<&(dyn ToSql + Sync)>;

    /// The statement with these rows, if there are any.
    fn write(&self, sql: &'static Sql) -> Option<Write<'_>> {
        (self.count() > 0).then(|| (sql, self.columns()))
    }
}

/// Keys alone are the only column.
impl RowSet for Vec<i64> {
    fn count(&self) -> usize {
        self.len()
    }

    fn columns(&self) -> Vec<&(dyn ToSql + Sync)> {
        vec![self]
    }
}

/// Declares the parameters of set statements: a struct for one row, and one with a vector for each column. The columns have
/// the order of the statement's parameters.
macro_rules! sets {
    ($($set:ident of $row:ident $(<$life:lifetime>)? { $first:ident: $first_type:ty, $($column:ident: $type:ty,)* })*) => {$(
        struct $row $(<$life>)? {
            $first: $first_type,
            $($column: $type,)*
        }

        #[derive(Default)]
        struct $set $(<$life>)? {
            $first: Vec<$first_type>,
            $($column: Vec<$type>,)*
        }

        impl $(<$life>)? $set $(<$life>)? {
            fn push(&mut self, row: $row $(<$life>)?) {
                self.$first.push(row.$first);
                $(self.$column.push(row.$column);)*
            }
        }

        impl $(<$life>)? $crate::changes::RowSet for $set $(<$life>)? {
            fn count(&self) -> usize {
                self.$first.len()
            }

            fn columns(&self) -> Vec<&(dyn tokio_postgres::types::ToSql + Sync)> {
                vec![&self.$first, $(&self.$column),*]
            }
        }
    )*};
}
pub(crate) use sets;

/// Large texts are sent in parts of about this size. What the driver encodes has a buffer that grows by doubling, a copy of it is
/// what is written to the socket, and each connection keeps both: a batch of 16 MiB in one statement would cost four times
/// its size, and for as long as the connection lives.
const PART_BYTES: usize = 1_048_576;

/// The rows of a set with large texts, in parts that are statements of their own.
#[derive(Default)]
pub(super) struct Parts<S> {
    parts: Vec<S>,
    /// Of the last one.
    bytes: usize,
}

impl<S: RowSet> Parts<S> {
    /// One statement for each part.
    pub(super) fn writes(&self, sql: &'static Sql) -> impl Iterator<Item = Option<Write<'_>>> {
        self.parts.iter().map(move |part| part.write(sql))
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
