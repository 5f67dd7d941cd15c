//! Live views from outside: the real binary in a real terminal against a real server. The screens in detail are tested
//! next to the code that draws them.

mod logs;
mod questions;
mod serving;
pub(crate) mod terminal;
mod top;
mod waiting;
mod watch;
