//! Live views: a screen that shows the state of a server until somebody leaves it. Here is what all of them share: the
//! terminal, keys, the pace of questions, tables. What a view asks for and shows is said beside its command.

mod contact;
mod controls;
mod keys;
mod lines;
mod rounds;
mod run;
mod screen;
mod table;
#[cfg(test)]
pub(crate) mod testing;
mod theme;

#[cfg(test)]
pub(crate) use self::contact::{Contact, Trouble};
pub(crate) use self::controls::Controls;
pub(crate) use self::keys::Key;
pub(crate) use self::lines::{clock, footer, help, seconds, trouble};
pub(crate) use self::rounds::Rounds;
pub(crate) use self::run::{Moment, View, is_refusal, run};
pub(crate) use self::screen::require_terminal;
pub(crate) use self::table::{Table, window};
pub(crate) use self::theme::Theme;
