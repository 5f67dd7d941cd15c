//! The tasks of a source one by one, independent of its chunks.

use std::collections::VecDeque;

use super::{Source, TransferredTask};
use crate::StoreError;

#[derive(Default)]
pub(super) struct TaskStream {
    tasks: VecDeque<TransferredTask>,
    last_key: Option<i64>,
}

impl TaskStream {
    pub(super) async fn next<S: Source + ?Sized>(
        &mut self,
        source: &mut S,
    ) -> Result<Option<TransferredTask>, StoreError> {
        if self.tasks.is_empty() {
            let chunk = source.tasks(self.last_key).await?;
            self.last_key = chunk.last_key.or(self.last_key);
            self.tasks = chunk.tasks.into();
        }
        Ok(self.tasks.pop_front())
    }
}
