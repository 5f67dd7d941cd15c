//! Request bodies, in both directions (docs/reference/http-api.md §3.3 to §3.5). Reading is strict: unknown fields are
//! refused, and all errors are collected before the code that weighs most is chosen. What each body holds is declared
//! in the files of the resources.

pub(crate) mod errors;
pub(crate) mod field;

use std::borrow::BorrowMut;

use taskqueue_core::json::{self, ObjectWriter, ParseError, Value};

use crate::ErrorCode;

pub use errors::{BodyErrors, Invalid, Location, LocationStep, RequestError};
pub(crate) use field::{Members, REQUIRED};

/// A request body, or an object inside one.
pub trait Body: Sized {
    /// The code of a body that is invalid in no special way.
    const CODE: ErrorCode;

    /// The names of its fields, in the contract's order.
    const FIELDS: &'static [&'static str];

    /// Reads the object at this place of a body. Errors go into `errors`; the result counts only if there are none.
    #[doc(hidden)]
    fn read(value: &Value<'_>, at: Location<'_>, errors: &mut BodyErrors) -> Option<Self>;

    /// Adds the fields of the body to an object.
    fn write_fields<B: BorrowMut<Vec<u8>>>(&self, object: ObjectWriter<B>) -> ObjectWriter<B>;
}

/// Declares a body: the struct with its schema, the reader and the writer; what it gives is the struct itself, unless it is `for` a
/// type of another crate. An entry has the schema of a field, its name, its type, and one of these:
///
/// * `required`, and the function that reads it,
/// * `optional`, and the function that reads it: left out where there is nothing to say,
/// * `default`, with the value of a field that is left out: so is one with this value, because a server that does not know the
///   field refuses it,
/// * `nested`: an object that is a body itself,
/// * `filter`: the filter that selects tasks.
///
/// What concerns several fields is checked by one function.
macro_rules! request_body {
    (
        $(#[$attribute:meta])* $schema:ident $(for $body:ty)?, $code:ident $(, checked by $check:path)?;
        $( $(#[$field_attribute:meta])* $field:ident: $kind:ty = $mode:ident $(($($how:expr),+))?, )*
    ) => {
        #[derive(Clone, Debug, PartialEq, Eq, ToSchema)]
        #[serde(deny_unknown_fields)]
        $(#[$attribute])*
        pub struct $schema {
            $( $(#[$field_attribute])* pub $field: $kind, )*
        }

        impl Body for $crate::body::body_type!($schema $($body)?) {
            const CODE: ErrorCode = ErrorCode::$code;
            const FIELDS: &'static [&'static str] = &[$( stringify!($field) ),*];

            fn read(value: &Value<'_>, at: Location<'_>, errors: &mut BodyErrors) -> Option<Self> {
                let mut body = Members::of(value, at, Self::FIELDS, errors)?;
                $( let $field = $crate::body::body_field!(read body, $field: $kind, $mode $(($($how),+))?); )*
                let read = Self { $( $field: $field?, )* };
                $( $check(&read, &mut body)?; )?
                Some(read)
            }

            fn write_fields<B: BorrowMut<Vec<u8>>>(&self, object: ObjectWriter<B>) -> ObjectWriter<B> {
                $( let object = $crate::body::body_field!(write object, self, $field: $kind, $mode $(($($how),+))?); )*
                object
            }
        }
    };
}

macro_rules! body_type {
    ($schema:ident) => {
        $schema
    };
    ($schema:ident $body:ty) => {
        $body
    };
}

macro_rules! body_field {
    (read $body:ident, $field:ident: $kind:ty, required($read:expr)) => {
        $body.required(stringify!($field), $read)
    };
    (read $body:ident, $field:ident: $kind:ty, optional($read:expr)) => {
        Some($body.optional(stringify!($field), $read))
    };
    (read $body:ident, $field:ident: $kind:ty, default($value:expr, $read:expr)) => {
        Some($body.optional(stringify!($field), $read).unwrap_or($value))
    };
    (read $body:ident, $field:ident: $kind:ty, nested) => {
        $body.required(stringify!($field), |value, at, errors| <$kind as Body>::read(value, *at, errors))
    };
    (read $body:ident, $field:ident: $kind:ty, filter) => {
        $body.filter()
    };
    (write $object:ident, $self:ident, $field:ident: $kind:ty, optional($read:expr)) => {
        $crate::object_reader::write_given($object, stringify!($field), $self.$field.as_ref())
    };
    (write $object:ident, $self:ident, $field:ident: $kind:ty, default($value:expr, $read:expr)) => {
        $crate::object_reader::write_given(
            $object,
            stringify!($field),
            Some(&$self.$field).filter(|value| **value != $value),
        )
    };
    (write $object:ident, $self:ident, $field:ident: $kind:ty, nested) => {
        $object.object(stringify!($field), |object| $self.$field.write_fields(object))
    };
    (write $object:ident, $self:ident, $field:ident: $kind:ty, $mode:ident $(($read:expr))?) => {
        $object.field(stringify!($field), |out| <$kind as WireValue>::write(out, $self.$field.view()))
    };
}

pub(crate) use {body_field, body_type, request_body};

/// Reads a body from its bytes.
pub fn decode<B: Body>(bytes: &[u8]) -> Result<B, Invalid> {
    if bytes.is_empty() { Err(missing::<B>()) } else { read(&json::parse(bytes).map_err(unreadable)?) }
}

/// Reads a body from JSON that is parsed already.
pub fn read<B: Body>(value: &Value<'_>) -> Result<B, Invalid> {
    let mut errors = BodyErrors::new(B::CODE);
    let body = B::read(value, Location::Root("body"), &mut errors);
    errors.into_result(body)
}

/// The bytes of a body.
pub fn encode<B: Body>(body: &B) -> Vec<u8> {
    body.write_fields(ObjectWriter::new()).end()
}

/// The error of a body of another media type than JSON.
pub fn not_json(code: ErrorCode) -> Invalid {
    Invalid::body(code, "send Content-Type: application/json")
}

fn missing<B: Body>() -> Invalid {
    Invalid::body(B::CODE, fields_wanted(B::FIELDS))
}

/// Returns the advice when there is no object at all.
pub(crate) fn fields_wanted(known: &[&str]) -> String {
    format!("send a JSON object with the fields {}", known.join(", "))
}

/// Returns the advice about a field that is not known.
pub(crate) fn field_unknown(known: &[&str]) -> String {
    format!("remove this field; known are {}", known.join(", "))
}

/// The error of a body that is no JSON.
pub fn unreadable(error: ParseError) -> Invalid {
    match error {
        ParseError::Malformed { message, byte } => {
            let message = format!("send well-formed JSON: {message} (at byte {byte})");
            Invalid::body(ErrorCode::InvalidRequest, message)
        }
        ParseError::TooDeep => Invalid { code: ErrorCode::JsonTooDeep, errors: Vec::new() },
    }
}

#[cfg(test)]
mod tests;
