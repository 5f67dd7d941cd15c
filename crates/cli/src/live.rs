//! Live views: full-screen displays that refresh until the user leaves. This module has what all of them share: the
//! terminal, keys, the refresh schedule, tables. What a view requests and draws is in the module of its command.

mod connection_state;
mod controls;
mod event_loop;
mod keys;
mod schedule;
mod screen;
mod table;
#[cfg(test)]
pub(crate) mod testing;
mod theme;
mod widgets;

#[cfg(test)]
pub(crate) use self::connection_state::{ConnectionState, FetchError};
pub(crate) use self::controls::Controls;
pub(crate) use self::event_loop::{DrawContext, View, is_refusal, run};
pub(crate) use self::keys::Key;
pub(crate) use self::schedule::RefreshSchedule;
pub(crate) use self::screen::require_terminal;
pub(crate) use self::table::{Table, first_visible_row};
pub(crate) use self::theme::Theme;
pub(crate) use self::widgets::{clock, error_line, footer, help};
