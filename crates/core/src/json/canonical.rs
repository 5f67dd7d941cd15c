//! The canonical text of values (docs/reference/http-api.md §6.4): one text per value, so that equal texts are equal
//! objects and the length of the text is the size that counts. Strings are written in `strings`.

use std::borrow::Cow;
use std::io::Write;
use std::sync::Arc;

use super::object::write_array;
use super::strings::write_string;
use crate::limits::JSON_DEPTH;

/// A parsed JSON value. It borrows from the text it was read from wherever a string has no escapes.
#[derive(Clone, Debug, PartialEq)]
pub enum Value<'a> {
    /// `null`
    Null,
    /// `true` or `false`
    Bool(bool),
    /// A number without `.` and exponent.
    Int(i64),
    /// A number with `.` or exponent; always finite.
    Float(f64),
    /// A string, escapes resolved.
    Str(Cow<'a, str>),
    Array(Vec<Value<'a>>),
    /// An object: each key once (the last duplicate won), sorted by code point.
    Object(Vec<(Cow<'a, str>, Value<'a>)>),
    /// An object that no field may hold, because of its keys. On the heap: it is rare, and values are many.
    LoneSurrogateKeys(Box<LoneSurrogateKeys<'a>>),
    /// Well-formed JSON text that no field may hold.
    Unusable(Unusable),
}

/// An object with half a surrogate pair in one or more of its keys. It is kept because another error in it may take
/// precedence (docs/reference/errors.md §2).
#[derive(Clone, Debug, PartialEq)]
pub struct LoneSurrogateKeys<'a> {
    /// The members whose keys are whole, as in [`Value::Object`].
    pub members: Vec<(Cow<'a, str>, Value<'a>)>,
    /// The values of the other keys.
    pub keyless: Vec<Value<'a>>,
}

/// Why well-formed JSON text is no usable value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unusable {
    /// An integer that does not fit in 64 bits signed.
    IntegerRange,
    /// A number beyond the largest finite float.
    FloatRange,
    /// A string with half a surrogate pair.
    LoneSurrogate,
    /// An object with half a surrogate pair in one of its keys.
    LoneSurrogateKey,
}

impl Value<'_> {
    /// Returns the member of an object.
    pub fn get(&self, name: &str) -> Option<&Self> {
        let Self::Object(members) = self else { return None };
        members.iter().find(|(key, _)| key == name).map(|(_, value)| value)
    }

    /// Returns the number, rounded to a float, if it is one.
    pub fn as_f64(&self) -> Option<f64> {
        match self {
            Self::Int(integer) => Some(*integer as f64),
            Self::Float(float) => Some(*float),
            _ => None,
        }
    }

    /// Returns whether containers are nested deeper than `levels`; a container itself is one level.
    pub(super) fn is_deeper_than(&self, levels: usize) -> bool {
        let Some(below) = levels.checked_sub(1) else {
            return matches!(self, Self::Array(_) | Self::Object(_) | Self::LoneSurrogateKeys(_));
        };
        match self {
            Self::Array(items) => items.iter().any(|item| item.is_deeper_than(below)),
            Self::Object(members) => members.iter().any(|(_, member)| member.is_deeper_than(below)),
            Self::LoneSurrogateKeys(object) => {
                let members = object.members.iter().map(|(_, member)| member);
                members.chain(&object.keyless).any(|member| member.is_deeper_than(below))
            }
            _ => false,
        }
    }
}

/// A JSON object as its canonical text: the form in which args, metadata and result are kept and compared.
/// The empty one, which most tasks have twice, takes no memory.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct JsonObject(Option<Arc<str>>);

const EMPTY: &str = "{}";

impl JsonObject {
    /// `{}`
    pub const fn empty() -> Self {
        Self(None)
    }

    /// The object in `value`, if it is one that args, metadata and result may be.
    pub fn from_value(value: &Value<'_>) -> Result<Self, ObjectError> {
        if !matches!(value, Value::Object(_) | Value::LoneSurrogateKeys(_)) {
            return Err(ObjectError::NotAnObject);
        }
        if value.is_deeper_than(JSON_DEPTH) {
            return Err(ObjectError::TooDeep);
        }
        if let Some((mut path, what)) = first_unusable(value) {
            path.reverse();
            return Err(ObjectError::Unusable { path, what });
        }
        let mut out = Vec::with_capacity(128);
        write_value(&mut out, value);
        // Only whole pieces of UTF-8 were written, so this does not fail.
        Ok(Self::from_canonical(std::str::from_utf8(&out).unwrap_or_default()))
    }

    /// The object whose [`as_str`](Self::as_str) gave this text earlier. The text is trusted.
    pub fn from_canonical(text: &str) -> Self {
        Self((text != EMPTY).then(|| text.into()))
    }

