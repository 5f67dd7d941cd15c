//! Queues.

use taskqueue_core::ids::QueueName;
use taskqueue_core::json::{ObjectWriter, Value, write_array};
use utoipa::ToSchema;

use crate::object_reader::{ObjectReader, Unreadable};
use crate::schema;

/// A queue.
#[derive(Clone, Debug, PartialEq, Eq, ToSchema)]
pub struct Queue {
    /// Its name.
    #[schema(value_type = schema::QueueName)]
    pub name: QueueName,
}

impl Queue {
    pub fn write(out: &mut Vec<u8>, name: &QueueName) {
        ObjectWriter::append_to(out).text("name", name.as_str()).end();
    }

    pub fn read(value: &Value<'_>) -> Result<Self, Unreadable> {
        Ok(Self { name: ObjectReader::of(value, "queue")?.parsed("name", QueueName::parse)? })
    }

    pub fn write_all(out: &mut Vec<u8>, names: &[QueueName]) {
        write_array(out, names, Self::write);
    }

    pub fn read_all(value: &Value<'_>) -> Result<Vec<Self>, Unreadable> {
        match value {
            Value::Array(items) => items.iter().map(Self::read).collect(),
            _ => Err(Unreadable("the list of queues is not a list".to_owned())),
        }
    }
}
