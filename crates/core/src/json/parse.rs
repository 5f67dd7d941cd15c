//! Strict RFC 8259 reading of a whole body. What is well-formed but unusable stays in the tree as such, because only
//! the reader of a field knows whether it matters: a discarded duplicate is not validated.

use std::borrow::Cow;

use super::canonical::{LoneSurrogateKeys, Unusable, Value};
use super::strings::{escaped_byte, plain_run};

/// Deepest nesting of a body. Well above what any field takes, so that a field can say it is too deep itself, and low
/// enough that reading, walking and dropping a tree may recurse.
const BODY_DEPTH: usize = 256;

/// Why a body could not be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ParseError {
    /// It is not JSON.
    Malformed {
        /// The fault.
        message: &'static str,
        /// Where, in bytes from the start.
        byte: usize,
    },
    /// Its containers are nested far deeper than any field may be.
    TooDeep,
}

/// Reads a body that is one JSON value, with white space around it at most.
pub fn parse(bytes: &[u8]) -> Result<Value<'_>, ParseError> {
    let mut reader = Reader::new(bytes)?;
    let value = reader.value()?;
    reader.end()?;
    Ok(value)
}

/// A place in a body. [`parse`] reads a body at once; a large one can be read piece by piece, so that only one piece is held as
/// a tree at a time. Every function reads what begins at this place, and ends behind it.
pub struct Reader<'a> {
    pub(super) text: &'a str,
    /// The bytes of `text`.
    bytes: &'a [u8],
    /// The next byte to read; never beyond the end.
    pub(super) at: usize,
}

impl<'a> Reader<'a> {
    /// The beginning of a body.
    pub fn new(bytes: &'a [u8]) -> Result<Self, ParseError> {
        let text = std::str::from_utf8(bytes)
            .map_err(|error| ParseError::Malformed { message: "send UTF-8", byte: error.valid_up_to() })?;
        let reader = Reader { text, bytes, at: 0 };
        if text.starts_with('\u{feff}') { reader.malformed("send no byte order mark") } else { Ok(reader) }
    }

    /// Makes sure that nothing but white space is left.
    pub fn end(&mut self) -> Result<(), ParseError> {
        match self.skip_space() {
            None => Ok(()),
            Some(_) => self.malformed("expected nothing after the value"),
        }
    }

