//! Builds the JSON object in `error.details`. The members are informative, so they are written as they come.

use taskqueue_core::json::{write_integer, write_string};

/// The members of a JSON object, as text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Details(Vec<u8>);

impl Details {
    /// No members.
    pub const fn none() -> Self {
        Self(Vec::new())
    }

    /// Adds a member that is a string.
    #[must_use]
    pub fn text(self, name: &str, value: &str) -> Self {
        self.member(name, |out| write_string(out, value))
    }

    /// Adds a member that is an integer.
    #[must_use]
    pub fn integer(self, name: &str, value: impl TryInto<i64>) -> Self {
        self.member(name, |out| write_integer(out, value.try_into().unwrap_or(i64::MAX)))
    }

    /// Adds a member that is a list of strings.
    #[must_use]
    pub fn texts<'t>(self, name: &str, values: impl IntoIterator<Item = &'t str>) -> Self {
        self.member(name, |out| {
            out.push(b'[');
            for (index, value) in values.into_iter().enumerate() {
                if index > 0 {
                    out.push(b',');
                }
                write_string(out, value);
            }
            out.push(b']');
        })
    }

    /// Adds a member whose value `write` appends as JSON.
    #[must_use]
    pub fn member(mut self, name: &str, write: impl FnOnce(&mut Vec<u8>)) -> Self {
        if !self.0.is_empty() {
            self.0.push(b',');
        }
        write_string(&mut self.0, name);
        self.0.push(b':');
        write(&mut self.0);
        self
    }

    /// Appends the object.
    pub fn write(&self, out: &mut Vec<u8>) {
        out.push(b'{');
        out.extend_from_slice(&self.0);
        out.push(b'}');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn details_are_an_object_in_the_order_of_their_members() {
        let mut out = Vec::new();
        Details::none().write(&mut out);
        Details::none().text("a", "\"x\"").integer("b", 7_u64).texts("c", ["d", "e"]).write(&mut out);
        assert_eq!(String::from_utf8(out).unwrap(), r#"{}{"a":"\"x\"","b":7,"c":["d","e"]}"#);
    }
}
