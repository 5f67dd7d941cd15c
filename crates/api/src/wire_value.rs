//! The types that fields of the task tables have: how each is borrowed, written and read.

use std::sync::Arc;

use taskqueue_core::definition::Routes;
use taskqueue_core::ids::{QueueName, Route, TaskId};
use taskqueue_core::json::{JsonObject, Value, write_integer, write_string, write_time};
use taskqueue_core::scheduling::OnDependencyFailure;
use taskqueue_core::task::Status;
use taskqueue_core::time::Timestamp;

use crate::object_reader::{ObjectReader, Unreadable};

/// A type that a field may have.
pub(crate) trait WireValue: Sized {
    /// What is written: borrowed from the value, or from the row of a database.
    type View<'a>;

    fn view(&self) -> Self::View<'_>;

    /// Appends the value as JSON.
    fn write(out: &mut Vec<u8>, view: Self::View<'_>);

    /// Reads the field `name` of an answer.
    fn read(object: &ObjectReader<'_>, name: &'static str) -> Result<Self, Unreadable>;
}

/// Null when there is none.
impl<T: WireValue> WireValue for Option<T> {
    type View<'a> = Option<T::View<'a>>;

    fn view(&self) -> Self::View<'_> {
        self.as_ref().map(T::view)
    }

    fn write(out: &mut Vec<u8>, view: Self::View<'_>) {
        match view {
            Some(view) => T::write(out, view),
            None => out.extend_from_slice(b"null"),
        }
    }

    fn read(object: &ObjectReader<'_>, name: &'static str) -> Result<Self, Unreadable> {
        object.nullable(name, T::read)
    }
}

/// Implements [`WireValue`] for types that are written by one expression and read by another.
macro_rules! wire_values {
    ($( $kind:ty as $view:ty: |$value:ident| $borrow:expr, |$out:ident, $text:ident| $write:expr,
        |$object:ident, $name:ident| $read:expr; )*) => {$(
        impl WireValue for $kind {
            type View<'a> = $view;

            fn view(&self) -> Self::View<'_> {
                let $value = self;
                $borrow
            }

            #[inline]
            fn write($out: &mut Vec<u8>, $text: Self::View<'_>) {
                $write;
            }

            fn read($object: &ObjectReader<'_>, $name: &'static str) -> Result<Self, Unreadable> {
                $read
            }
        }
    )*};
}

wire_values! {
    TaskId as Self: |id| *id, |out, id| write_plain(out, id.as_str()), |object, name| object.parsed(name, Self::parse);
    Status as Self: |status| *status, |out, status| write_plain(out, status.as_str()),
        |object, name| object.parsed(name, Self::parse);
    QueueName as &'a str: |queue| queue.as_str(), |out, queue| write_plain(out, queue),
        |object, name| object.parsed(name, Self::parse);
    Route as &'a str: |route| route.as_str(), |out, route| write_plain(out, route),
        |object, name| object.parsed(name, Self::parse);
    Timestamp as Self: |at| *at, |out, at| write_time(out, at), |object, name| object.time(name);
    i64 as Self: |integer| *integer, |out, integer| write_integer(out, integer), |object, name| object.integer(name);
    bool as Self: |flag| *flag, |out, flag| write_raw(out, if flag { "true" } else { "false" }),
        |object, name| object.boolean(name);
    OnDependencyFailure as Self: |choice| *choice, |out, choice| write_plain(out, choice.as_str()),
        |object, name| object.parsed(name, Self::parse);
    Arc<str> as &'a str: |text| text, |out, text| write_string(out, text),
        |object, name| object.text(name).map(Into::into);
    JsonObject as &'a str: |json| json.as_str(), |out, json| write_raw(out, json), |object, name| object.json(name);
    Routes as &'a str: |routes| routes.as_json(), |out, routes| write_raw(out, routes),
        |object, name| read_routes(object, name);
}

fn write_raw(out: &mut Vec<u8>, json: &str) {
    out.extend_from_slice(json.as_bytes());
}

/// Appends a string that holds nothing that JSON escapes: a name, an identifier or a word of the contract.
fn write_plain(out: &mut Vec<u8>, text: &str) {
    out.push(b'"');
    write_raw(out, text);
    out.push(b'"');
}

fn read_routes(object: &ObjectReader<'_>, name: &'static str) -> Result<Routes, Unreadable> {
    let route = |item: &Value<'_>| if let Value::Str(text) = item { Route::parse(text) } else { None };
    let routes: Option<Vec<Route>> = object.list(name)?.iter().map(route).collect();
    routes.and_then(Routes::new).map_or_else(|| object.wrong(name), Ok)
}