    /// Reads a value.
    pub fn value(&mut self) -> Result<Value<'a>, ParseError> {
        self.value_inside(0)
    }

    /// Reads a value inside `depth` containers.
    fn value_inside(&mut self, depth: usize) -> Result<Value<'a>, ParseError> {
        match self.skip_space() {
            Some(b'{' | b'[') if depth == BODY_DEPTH => Err(ParseError::TooDeep),
            Some(b'{') => self.object(depth + 1),
            Some(b'[') => self.array(depth + 1),
            _ => self.scalar(),
        }
    }

    /// Reads a value that is no container and begins here.
    pub(super) fn scalar(&mut self) -> Result<Value<'a>, ParseError> {
        match self.peek() {
            Some(b'"') => Ok(self.string()?.map_or(Value::Unusable(Unusable::LoneSurrogate), Value::Str)),
            Some(b'-' | b'0'..=b'9') => self.number(),
            Some(b't') => self.literal("true", Value::Bool(true)),
            Some(b'f') => self.literal("false", Value::Bool(false)),
            Some(b'n') => self.literal("null", Value::Null),
            _ => self.malformed("expected a value"),
        }
    }

    fn array(&mut self, depth: usize) -> Result<Value<'a>, ParseError> {
        let mut items = Vec::new();
        self.items(|reader| {
            items.push(reader.value_inside(depth)?);
            Ok(())
        })?;
        Ok(Value::Array(items))
    }

    /// Reads the array that begins here, exactly; `item` reads each of its items.
    #[inline]
    pub fn items<E: From<ParseError>>(&mut self, mut item: impl FnMut(&mut Self) -> Result<(), E>) -> Result<(), E> {
        self.at += 1;
        if self.skip_space() == Some(b']') {
            self.at += 1;
            return Ok(());
        }
        loop {
            item(self)?;
            if !self.has_more(b']')? {
                return Ok(());
            }
        }
    }

    fn object(&mut self, depth: usize) -> Result<Value<'a>, ParseError> {
        let (mut members, mut keyless) = (Vec::new(), Vec::new());
        self.members(|reader, key| {
            let value = reader.value_inside(depth)?;
            match key {
                Some(key) => members.push((key, value)),
                None => keyless.push(value),
            }
            Ok(())
        })?;
        sort_members(&mut members);
        Ok(if keyless.is_empty() {
            Value::Object(members)
        } else {
            Value::LoneSurrogateKeys(Box::new(LoneSurrogateKeys { members, keyless }))
        })
    }

    /// Reads the object that begins here, exactly; `member` reads the value of each key, which may come several times. A key
    /// with a lone surrogate is nothing.
    #[inline]
    pub fn members<E: From<ParseError>>(
        &mut self,
        mut member: impl FnMut(&mut Self, Option<Cow<'a, str>>) -> Result<(), E>,
    ) -> Result<(), E> {
        self.at += 1;
        if self.skip_space() == Some(b'}') {
            self.at += 1;
            return Ok(());
        }
        loop {
            let key = self.key()?;
            member(self, key)?;
            if !self.has_more(b'}')? {
                return Ok(());
            }
        }
    }

    /// Reads a key and its colon.
    pub(super) fn key(&mut self) -> Result<Option<Cow<'a, str>>, ParseError> {
        if self.skip_space() != Some(b'"') {
            return self.malformed("expected a key in double quotes");
        }
        let key = self.string()?;
        if self.skip_space() != Some(b':') {
            return self.malformed("expected ':'");
        }
        self.at += 1;
        Ok(key)
    }

    /// Reads what stands behind a value of a container: whether another one comes, or `end`.
    pub(super) fn has_more(&mut self, end: u8) -> Result<bool, ParseError> {
        match self.skip_space() {
            Some(b',') => {
                self.at += 1;
                Ok(true)
            }
            Some(byte) if byte == end => {
                self.at += 1;
                Ok(false)
            }
            _ if end == b']' => self.malformed("expected ',' or ']'"),
            _ => self.malformed("expected ',' or '}'"),
        }
    }

    /// Reads the string whose opening quote is next; nothing when it has a lone surrogate.
    fn string(&mut self) -> Result<Option<Cow<'a, str>>, ParseError> {
        let start = self.at + 1;
        self.at = plain_run(self.bytes, start);
        let run = &self.text[start..self.at];
        if self.peek() == Some(b'"') {
            self.at += 1;
            return Ok(Some(Cow::Borrowed(run)));
        }
        let mut resolved = String::from(run);
        let mut usable = true;
        loop {
            match self.peek() {
                Some(b'"') => break self.at += 1,
                Some(b'\\') => match self.escape()? {
                    Some(character) => resolved.push(character),
                    None => usable = false,
                },
                Some(_) => return self.malformed("a control character in a string must be escaped"),
                None => return self.malformed("the string does not end"),
            }
            let start = self.at;
            self.at = plain_run(self.bytes, start);
            resolved.push_str(&self.text[start..self.at]);
        }
        Ok(usable.then_some(Cow::Owned(resolved)))
    }

    /// Reads the escape whose backslash is next; nothing when it is a lone surrogate.
    fn escape(&mut self) -> Result<Option<char>, ParseError> {
        let byte = match self.bytes.get(self.at + 1) {
            Some(b'u') => return self.unicode_escape(),
            Some(b'/') => Some(b'/'),
            letter => letter.and_then(|letter| escaped_byte(*letter)),
        };
        let Some(byte) = byte else { return self.malformed("unknown escape") };
        self.at += 2;
        Ok(Some(char::from(byte)))
    }

    fn unicode_escape(&mut self) -> Result<Option<char>, ParseError> {
        let first = self.code_unit()?;
        let behind_first = self.at;
        if (0xd800..0xdc00).contains(&first) && self.bytes[self.at..].starts_with(b"\\u") {
            let second = self.code_unit()?;
            if (0xdc00..0xe000).contains(&second) {
                return Ok(char::from_u32(0x10000 + ((first - 0xd800) << 10) + (second - 0xdc00)));
            }
            self.at = behind_first;
        }
        Ok(char::from_u32(first))
    }

    /// Reads `\uXXXX`, of which `\u` has been seen.
    fn code_unit(&mut self) -> Result<u32, ParseError> {
        let digits = self.bytes.get(self.at + 2..self.at + 6).unwrap_or_default();
        let unit = digits.iter().try_fold(0, |sum, byte| Some(sum << 4 | char::from(*byte).to_digit(16)?));
        match unit {
            Some(unit) if !digits.is_empty() => {
                self.at += 6;
                Ok(unit)
            }
            _ => self.malformed("\\u needs four hexadecimal digits"),
        }
    }

    fn number(&mut self) -> Result<Value<'a>, ParseError> {
        let start = self.at;
        if self.peek() == Some(b'-') {
            self.at += 1;
        }
        let leading_zero = self.peek() == Some(b'0');
        if self.digits()? > 1 && leading_zero {
            return self.malformed("a number has no leading zeros");
        }
        let mut is_float = false;
        if self.peek() == Some(b'.') {
            is_float = true;
            self.at += 1;
            self.digits()?;
        }
        if let Some(b'e' | b'E') = self.peek() {
            is_float = true;
            self.at += 1;
            if let Some(b'+' | b'-') = self.peek() {
                self.at += 1;
            }
            self.digits()?;
        }
        // Only range is left to go wrong: the form has been checked.
        let number = &self.text[start..self.at];
        Ok(if is_float {
            let finite = number.parse().ok().filter(|float: &f64| float.is_finite());
            finite.map_or(Value::Unusable(Unusable::FloatRange), Value::Float)
        } else {
            number.parse().map_or(Value::Unusable(Unusable::IntegerRange), Value::Int)
        })
    }

    /// Reads digits, at least one, and returns how many.
    fn digits(&mut self) -> Result<usize, ParseError> {
        let start = self.at;
        while self.peek().is_some_and(|byte| byte.is_ascii_digit()) {
            self.at += 1;
        }
        if self.at == start { self.malformed("expected a digit") } else { Ok(self.at - start) }
    }

    fn literal(&mut self, name: &'static str, value: Value<'a>) -> Result<Value<'a>, ParseError> {
        if !self.bytes[self.at..].starts_with(name.as_bytes()) {
            return self.malformed("expected a value");
        }
        self.at += name.len();
        Ok(value)
    }

    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    /// Skips white space and returns the next byte.
    pub fn skip_space(&mut self) -> Option<u8> {
        while let Some(b' ' | b'\n' | b'\r' | b'\t') = self.peek() {
            self.at += 1;
        }
        self.peek()
    }

    fn malformed<T>(&self, message: &'static str) -> Result<T, ParseError> {
        Err(ParseError::Malformed { message, byte: self.at })
    }

    /// Passes over a value, if need be behind white space, and gives its text.
    pub fn skip(&mut self) -> Result<&'a str, ParseError> {
        self.skip_space();
        let start = self.at;
        let mut open = OpenContainers::default();
        loop {
            match self.skip_space() {
                Some(byte @ (b'{' | b'[')) => {
                    let is_object = byte == b'{';
                    self.at += 1;
                    if self.skip_space() != Some(end_of(is_object)) {
                        open.push(is_object);
                        self.begin_entry(is_object)?;
                        continue;
                    }
                    self.at += 1;
                }
                _ => drop(self.scalar()?),
            }
            // A value has ended, and perhaps containers with it.
            loop {
                let Some(is_object) = open.innermost_is_object() else { return Ok(&self.text[start..self.at]) };
                if self.has_more(end_of(is_object))? {
                    break self.begin_entry(is_object)?;
                }
                open.depth -= 1;
            }
        }
    }

    /// The bytes from here to the end of the body.
    pub fn bytes_left(&self) -> usize {
        self.text.len() - self.at
    }

    /// The place, in bytes from the start of the body.
    pub fn position(&self) -> usize {
        self.at
    }

    /// Goes to a place that [`Reader::position`] gave.
    pub fn go_to(&mut self, position: usize) {
        self.at = position;
    }

    fn begin_entry(&mut self, is_object: bool) -> Result<(), ParseError> {
        if is_object { self.key().map(drop) } else { Ok(()) }
    }
}

