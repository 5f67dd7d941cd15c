//! One list of columns, used twice: as the text that a statement selects, and as the positions in the row that comes back.

/// Declares a list of columns, and for each a constant with its position in a row in which the list begins at `from`.
///
/// ```
/// mod rows {
///     taskqueue_store::columns! { COLUMNS from 0; ID = "tasks.id", STATUS = "tasks.status" }
///     pub fn positions() -> [usize; 2] {
///         [ID, STATUS]
///     }
/// }
/// assert_eq!(rows::COLUMNS.join(", "), "tasks.id, tasks.status");
/// assert_eq!(rows::positions(), [0, 1]);
/// ```
#[macro_export]
macro_rules! columns {
    ($list:ident from $first:expr; $($position:ident = $column:literal),+ $(,)?) => {
        pub(crate) const $list: &[&str] = &[$($column),+];
        $crate::columns!(@positions $first; $($position)+);
    };
    (@positions $next:expr; $position:ident $($rest:ident)*) => {
        pub(crate) const $position: usize = $next;
        $crate::columns!(@positions $position + 1; $($rest)*);
    };
    (@positions $next:expr;) => {};
}
