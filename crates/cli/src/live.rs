//! Live views: a screen that shows the state of a server until somebody leaves it. Here is what all of them share: the
//! terminal, keys, the pace of questions, tables. What a view asks for and shows is said beside its command.

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
pub(crate) use self::connection_state::{Contact, Trouble};
pub(crate) use self::controls::Controls;
pub(crate) use self::event_loop::{Moment, View, is_refusal, run};
pub(crate) use self::keys::Key;
pub(crate) use self::schedule::Rounds;
pub(crate) use self::screen::require_terminal;
pub(crate) use self::table::{Table, window};
pub(crate) use self::theme::Theme;
pub(crate) use self::widgets::{clock, footer, help, seconds, trouble};
