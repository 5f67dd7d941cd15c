//! How each kind of result looks: one file for each subject.

mod changes;
mod server;
mod task;

pub(crate) use self::changes::*;
pub(crate) use self::server::*;
pub(crate) use self::task::*;
