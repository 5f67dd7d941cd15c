//! The places of the items of a batch in its answer: those that went to the store, and those that were refused before.

use taskqueue_api::batch::ItemsWriter;
use taskqueue_store::StoreError;

use crate::error::ApiError;

/// What an item takes of the answer at most, the task of a claim aside: the ids, and the longest refusal of the store, which
/// names a queue of 128 characters twice.
const MOST_ITEM_BYTES: usize = 640;
/// The same as a rule.
const ITEM_BYTES: usize = 80;

/// One place for each item of a request; `I` is what an item is known by.
pub(crate) struct Places<I> {
    places: Vec<Place<I>>,
    refused_bytes: usize,
}

enum Place<I> {
    /// The store decides.
    Sent(I),
    /// The item of the answer.
    Refused(Vec<u8>),
}

impl<I> Places<I> {
    /// No place yet, with room for so many.
    pub(crate) fn of(count: usize) -> Self {
        Self { places: Vec::with_capacity(count), refused_bytes: 0 }
    }

    /// Adds the place of an item that goes to the store.
    pub(crate) fn send(&mut self, item: I) {
        self.places.push(Place::Sent(item));
    }

    /// Adds the place of an item that is refused.
    pub(crate) fn refuse(&mut self, error: ApiError, ids: &[(&str, &str)]) {
        let item = error.into_item(ids);
        self.refused_bytes += item.len() + 1;
        self.places.push(Place::Refused(item));
    }

    pub(crate) fn has_refused(&self) -> bool {
        self.refused_bytes > 0
    }

    /// What the places take in memory.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.places.len() * size_of::<Place<I>>() + self.refused_bytes
    }

    /// The bytes of the answer at most, whatever the store decides; tasks aside.
    pub(crate) fn most_bytes(&self) -> usize {
        self.places.len() * MOST_ITEM_BYTES + self.refused_bytes
    }

    /// The answer to the batch, with what the store decided about the items that it got, in their order.
    pub(crate) fn answer<A>(
        self,
        decided: Vec<A>,
        write: impl FnMut(&mut ItemsWriter, I, A),
    ) -> Result<Vec<u8>, ApiError> {
        self.answer_with(0, decided, write)
    }

    /// The same for an answer with tasks of so many bytes.
    pub(crate) fn answer_with<A>(
        self,
        task_bytes: usize,
        decided: Vec<A>,
        mut write: impl FnMut(&mut ItemsWriter, I, A),
    ) -> Result<Vec<u8>, ApiError> {
        let bytes = self.places.len() * ITEM_BYTES + self.refused_bytes + task_bytes;
        let (mut out, mut decided) = (ItemsWriter::with_capacity(bytes), decided.into_iter());
        for place in self.places {
            match place {
                Place::Sent(item) => {
                    let decided = decided.next().ok_or(StoreError::Broken("the store left an item undecided"))?;
                    write(&mut out, item, decided);
                }
                Place::Refused(item) => out.written(&item),
            }
        }
        Ok(out.end())
    }
}
