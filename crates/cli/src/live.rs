//! Live views: full-screen displays that refresh until the user leaves. This module has what all of them share: the
//! terminal, keys, the refresh schedule, tables. What a view requests and draws is in the module of its command.

mod controls;
mod event_loop;
mod schedule;
#[cfg(test)]
pub(crate) mod tests;
mod widgets;

pub(crate) use self::controls::{Controls, Key};
#[cfg(test)]
pub(crate) use self::event_loop::draw;
pub(crate) use self::event_loop::{View, is_refusal, require_terminal, run};
pub(crate) use self::schedule::RefreshSchedule;
#[cfg(test)]
pub(crate) use self::schedule::{ConnectionState, FetchError};
pub(crate) use self::widgets::{DrawContext, Table, Theme, clock, draw_edges};