    /// The canonical text.
    pub fn as_str(&self) -> &str {
        self.0.as_deref().unwrap_or(EMPTY)
    }

    /// Returns whether this is `{}`.
    pub fn is_empty_object(&self) -> bool {
        self.0.is_none()
    }
}

/// Why a value is no object that may be kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ObjectError {
    /// It is no object at all.
    NotAnObject,
    /// Its containers are nested deeper than [`JSON_DEPTH`]. This takes precedence over anything unusable inside.
    TooDeep,
    /// A part of it is unusable.
    Unusable {
        /// Where inside the object: the value, or for a key the object that has it.
        path: Vec<PathStep>,
        /// The fault there.
        what: Unusable,
    },
}

/// A step from a container to one of its values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PathStep {
    /// To the member of an object.
    Key(String),
    /// To the item of an array, counted from 0.
    Index(usize),
}

/// The first unusable part of `value` and the steps to it, innermost first.
fn first_unusable(value: &Value<'_>) -> Option<(Vec<PathStep>, Unusable)> {
    match value {
        Value::Unusable(what) => Some((Vec::new(), *what)),
        Value::LoneSurrogateKeys(_) => Some((Vec::new(), Unusable::LoneSurrogateKey)),
        Value::Array(items) => items.iter().enumerate().find_map(|(index, item)| {
            let (mut path, what) = first_unusable(item)?;
            path.push(PathStep::Index(index));
            Some((path, what))
        }),
        Value::Object(members) => members.iter().find_map(|(key, member)| {
            let (mut path, what) = first_unusable(member)?;
            path.push(PathStep::Key(key.to_string()));
            Some((path, what))
        }),
        _ => None,
    }
}

/// Appends the canonical text of a usable value; an unusable part has none and becomes `null`.
pub fn write_value(out: &mut Vec<u8>, value: &Value<'_>) {
    match value {
        Value::Null | Value::Unusable(_) | Value::LoneSurrogateKeys(_) => out.extend_from_slice(b"null"),
        Value::Bool(true) => out.extend_from_slice(b"true"),
        Value::Bool(false) => out.extend_from_slice(b"false"),
        Value::Int(integer) => write_integer(out, *integer),
        // The shortest text that reads back as the same float and never as an integer: what `{:?}` promises. Writing to memory
        // does not fail.
        Value::Float(float) => _ = write!(out, "{float:?}"),
        Value::Str(text) => write_string(out, text),
        Value::Array(items) => write_array(out, items, write_value),
        Value::Object(members) => {
            out.push(b'{');
            for (index, (key, member)) in members.iter().enumerate() {
                if index > 0 {
                    out.push(b',');
                }
                write_string(out, key);
                out.push(b':');
                write_value(out, member);
            }
            out.push(b'}');
        }
    }
}

