//! The tasks of a queue: the list with its filter, columns, order and pages, what can be done with many tasks at once, and the
//! download of everything that matches.

mod actions;
mod commands;
mod completion;
mod confirm;
mod default_columns;
mod download;
mod list;
mod menus;
mod rows;
mod view;

pub(crate) use self::actions::act;
pub(crate) use self::completion::{check, fields};
pub(crate) use self::confirm::confirm;
pub(crate) use self::download::download;
pub(crate) use self::list::list;
