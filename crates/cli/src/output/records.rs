//! How each kind of result looks: one file for each subject.

mod backup;
mod changes;
mod queue;
mod server;
mod task;

pub(crate) use self::backup::*;
pub(crate) use self::changes::*;
pub(crate) use self::queue::*;
pub(crate) use self::server::*;
pub(crate) use self::task::*;