/// Appends an integer in decimal.
pub fn write_integer(out: &mut Vec<u8>, value: i64) {
    // 19 digits and a sign.
    let mut buffer = [b'-'; 20];
    let mut at = buffer.len();
    let mut rest = value.unsigned_abs();
    loop {
        at -= 1;
        buffer[at] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    at -= usize::from(value < 0);
    out.extend_from_slice(&buffer[at..]);
}

/// How many bytes [`write_integer`] appends.
pub fn integer_len(value: i64) -> usize {
    let digits = value.unsigned_abs().checked_ilog10().unwrap_or(0) as usize + 1;
    digits + usize::from(value < 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::parse;

    fn read(text: &str) -> Result<JsonObject, ObjectError> {
        JsonObject::from_value(&parse(text.as_bytes()).unwrap())
    }

    /// `levels` nested containers, an object outermost, around `inner`.
    fn nested(levels: usize, inner: &str) -> String {
        format!("{{\"a\":{}{inner}{}}}", "[".repeat(levels - 1), "]".repeat(levels - 1))
    }

    #[test]
    fn an_object_has_one_canonical_text() {
        let cases = [
            (" { } ", "{}"),
            (r#"{ "b" : [ 1 , { "d" : 2 , "c" : 3 } ] , "a" : null }"#, r#"{"a":null,"b":[1,{"c":3,"d":2}]}"#),
            ("\r\t{ \"a\" :\n[ true , \"b\",\r{ } ,[ false\t] ] }\n", r#"{"a":[true,"b",{},[false]]}"#),
            (r#"{"a":1,"a":2}"#, r#"{"a":2}"#),
            // U+FF5E comes before U+10000, though its UTF-16 form does not.
            (
                r#"{"𐀀":1,"～":2,"b":3,"a":4,"B":5,"":6,"ab":7,"\n":8}"#,
                r#"{"":6,"\n":8,"B":5,"a":4,"ab":7,"b":3,"～":2,"𐀀":1}"#,
            ),
            (r#"{"":true,"\u0000":false}"#, r#"{"":true,"\u0000":false}"#),
            (r#"{"\u00e9":"\u00e9\u000b\u0009\/"}"#, "{\"é\":\"é\\u000b\\t/\"}"),
            (r#"{"a":"\ud83d\ude00"}"#, r#"{"a":"😀"}"#),
            (
                r#"{"a":[0,-0,9223372036854775807,-9223372036854775808]}"#,
                r#"{"a":[0,0,9223372036854775807,-9223372036854775808]}"#,
            ),
            (r#"{"a":[1.0,1e2,-0.0,0.0,1e-400,-1e-400]}"#, r#"{"a":[1.0,100.0,-0.0,0.0,0.0,-0.0]}"#),
            (
                r#"{"a":[1e15,1e16,1e-5,0.1,9223372036854775808.0]}"#,
                r#"{"a":[1000000000000000.0,1e16,1e-5,0.1,9.223372036854776e18]}"#,
            ),
        ];
        for (text, canonical) in cases {
            let object = read(text).unwrap();
            assert_eq!(object.as_str(), canonical);
            assert_eq!(read(canonical), Ok(object), "canonical text is its own canonical text");
        }
    }

    #[test]
    fn only_an_object_is_an_object() {
        for text in ["null", "true", "1", "1.0", "\"{}\"", "[]", "[{}]", "1e400", "9223372036854775808", r#""\ud800""#]
        {
            assert_eq!(read(text), Err(ObjectError::NotAnObject), "{text}");
        }
    }

    #[test]
    fn sixty_four_levels_are_accepted_and_sixty_five_are_too_deep() {
        assert!(read(&nested(64, "1")).is_ok());
        assert_eq!(read(&nested(65, "1")), Err(ObjectError::TooDeep));
        assert_eq!(read(&nested(64, "{}")), Err(ObjectError::TooDeep));
        assert_eq!(read(&nested(256, "1")), Err(ObjectError::TooDeep));
    }

    #[test]
    fn too_deep_wins_over_unusable() {
        assert_eq!(read(&nested(65, "1e400")), Err(ObjectError::TooDeep));
        assert_eq!(read(&format!("{{\"A\":1e400,\"b\":{}}}", nested(64, "1"))), Err(ObjectError::TooDeep));
        for key in [r"\ud800", "b"] {
            let halves = |levels| read(&format!(r#"{{"\ud800":1,"{key}":{}}}"#, nested(levels, "1")));
            assert_eq!(halves(64), Err(ObjectError::TooDeep));
            assert!(matches!(halves(63), Err(ObjectError::Unusable { .. })));
        }
        assert_eq!(read(&nested(64, r#"{"\ud800":1}"#)), Err(ObjectError::TooDeep));
    }

    #[test]
    fn a_discarded_duplicate_is_neither_too_deep_nor_unusable() {
        assert!(read(&format!("{{\"a\":1e400,\"a\":{},\"a\":1}}", nested(100, "1"))).is_ok());
    }

    #[test]
    fn an_unusable_part_is_named_with_the_way_to_it() {
        let key = |key: &str| PathStep::Key(key.to_owned());
        let deep = vec![key("a"), PathStep::Index(1), key("b"), PathStep::Index(0)];
        let cases = [
            (r#"{"a":9223372036854775808}"#, vec![key("a")], Unusable::IntegerRange),
            (r#"{"a":[0,{"b":[-1e400]}]}"#, deep, Unusable::FloatRange),
            (r#"{"a":1,"":["\udc00"]}"#, vec![key(""), PathStep::Index(0)], Unusable::LoneSurrogate),
            (r#"{"a":{"b":1,"\ud800":2}}"#, vec![key("a")], Unusable::LoneSurrogateKey),
            (r#"{"\ud800":1}"#, vec![], Unusable::LoneSurrogateKey),
        ];
        for (text, path, what) in cases {
            assert_eq!(read(text), Err(ObjectError::Unusable { path, what }), "{text}");
        }
    }

    #[test]
    fn integers_are_written_in_decimal_and_as_long_as_they_say() {
        let powers = (0..19).map(|exponent| 10_i64.pow(exponent));
        let near = powers.flat_map(|power| [power - 1, power, power + 1, 1 - power, -power]);
        for value in near.chain([0, i64::MAX, i64::MIN]) {
            let mut out = Vec::new();
            write_integer(&mut out, value);
            assert_eq!(out, value.to_string().as_bytes());
            assert_eq!(integer_len(value), out.len(), "{value}");
        }
    }

    #[test]
    fn the_empty_object_is_empty_however_it_came_here() {
        for object in [JsonObject::empty(), read(" { } ").unwrap(), JsonObject::from_canonical("{}")] {
            assert_eq!(object, JsonObject::empty());
            assert!(object.is_empty_object());
        }
        assert!(!read(r#"{"":{}}"#).unwrap().is_empty_object());
    }
}
