//! Writes a JSON object, field by field, in the order of the calls. Values that are JSON text already are taken as they
//! are, so that integers of 64 bits and the forms of floats survive.

use std::borrow::BorrowMut;

use super::canonical::write_integer;
use super::strings::write_string;
use crate::time::Timestamp;

/// An object that is being written, to bytes of its own or to the end of others. Names of fields are written without
/// escapes: they are words of the contract.
#[must_use]
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ObjectWriter<B = Vec<u8>> {
    out: B,
    has_fields: bool,
}

impl ObjectWriter {
    /// An object in bytes of its own. It allocates nothing until it has a field.
    pub const fn new() -> Self {
        Self { out: Vec::new(), has_fields: false }
    }

    /// The finished object as text.
    pub fn into_text(self) -> String {
        // Only whole pieces of UTF-8 were written.
        String::from_utf8(self.end()).unwrap_or_default()
    }
}

impl<'o> ObjectWriter<&'o mut Vec<u8>> {
    /// An object at the end of `out`.
    pub fn append_to(out: &'o mut Vec<u8>) -> Self {
        Self { out, has_fields: false }
    }
}

impl<B: BorrowMut<Vec<u8>>> ObjectWriter<B> {
    /// A field whose value `write` appends as JSON.
    #[inline]
    pub fn field(mut self, name: &str, write: impl FnOnce(&mut Vec<u8>)) -> Self {
        let out = self.out.borrow_mut();
        out.extend_from_slice(if self.has_fields { b",\"" } else { b"{\"" });
        out.extend_from_slice(name.as_bytes());
        out.extend_from_slice(b"\":");
        write(out);
        self.has_fields = true;
        self
    }

    /// A string.
    pub fn text(self, name: &str, text: &str) -> Self {
        self.field(name, |out| write_string(out, text))
    }

    /// A string or null.
    pub fn text_or_null(self, name: &str, text: Option<&str>) -> Self {
        match text {
            Some(text) => self.text(name, text),
            None => self.json(name, "null"),
        }
    }

    /// An integer; one that does not fit is the largest that does.
    pub fn integer(self, name: &str, value: impl TryInto<i64>) -> Self {
        self.field(name, |out| write_integer(out, value.try_into().unwrap_or(i64::MAX)))
    }

    /// An integer or null.
    pub fn integer_or_null(self, name: &str, value: Option<impl TryInto<i64>>) -> Self {
        match value {
            Some(value) => self.integer(name, value),
            None => self.json(name, "null"),
        }
    }

    /// `true` or `false`
    pub fn boolean(self, name: &str, value: bool) -> Self {
        self.json(name, if value { "true" } else { "false" })
    }

    /// An instant.
    pub fn time(self, name: &str, at: Timestamp) -> Self {
        self.field(name, |out| write_time(out, at))
    }

    /// A value that is JSON text already.
    pub fn json(self, name: &str, json: &str) -> Self {
        self.field(name, |out| out.extend_from_slice(json.as_bytes()))
    }

    /// An object whose fields `write` adds.
    pub fn object(
        self,
        name: &str,
        write: impl FnOnce(ObjectWriter<&mut Vec<u8>>) -> ObjectWriter<&mut Vec<u8>>,
    ) -> Self {
        self.field(name, |out| _ = write(ObjectWriter::append_to(out)).end())
    }

    /// The fields that `add` adds for a value, if there is one.
    pub fn optional<T>(self, value: Option<T>, add: impl FnOnce(Self, T) -> Self) -> Self {
        match value {
            Some(value) => add(self, value),
            None => self,
        }
    }

    /// Ends the object and gives back the bytes.
    pub fn end(mut self) -> B {
        self.out.borrow_mut().extend_from_slice(if self.has_fields { b"}" } else { b"{}" });
        self.out
    }
}

/// Appends an instant as a JSON string.
pub fn write_time(out: &mut Vec<u8>, at: Timestamp) {
    out.push(b'"');
    at.write(out);
    out.push(b'"');
}

/// Appends a JSON array whose items `write` appends.
pub fn write_array<T>(out: &mut Vec<u8>, items: impl IntoIterator<Item = T>, mut write: impl FnMut(&mut Vec<u8>, T)) {
    out.push(b'[');
    for (index, item) in items.into_iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        write(out, item);
    }
    out.push(b']');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_has_its_fields_in_the_order_of_the_calls() {
        assert_eq!(ObjectWriter::new().into_text(), "{}");
        let object = ObjectWriter::new().text("a", "\"x\"").integer("b", 7_u64).boolean("c", true);
        let object = object.text_or_null("d", None).json("e", "1.0").time("f", Timestamp::from_micros(1));
        let object = object.field("g", |out| write_array(out, ["h", "i"], write_string));
        let object = object.object("j", |empty| empty).object("k", |inner| inner.integer("l", 1));
        let expected = concat!(
            r#"{"a":"\"x\"","b":7,"c":true,"d":null,"e":1.0,"f":"1970-01-01T00:00:00.000001Z","#,
            r#""g":["h","i"],"j":{},"k":{"l":1}}"#
        );
        assert_eq!(object.into_text(), expected);
    }

    #[test]
    fn an_object_goes_behind_the_bytes_that_are_there() {
        let mut out = b"[".to_vec();
        ObjectWriter::append_to(&mut out).integer("a", u64::MAX).end().push(b']');
        assert_eq!(out, br#"[{"a":9223372036854775807}]"#);
    }
}
