//! Reads the fields of a JSON object, each by name and type. A missing or wrong field is an error whose text
//! names the object; unknown fields are ignored, because a newer server may send them. Also the types that fields of the
//! task tables have: how each is borrowed, written and read.

use std::borrow::{BorrowMut, Cow};
use std::sync::Arc;
use std::time::Duration;

use taskqueue_core::json::{
    JsonObject, ObjectWriter, Value, write_array, write_integer, write_string, write_time, write_value,
};
use taskqueue_core::scheduling::{OnDependencyFailure, seconds_as_duration};
use taskqueue_core::status::WorkerStatus;
use taskqueue_core::{QueueName, Route, Routes, RunId, Status, TaskId, Timestamp};

/// The mistake in an answer.
#[derive(Debug, PartialEq, Eq)]
pub struct Unreadable(pub String);

/// An object whose fields are read one by one.
#[derive(Clone, Copy, Debug)]
pub struct ObjectReader<'v> {
    /// Sorted by key, as the parser gives them.
    members: &'v [(Cow<'v, str>, Value<'v>)],
    /// The name of the object, for messages.
    what: &'static str,
}

impl<'v> ObjectReader<'v> {
    /// The object in `value`, called `what` in messages.
    pub fn of(value: &'v Value<'v>, what: &'static str) -> Result<Self, Unreadable> {
        match value {
            Value::Object(members) => Ok(Self { members, what }),
            _ => Err(Unreadable(format!("the {what} is not an object"))),
        }
    }

    pub fn has(&self, name: &str) -> bool {
        self.get(name).is_some()
    }

    fn get(&self, name: &str) -> Option<&'v Value<'v>> {
        let at = self.members.binary_search_by(|(key, _)| key.as_ref().cmp(name)).ok()?;
        Some(&self.members[at].1)
    }

    pub fn value(&self, name: &str) -> Result<&'v Value<'v>, Unreadable> {
        self.get(name).ok_or_else(|| Unreadable(format!("the {} has no `{name}`", self.what)))
    }

    pub(crate) fn wrong<T>(&self, name: &str) -> Result<T, Unreadable> {
        Err(Unreadable(format!("`{name}` of the {} has a wrong type or value", self.what)))
    }

    pub fn object(&self, name: &'static str) -> Result<Self, Unreadable> {
        Self::of(self.value(name)?, name)
    }

