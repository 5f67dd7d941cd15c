//! Going through the tasks of a database one by one, whatever the chunks in which they come.

use std::collections::VecDeque;

use super::{Source, TransferredTask};
use crate::StoreError;

/// Where somebody is.
#[derive(Default)]
pub(super) struct TaskStream {
    tasks: VecDeque<TransferredTask>,
    place: Option<i64>,
}

impl TaskStream {
    /// The next task, if there is one.
    pub(super) async fn next<S: Source + ?Sized>(
        &mut self,
        source: &mut S,
    ) -> Result<Option<TransferredTask>, StoreError> {
        if self.tasks.is_empty() {
            let chunk = source.tasks(self.place).await?;
            self.place = chunk.last_key.or(self.place);
            self.tasks = chunk.tasks.into();
        }
        Ok(self.tasks.pop_front())
    }
}
