//! The menus beside the filter: which columns, in which order.

use taskqueue_core::fields::menu_fields;
use taskqueue_core::selection::{OrderField, TaskOrder};

use super::view::View;
use crate::columns::{Column, Seen};

/// Paths that are offered; more can be written.
const MOST_OFFERED: usize = 200;

/// The choice of columns.
pub(super) struct ColumnsMenu {
    /// What the form must carry.
    pub(super) carried: Vec<(String, String)>,
    pub(super) entries: Vec<ColumnEntry>,
    /// Where the columns are those that suit the tasks; none if they are.
    pub(super) reset: Option<String>,
}

pub(super) struct ColumnEntry {
    pub(super) path: String,
    pub(super) is_chosen: bool,
    /// Of how many of the rows; none for fields of every task.
    pub(super) rows: Option<usize>,
}

impl ColumnsMenu {
    /// The shown columns in their order, then what else occurs in the rows, then what every task has.
    pub(super) fn new(view: &View, shown: &[Column], seen: &Seen) -> Self {
        let is_shown = |path: &str| shown.iter().any(|column| column.path() == path);
        let rows = |path: &str| Some(seen.tasks(path)).filter(|rows| *rows > 0);
        let entry = |path: &str, is_chosen| ColumnEntry { path: path.to_owned(), is_chosen, rows: rows(path) };
        let chosen = shown.iter().map(|column| entry(column.path(), true));
        let occurring = seen.paths().into_iter().filter(|path| !is_shown(path)).map(|path| entry(path, false));
        let fields = menu_fields()
            .into_iter()
            .map(|field| field.path)
            .filter(|path| !is_shown(path))
            .map(|path| entry(path, false));
        Self {
            carried: view.carried(&["column", "cursor"]),
            entries: chosen.chain(occurring.take(MOST_OFFERED)).chain(fields).collect(),
            reset: view.columns.is_some().then(|| view.without_columns_address()),
        }
    }
}

/// A field that the list can be ordered by.
pub(super) struct OrderEntry {
    pub(super) word: &'static str,
    pub(super) ascending: String,
    pub(super) descending: String,
    /// In the other direction than now, or in the usual one.
    pub(super) toggled: String,
    /// `ascending` or `descending`, if it is.
    pub(super) sorted: Option<&'static str>,
}

pub(super) fn order_entries(view: &View) -> Vec<OrderEntry> {
    OrderField::ALL.into_iter().map(|field| order_entry(view, field)).collect()
}

pub(super) fn order_entry(view: &View, field: OrderField) -> OrderEntry {
    let address = |descending| view.order_address(TaskOrder { field, descending });
    let is_current = view.order.field == field;
    let sorted = is_current.then_some(if view.order.descending { "descending" } else { "ascending" });
    let begins_descending = !matches!(field, OrderField::Name | OrderField::Id | OrderField::Status);
    let toggled = address(if is_current { !view.order.descending } else { begins_descending });
    OrderEntry { word: field.as_str(), ascending: address(false), descending: address(true), toggled, sorted }
}
