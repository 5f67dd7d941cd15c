//! Writes the body of a batch item by item, within its limits, and the schemas of items, which are those of single requests
//! with some fields more.

use std::borrow::Cow;
use std::marker::PhantomData;

use taskqueue_core::json::ObjectWriter;
use taskqueue_core::limits::{BATCH_BODY_BYTES, BATCH_ITEMS};
use utoipa::ToSchema;
use utoipa::openapi::schema::Schema;
use utoipa::openapi::{ObjectBuilder, Ref, RefOr, Type};

use crate::schema;

type Object<'o> = ObjectWriter<&'o mut Vec<u8>>;

/// The body of a batch that is being written.
#[derive(Clone, Debug)]
pub struct BatchWriter<B> {
    out: Vec<u8>,
    items: usize,
    of: PhantomData<fn() -> B>,
}

impl<B> BatchWriter<B> {
    const END: &'static [u8] = b"]}";

    pub(super) fn begin(list: &str) -> Self {
        Self { out: format!("{{\"{list}\":[").into_bytes(), items: 0, of: PhantomData }
    }

    /// How many items it has.
    pub fn items(&self) -> usize {
        self.items
    }

    /// The bytes of the body so far.
    pub fn bytes(&self) -> usize {
        self.out.len() + Self::END.len()
    }

    pub(super) fn push(&mut self, write: impl for<'o> FnOnce(Object<'o>) -> Object<'o>) -> bool {
        if self.items == BATCH_ITEMS {
            return false;
        }
        let before = self.out.len();
        if self.items > 0 {
            self.out.push(b',');
        }
        write(ObjectWriter::append_to(&mut self.out)).end();
        let fits = self.bytes() <= BATCH_BODY_BYTES;
        if fits {
            self.items += 1;
        } else {
            self.out.truncate(before);
        }
        fits
    }

    /// The body. A server accepts it if it has items.
    pub fn end(mut self) -> Vec<u8> {
        self.out.extend_from_slice(Self::END);
        self.out
    }
}

/// The schema of the body of a single request, with ids before its fields.
pub(super) fn with_ids<const N: usize>(
    single: RefOr<Schema>,
    description: &str,
    ids: [(&str, Cow<'static, str>); N],
) -> RefOr<Schema> {
    let ids = ids.map(|(name, schema)| (name, RefOr::Ref(Ref::from_schema_name(schema))));
    with_fields(single, description, ids)
}

/// The schema of the body of a single request, with the task and the action of an item.
pub(super) fn with_action(single: RefOr<Schema>, description: &str, actions: &[&str]) -> RefOr<Schema> {
    let task_id = RefOr::Ref(Ref::from_schema_name(schema::TaskId::name()));
    let action = ObjectBuilder::new().schema_type(Type::String).enum_values(Some(actions.iter().copied()));
    with_fields(single, description, [("task_id", task_id), ("action", action.into())])
}

fn with_fields<const N: usize>(
    single: RefOr<Schema>,
    description: &str,
    fields: [(&str, RefOr<Schema>); N],
) -> RefOr<Schema> {
    let RefOr::T(Schema::Object(mut object)) = single else { return single };
    object.description = Some(description.to_owned());
    for (name, schema) in fields {
        object.required.push(name.to_owned());
        object.properties.insert(name.to_owned(), schema);
    }
    RefOr::T(Schema::Object(object))
}