/// Sorts members by key and keeps the last of equal keys.
fn sort_members(members: &mut Vec<(Cow<'_, str>, Value<'_>)>) {
    if members.is_sorted_by(|left, right| left.0 < right.0) {
        return;
    }
    // The sort is stable, so the last of equal keys is the last one written.
    members.sort_by(|left, right| left.0.cmp(&right.0));
    members.dedup_by(|later, earlier| {
        let same = later.0 == earlier.0;
        if same {
            std::mem::swap(later, earlier);
        }
        same
    });
}

fn end_of(is_object: bool) -> u8 {
    if is_object { b'}' } else { b']' }
}

/// The containers that are open, a bit for each that says whether it is an object: a body may have as many of them as bytes.
#[derive(Default)]
struct OpenContainers {
    words: Vec<u64>,
    depth: usize,
}

impl OpenContainers {
    fn push(&mut self, is_object: bool) {
        let (word, bit) = (self.depth / 64, self.depth % 64);
        if word == self.words.len() {
            self.words.push(0);
        }
        self.words[word] = self.words[word] & !(1 << bit) | u64::from(is_object) << bit;
        self.depth += 1;
    }

    fn innermost_is_object(&self) -> Option<bool> {
        let last = self.depth.checked_sub(1)?;
        Some(self.words[last / 64] >> (last % 64) & 1 == 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn string(text: &str) -> Value<'_> {
        Value::Str(Cow::Borrowed(text))
    }

    fn object<'a>(members: impl IntoIterator<Item = (&'a str, Value<'a>)>) -> Value<'a> {
        Value::Object(members.into_iter().map(|(key, value)| (Cow::Borrowed(key), value)).collect())
    }

    fn nested(open: &str, close: &str, levels: usize) -> String {
        open.repeat(levels) + "1" + &close.repeat(levels)
    }

    #[test]
    fn a_number_without_point_and_exponent_is_an_integer_of_64_bits() {
        let cases = [
            ("0", Value::Int(0)),
            ("-0", Value::Int(0)),
            ("-1", Value::Int(-1)),
            ("9223372036854775807", Value::Int(i64::MAX)),
            ("-9223372036854775808", Value::Int(i64::MIN)),
            ("9223372036854775808", Value::Unusable(Unusable::IntegerRange)),
            ("-9223372036854775809", Value::Unusable(Unusable::IntegerRange)),
            ("18446744073709551616", Value::Unusable(Unusable::IntegerRange)),
        ];
        for (text, value) in cases {
            assert_eq!(parse(text.as_bytes()), Ok(value), "{text}");
        }
    }

    #[test]
    fn a_number_with_point_or_exponent_is_a_finite_float() {
        let cases = [
            ("1.0", 1.0),
            ("1e2", 100.0),
            ("1E+2", 100.0),
            ("25e-1", 2.5),
            ("0.0", 0.0),
            ("-0.0", -0.0),
            ("-0e5", -0.0),
            ("1e-400", 0.0),
            ("9223372036854775808.0", 9_223_372_036_854_775_808.0),
            ("1.7976931348623157e308", f64::MAX),
            ("5e-324", 5e-324),
        ];
        for (text, float) in cases {
            let Ok(Value::Float(read)) = parse(text.as_bytes()) else { panic!("{text}") };
            assert_eq!(read.to_bits(), float.to_bits(), "{text}");
        }
        for text in ["1e400", "-1e400", "1.8e308"] {
            assert_eq!(parse(text.as_bytes()), Ok(Value::Unusable(Unusable::FloatRange)), "{text}");
        }
    }

    #[test]
    fn escapes_are_resolved_and_surrogate_pairs_combined() {
        let cases = [
            (r#""\"\\\/\b\f\n\r\t""#, "\"\\/\u{8}\u{c}\n\r\t"),
            (r#""\u0000\u00e9\u00E9é""#, "\0ééé"),
            (r#""a\ud83d\ude00b""#, "a😀b"),
            (r#""\ud800\udc00\uDBFF\uDFFF""#, "\u{10000}\u{10ffff}"),
            (r#""\ufeff\uffff""#, "\u{feff}\u{ffff}"),
            ("\"\u{7f}\u{80}\"", "\u{7f}\u{80}"),
        ];
        for (text, resolved) in cases {
            assert_eq!(parse(text.as_bytes()), Ok(string(resolved)), "{text}");
        }
    }

    #[test]
    fn a_string_without_escapes_borrows_from_the_body() {
        for (text, borrowed) in [("\"plain é\"", true), (r#""\u0061""#, false)] {
            let Ok(Value::Str(read)) = parse(text.as_bytes()) else { panic!("{text}") };
            assert_eq!(matches!(read, Cow::Borrowed(_)), borrowed, "{text}");
        }
    }

    #[test]
    fn a_lone_surrogate_makes_its_string_unusable() {
        let halves =
            [r"\ud800", r"\udfff", r"a\udc00\ud800b", r"\ud800\u0041", r"\ud800\n", r"\ud800 ", r"\ud83d\ud83d\ude00"];
        for half in halves {
            let (value, key) = (format!("[\"{half}\"]"), format!("{{\"a\":1,\"{half}\":[]}}"));
            let expected = Value::Array(vec![Value::Unusable(Unusable::LoneSurrogate)]);
            assert_eq!(parse(value.as_bytes()), Ok(expected), "{value}");
            let members = vec![("a".into(), Value::Int(1))];
            let expected = LoneSurrogateKeys { members, keyless: vec![Value::Array(vec![])] };
            assert_eq!(parse(key.as_bytes()), Ok(Value::LoneSurrogateKeys(Box::new(expected))), "{key}");
        }
    }

    #[test]
    fn the_last_of_equal_keys_wins_at_every_level_and_the_others_are_not_validated() {
        let cases = [
            (r#"{"a":1,"a":2}"#, object([("a", Value::Int(2))])),
            (r#"{"a":1,"b":2,"\u0061":3,"b":4}"#, object([("a", Value::Int(3)), ("b", Value::Int(4))])),
            (r#"{"a":{"b":1,"b":2}}"#, object([("a", object([("b", Value::Int(2))]))])),
            (r#"{"a":1e400,"a":"\ud800","a":{"\ud800":1},"a":true}"#, object([("a", Value::Bool(true))])),
            (r#"{"a":1,"a":1e400}"#, object([("a", Value::Unusable(Unusable::FloatRange))])),
        ];
        for (text, value) in cases {
            assert_eq!(parse(text.as_bytes()), Ok(value), "{text}");
        }
    }

    #[test]
    fn anything_but_json_is_malformed_where_it_goes_wrong() {
        let check = |bytes: &[u8], expected: usize| match parse(bytes) {
            Err(ParseError::Malformed { byte, .. }) => assert_eq!(byte, expected, "{:?}", bytes.escape_ascii()),
            other => panic!("{}: {other:?}", bytes.escape_ascii()),
        };
        // The mark stands where the text goes wrong.
        let marked = [
            r#"¦nul ¦True true¦x ¦NaN ¦Infinity -¦Infinity [¦NaN] ¦'a' [1]¦] 01¦ -01¦ 00¦.1 ¦+1 ¦.5 1.¦ 1.¦e5 1e¦ 1e+¦"#,
            r#"-¦ 0¦x10 1¦_000 [¦ [1¦ [1,¦ [1,¦] [¦,1] {¦ {"a"¦ {"a":¦ {"a":1¦ {"a":1,¦} {¦a:1} {¦1:1} [1¦} ¦/**/1"#,
            r#""a¦ "¦\x41" "¦\u12" "¦\u+123" "¦\u"#,
        ];
        for text in marked.into_iter().flat_map(|line| line.split(' ')) {
            check(text.replace('¦', "").as_bytes(), text.find('¦').unwrap());
        }
        let cases: [(&[u8], usize); 12] = [
            (b"", 0),
            (b"  ", 2),
            (b"1 2", 2),
            (b"{} x", 3),
            (b"[1 2]", 3),
            (b"{\"a\" 1}", 5),
            (b"\"a\nb\"", 2),
            (b"\"\\n\0\"", 3),
            (b"\xef\xbb\xbf{}", 0),
            (b"\"\xff\"", 1),
            (b"\"\xed\xa0\x80\"", 1),
            (b"\xff\xfe1\0", 0),
        ];
        for (bytes, expected) in cases {
            check(bytes, expected);
        }
    }

    #[test]
    fn a_body_of_256_levels_is_read_and_a_deeper_one_is_too_deep_at_once() {
        for (open, close) in [("[", "]"), ("{\"a\":", "}")] {
            assert!(parse(nested(open, close, 256).as_bytes()).is_ok());
            assert_eq!(parse(nested(open, close, 257).as_bytes()), Err(ParseError::TooDeep));
            // What follows is not read: never closed, and still too deep rather than malformed.
            assert_eq!(parse(open.repeat(1_000_000).as_bytes()), Err(ParseError::TooDeep));
        }
        let wide = format!("[{}[]]", "[],".repeat(1000));
        assert!(parse(wide.as_bytes()).is_ok(), "width is not depth");
    }
}

#[cfg(test)]
mod skip_tests {
    use super::*;
    use crate::json::parse;

    fn skipped(text: &str) -> Result<&str, ParseError> {
        let mut reader = Reader::new(text.as_bytes())?;
        let skipped = reader.skip()?;
        reader.end()?;
        Ok(skipped)
    }

    #[test]
    fn what_is_passed_over_has_the_form_that_reading_it_would_ask_for() {
        let values = "null true -0.5e3 1e400 \"a\\ud800\" [] {} [[],{}] {\"a\":[1,{\"b\":null}],\"\":{}} [ { [1 [1, [1,] [,] \
             {\"a\" {\"a\": {\"a\":1, {\"a\":1,} {1:2} [1} {\"a\":1] ] } []] {}} \"a \"\\x\" 01 nul [{]} \
             [[1],[2],{\"a\":{}}]x";
        for text in values.split(' ').chain([" [ 1 , { \"a\" : [ ] } ] ", "", "{\"a\" 1}", "[1 2]"]) {
            let expected = parse(text.as_bytes()).map(|_| text.trim());
            assert_eq!(skipped(text), expected, "{text}");
        }
    }

    #[test]
    fn a_value_of_any_depth_is_passed_over() {
        for levels in [63, 64, 65, 257, 1_000_000] {
            for (open, close) in [("[", "]"), ("{\"a\":", "}"), ("[{\"a\":", "}]")] {
                let text = format!("{}1{}", open.repeat(levels), close.repeat(levels));
                assert_eq!(skipped(&text), Ok(text.as_str()));
                assert!(skipped(&text[..text.len() - 1]).is_err());
            }
        }
    }
}