    pub fn list(&self, name: &str) -> Result<&'v [Value<'v>], Unreadable> {
        if let Value::Array(items) = self.value(name)? { Ok(items) } else { self.wrong(name) }
    }

    pub fn text(&self, name: &str) -> Result<&'v str, Unreadable> {
        if let Value::Str(text) = self.value(name)? { Ok(text) } else { self.wrong(name) }
    }

    pub fn integer(&self, name: &str) -> Result<i64, Unreadable> {
        if let Value::Int(integer) = self.value(name)? { Ok(*integer) } else { self.wrong(name) }
    }

    pub fn boolean(&self, name: &str) -> Result<bool, Unreadable> {
        if let Value::Bool(flag) = self.value(name)? { Ok(*flag) } else { self.wrong(name) }
    }

    /// A number, with or without a fraction.
    pub fn number(&self, name: &'static str) -> Result<f64, Unreadable> {
        self.value(name)?.as_f64().map_or_else(|| self.wrong(name), Ok)
    }

    /// An integer from 0.
    pub fn count(&self, name: &str) -> Result<u64, Unreadable> {
        u64::try_from(self.integer(name)?).or_else(|_| self.wrong(name))
    }

    /// A string that `parse` accepts.
    pub fn parsed<T>(&self, name: &str, parse: fn(&str) -> Option<T>) -> Result<T, Unreadable> {
        parse(self.text(name)?).map_or_else(|| self.wrong(name), Ok)
    }

    /// A list of strings that `parse` accepts.
    pub fn parsed_list<T>(&self, name: &str, parse: fn(&str) -> Option<T>) -> Result<Vec<T>, Unreadable> {
        let item = |item: &Value<'_>| if let Value::Str(text) = item { parse(text) } else { None };
        self.list(name)?.iter().map(item).collect::<Option<_>>().map_or_else(|| self.wrong(name), Ok)
    }

    pub fn time(&self, name: &str) -> Result<Timestamp, Unreadable> {
        self.parsed(name, Timestamp::parse)
    }

    /// A JSON object that belongs to the users: as it is, 64-bit integers and forms of floats included.
    pub fn json(&self, name: &str) -> Result<JsonObject, Unreadable> {
        JsonObject::from_value(self.value(name)?).or_else(|_| self.wrong(name))
    }

    /// A field that is there but may be null.
    pub fn nullable<T>(
        &self,
        name: &'static str,
        read: impl FnOnce(&Self, &'static str) -> Result<T, Unreadable>,
    ) -> Result<Option<T>, Unreadable> {
        if *self.value(name)? == Value::Null { Ok(None) } else { read(self, name).map(Some) }
    }

    /// A field that may be left out.
    pub fn optional<T>(
        &self,
        name: &'static str,
        read: impl FnOnce(&Self, &'static str) -> Result<T, Unreadable>,
    ) -> Result<Option<T>, Unreadable> {
        if self.has(name) { read(self, name).map(Some) } else { Ok(None) }
    }
}

/// A type that a field may have.
pub(crate) trait WireValue: Sized {
    /// The value that is written: borrowed from the value, or from the row of a database.
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

/// An object of answers with a fixed list of fields, as [`wire_object`] declares it.
pub(crate) trait WireObject: Sized + 'static {
    /// Its name in messages where it is no field.
    const WHAT: &'static str;

    fn write_fields<'o>(&self, object: ObjectWriter<&'o mut Vec<u8>>) -> ObjectWriter<&'o mut Vec<u8>>;

    fn read_fields(object: &ObjectReader<'_>) -> Result<Self, Unreadable>;
}

impl<T: WireObject> WireValue for T {
    type View<'a> = &'a T;

    fn view(&self) -> &T {
        self
    }

    fn write(out: &mut Vec<u8>, object: &T) {
        object.write_fields(ObjectWriter::append_to(out)).end();
    }

    fn read(object: &ObjectReader<'_>, name: &'static str) -> Result<Self, Unreadable> {
        T::read_fields(&object.object(name)?)
    }
}

impl<T: WireObject> WireValue for Vec<T> {
    type View<'a> = &'a [T];

    fn view(&self) -> &[T] {
        self
    }

    fn write(out: &mut Vec<u8>, items: &[T]) {
        write_array(out, items, |out, item| T::write(out, item));
    }

    fn read(object: &ObjectReader<'_>, name: &'static str) -> Result<Self, Unreadable> {
        object.list(name)?.iter().map(|item| T::read_fields(&ObjectReader::of(item, T::WHAT)?)).collect()
    }
}

/// Declares an object of answers: the struct, its writer and its reader. A field that is `optional` is left out where there is
/// none; one that is `flat` has its own fields among the others.
macro_rules! wire_object {
    (
        $(#[$attribute:meta])* pub struct $name:ident, $what:literal {
            $( $(#[$field_attribute:meta])* pub $field:ident: $kind:ty $(= $mode:ident)?, )*
        }
    ) => {
        $(#[$attribute])*
        pub struct $name {
            $( $(#[$field_attribute])* pub $field: $kind, )*
        }

        impl $crate::object_reader::WireObject for $name {
            const WHAT: &'static str = $what;

            fn write_fields<'o>(&self, object: ObjectWriter<&'o mut Vec<u8>>) -> ObjectWriter<&'o mut Vec<u8>> {
                $( let object = $crate::object_reader::wire_field!(write object, self, $field: $kind $(, $mode)?); )*
                object
            }

            fn read_fields(object: &ObjectReader<'_>) -> Result<Self, Unreadable> {
                Ok(Self { $( $field: $crate::object_reader::wire_field!(read object, $field: $kind $(, $mode)?), )* })
            }
        }

        impl $name {
            pub fn write(&self, out: &mut Vec<u8>) {
                <Self as WireValue>::write(out, self);
            }

            pub fn read(value: &Value<'_>) -> Result<Self, Unreadable> {
                <Self as $crate::object_reader::WireObject>::read_fields(&ObjectReader::of(value, $what)?)
            }
        }
    };
}

macro_rules! wire_field {
    (write $object:ident, $self:ident, $field:ident: $kind:ty) => {
        $object.field(stringify!($field), |out| <$kind as WireValue>::write(out, $self.$field.view()))
    };
    (write $object:ident, $self:ident, $field:ident: $kind:ty, optional) => {
        $crate::object_reader::write_given($object, stringify!($field), $self.$field.as_ref())
    };
    (write $object:ident, $self:ident, $field:ident: $kind:ty, flat) => {
        $crate::object_reader::WireObject::write_fields(&$self.$field, $object)
    };
    (read $object:ident, $field:ident: $kind:ty) => {
        <$kind as WireValue>::read($object, stringify!($field))?
    };
    (read $object:ident, $field:ident: $kind:ty, optional) => {
        $object.optional(stringify!($field), WireValue::read)?
    };
    (read $object:ident, $field:ident: $kind:ty, flat) => {
        $crate::object_reader::WireObject::read_fields($object)?
    };
}

pub(crate) use {wire_field, wire_object};

/// Adds a field, if there is a value for it.
pub(crate) fn write_given<B: BorrowMut<Vec<u8>>, T: WireValue>(
    object: ObjectWriter<B>,
    name: &str,
    value: Option<&T>,
) -> ObjectWriter<B> {
    object.optional(value, |object, value| object.field(name, |out| T::write(out, value.view())))
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

pub(crate) use wire_values;

wire_values! {
    TaskId as Self: |id| *id, |out, id| write_plain(out, id.as_str()), |object, name| object.parsed(name, Self::parse);
    Status as Self: |status| *status, |out, status| write_plain(out, status.as_str()),
        |object, name| object.parsed(name, Self::parse);
    WorkerStatus as Self: |status| *status, |out, status| write_plain(out, status.as_str()),
        |object, name| object.parsed(name, Self::parse);
    QueueName as &'a str: |queue| queue.as_str(), |out, queue| write_plain(out, queue),
        |object, name| object.parsed(name, Self::parse);
    Route as &'a str: |route| route.as_str(), |out, route| write_plain(out, route),
        |object, name| object.parsed(name, Self::parse);
    Timestamp as Self: |at| *at, |out, at| write_time(out, at), |object, name| object.time(name);
    i64 as Self: |integer| *integer, |out, integer| write_integer(out, integer), |object, name| object.integer(name);
    u64 as Self: |count| *count, |out, count| write_integer(out, i64::try_from(count).unwrap_or(i64::MAX)),
        |object, name| object.count(name);
    f64 as Self: |number| *number, |out, number| write_value(out, &Value::Float(number)),
        |object, name| object.number(name);
    bool as Self: |flag| *flag, |out, flag| write_raw(out, if flag { "true" } else { "false" }),
        |object, name| object.boolean(name);
    OnDependencyFailure as Self: |choice| *choice, |out, choice| write_plain(out, choice.as_str()),
        |object, name| object.parsed(name, Self::parse);
    RunId as Self: |id| *id, |out, id| write_plain(out, id.as_str()), |object, name| object.parsed(name, Self::parse);
    Duration as Self: |time| *time, |out, time| f64::write(out, time.as_secs_f64()),
        |object, name| object.number(name).map(seconds_as_duration);
    String as &'a str: |text| text, |out, text| write_string(out, text),
        |object, name| object.text(name).map(str::to_owned);
    Arc<str> as &'a str: |text| text, |out, text| write_string(out, text),
        |object, name| object.text(name).map(Into::into);
    JsonObject as &'a str: |json| json.as_str(), |out, json| write_raw(out, json), |object, name| object.json(name);
    Routes as &'a str: |routes| routes.as_json(), |out, routes| write_raw(out, routes),
        |object, name| Self::new(object.parsed_list(name, Route::parse)?).map_or_else(|| object.wrong(name), Ok);
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
