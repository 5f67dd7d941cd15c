//! Finds values in canonical text without building a tree, for filters. The text is trusted, so skipping a value is finding
//! quotes and counting brackets; text that is not canonical gives some result or none, never a panic.

use std::cmp::Ordering;
use std::iter;

use super::strings::{JsonStr, plain_run};

/// A value found in canonical text.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Found<'a> {
    /// `null`
    Null,
    /// `true` or `false`
    Bool(bool),
    /// A number without `.` and exponent.
    Int(i64),
    /// A number with `.` or exponent.
    Float(f64),
    /// A string.
    Str(JsonStr<'a>),
    /// An array: its text.
    Array(&'a str),
    /// An object: its text.
    Object(&'a str),
}

impl<'a> Found<'a> {
    pub(super) fn read(text: &'a str) -> Option<Self> {
        match text.as_bytes().first()? {
            b'"' => Some(Self::Str(JsonStr(text.strip_prefix('"')?.strip_suffix('"')?))),
            b'{' => Some(Self::Object(text)),
            b'[' => Some(Self::Array(text)),
            b't' => Some(Self::Bool(true)),
            b'f' => Some(Self::Bool(false)),
            b'n' => Some(Self::Null),
            // No float reads as an integer: it has a point or an exponent.
            _ => text.parse().map(Self::Int).or_else(|_| text.parse().map(Self::Float)).ok(),
        }
    }

    /// Returns the number, rounded to a float, if it is one.
    pub fn as_f64(&self) -> Option<f64> {
        match self {
            Self::Int(int) => Some(*int as f64),
            Self::Float(float) => Some(*float),
            _ => None,
        }
    }
}

/// The value at `path` inside the canonical text of an object; an empty path is the object itself. Steps lead through
/// objects only: stepping into anything else finds nothing.
pub fn lookup<'a, S: AsRef<str>>(object: &'a str, path: &[S]) -> Option<Found<'a>> {
    let mut scanner = Scanner::new(object);
    for step in path {
        scanner.enter(step.as_ref())?;
    }
    Found::read(scanner.value()?)
}

/// Whether the canonical text of an object has the member `key`.
pub fn has_key(object: &str, key: &str) -> bool {
    Scanner::new(object).enter(key).is_some()
}

/// The items of the canonical text of an array.
pub fn elements(array: &str) -> impl Iterator<Item = Found<'_>> {
    let mut scanner = Scanner::new(array);
    iter::from_fn(move || match scanner.next()? {
        // Before the first item and before each further one. An empty array has no value there.
        b'[' | b',' => Found::read(scanner.value()?),
        _ => None,
    })
    .fuse()
}

/// The members of the canonical text of an object, in their order. Values are passed over as they are asked for.
pub fn members(object: &str) -> impl Iterator<Item = (JsonStr<'_>, Found<'_>)> {
    let mut scanner = Scanner::new(object);
    iter::from_fn(move || match scanner.next()? {
        // Before the first member and before each further one. An empty object has no key there.
        b'{' | b',' => {
            let key = scanner.string()?;
            scanner.expect(b':')?;
            Some((key, Found::read(scanner.value()?)?))
        }
        _ => None,
    })
    .fuse()
}

/// A position in canonical text. It only moves forward.
pub(super) struct Scanner<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Scanner<'a> {
    /// The beginning of a text.
    pub(super) fn new(text: &'a str) -> Self {
        Self { text, at: 0 }
    }

    pub(super) fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn next(&mut self) -> Option<u8> {
        let byte = self.peek()?;
        self.at += 1;
        Some(byte)
    }

    pub(super) fn expect(&mut self, byte: u8) -> Option<()> {
        (self.next()? == byte).then_some(())
    }

    /// Skips `byte` if it is next.
    pub(super) fn skip_if(&mut self, byte: u8) -> bool {
        let here = self.peek() == Some(byte);
        self.at += usize::from(here);
        here
    }

    /// Skips the next bracket and returns it.
    pub(super) fn bracket(&mut self) -> Option<&'a str> {
        self.at += 1;
        self.text.get(self.at - 1..self.at)
    }

    /// Moves from the start of an object to the value of its member `key`.
    fn enter(&mut self, key: &str) -> Option<()> {
        self.expect(b'{')?;
        while let Some(found) = self.next_key()? {
            match found.order(key) {
                Ordering::Less => self.value()?,
                Ordering::Equal => return Some(()),
                // Keys are sorted in this order, so the rest does not have the key.
                Ordering::Greater => return None,
            };
        }
        None
    }

    /// Moves from between two members of an object to the value of the next one, and gives its key; behind the object after the last
    /// one.
    pub(super) fn next_key(&mut self) -> Option<Option<JsonStr<'a>>> {
        self.skip_if(b',');
        if self.skip_if(b'}') {
            return Some(None);
        }
        let key = self.string()?;
        self.expect(b':')?;
        Some(Some(key))
    }

    /// Skips the next value and returns its text.
    pub(super) fn value(&mut self) -> Option<&'a str> {
        let start = self.at;
        match self.peek()? {
            b'"' => self.skip_string()?,
            b'{' | b'[' => self.skip_open(0)?,
            _ => self.skip_word(),
        }
        self.text.get(start..self.at)
    }

    /// Skips the next string and returns it.
    pub(super) fn string(&mut self) -> Option<JsonStr<'a>> {
        let start = self.at + 1;
        self.skip_string()?;
        self.text.get(start..self.at - 1).map(JsonStr)
    }

    fn skip_string(&mut self) -> Option<()> {
        self.expect(b'"')?;
        loop {
            self.at = plain_run(self.text.as_bytes(), self.at);
            match self.next()? {
                b'"' => return Some(()),
                // What follows a backslash never ends the string.
                _ => self.at += 1,
            }
        }
    }

    /// Skips until no container is open, of which `open` are open here. It does not distinguish the two kinds of brackets: trusted text is balanced.
    pub(super) fn skip_open(&mut self, mut open: usize) -> Option<()> {
        loop {
            match self.peek()? {
                b'"' => {
                    self.skip_string()?;
                    continue;
                }
                b'{' | b'[' => open += 1,
                b'}' | b']' => open -= 1,
                _ => {}
            }
            self.at += 1;
            if open == 0 {
                return Some(());
            }
        }
    }

    fn skip_word(&mut self) {
        while self.peek().is_some_and(|byte| !matches!(byte, b',' | b'}' | b']')) {
            self.at += 1;
        }
    }
}

#[cfg(test)]
thread_local! {
    static SCANNED_BYTES: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

/// How many bytes of canonical text this thread has scanned, for tests of cost.
#[cfg(test)]
pub(crate) fn scanned_bytes() -> usize {
    SCANNED_BYTES.get()
}

#[cfg(test)]
impl Drop for Scanner<'_> {
    fn drop(&mut self) {
        SCANNED_BYTES.set(SCANNED_BYTES.get() + self.at);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::{JsonObject, parse};

    const NO_STEPS: &[&str] = &[];

    /// Every kind of value, keys that need escapes (which sort by what they stand for), and text in strings that looks
    /// like structure.
    const OBJECT: &str = concat!(
        r#"{"":0,"\u0000":1,"\n":2,"\"":3,"[":"]}\"","\\":4,"a":null,"aa":true,"b":false,"c":-7,"d":1e16,"#,
        r#""e":["x",[1,{"y":"]"}],{}],"f":{"":"é","\\u":[],"g":{"h":"\u001fi"}},"é":-0.0,"😀":{}}"#,
    );

    #[test]
    fn every_member_is_found_by_its_resolved_key() {
        let canonical = parse(OBJECT.as_bytes()).ok().and_then(|value| JsonObject::from_value(&value).ok());
        assert_eq!(canonical.as_ref().map(JsonObject::as_str), Some(OBJECT));
        let cases: [(&[&str], Option<Found<'_>>); 27] = [
            (&[""], Some(Found::Int(0))),
            (&["\0"], Some(Found::Int(1))),
            (&["\n"], Some(Found::Int(2))),
            (&["\""], Some(Found::Int(3))),
            (&["["], Some(Found::Str(JsonStr("]}\\\"")))),
            (&["\\"], Some(Found::Int(4))),
            (&["a"], Some(Found::Null)),
            (&["aa"], Some(Found::Bool(true))),
            (&["b"], Some(Found::Bool(false))),
            (&["c"], Some(Found::Int(-7))),
            (&["d"], Some(Found::Float(1e16))),
            (&["e"], Some(Found::Array(r#"["x",[1,{"y":"]"}],{}]"#))),
            (&["f", ""], Some(Found::Str(JsonStr("é")))),
            (&["f", "g"], Some(Found::Object(r#"{"h":"\u001fi"}"#))),
            (&["f", "g", "h"], Some(Found::Str(JsonStr(r"\u001fi")))),
            (&["f", "\\u"], Some(Found::Array("[]"))),
            (&["é"], Some(Found::Float(-0.0))),
            (&["😀"], Some(Found::Object("{}"))),
            (&["\\n"], None),
            (&["\\u0000"], None),
            (&["A"], None),
            (&["ab"], None),
            (&["zz"], None),
            (&["a", "a"], None),
            (&["e", "0"], None),
            (&["f", "g", "h", "i"], None),
            (&["😀", ""], None),
        ];
        for (path, found) in cases {
            assert_eq!(lookup(OBJECT, path), found, "{path:?}");
            if let [key] = path {
                assert_eq!(has_key(OBJECT, key), found.is_some(), "{key:?}");
            }
        }
    }

    #[test]
    fn an_empty_path_is_the_object_itself() {
        assert_eq!(lookup(OBJECT, NO_STEPS), Some(Found::Object(OBJECT)));
        assert_eq!(lookup("{}", NO_STEPS), Some(Found::Object("{}")));
        assert_eq!(lookup("{}", &[""]), None);
    }

    #[test]
    fn members_are_the_keys_and_values_of_an_object_in_order() {
        let names = |object| members(object).map(|(key, _)| key.to_text().into_owned()).collect::<Vec<_>>();
        assert_eq!(names("{}"), Vec::<String>::new());
        assert_eq!(names(r#"{"a":{"b":[1,{}]},"c\"":",\"","d":null}"#), ["a", "c\"", "d"]);
        let values: Vec<Found<'_>> = members(r#"{"a":{"b":1},"c":-0.5}"#).map(|(_, value)| value).collect();
        assert_eq!(values, [Found::Object(r#"{"b":1}"#), Found::Float(-0.5)]);
        assert_eq!(names(r#"{"a":1,"b"#), ["a"]);
        assert_eq!(names("[1,2]"), Vec::<String>::new());
    }

    #[test]
    fn elements_are_the_items_of_an_array_in_order() {
        let cases: [(&str, &[Found<'_>]); 4] = [
            ("[]", &[]),
            ("[1]", &[Found::Int(1)]),
            ("[[],[[]],{}]", &[Found::Array("[]"), Found::Array("[[]]"), Found::Object("{}")]),
            (
                r#"[null,true,-1,0.5,",]\"",{"a":[1]}]"#,
                &[
                    Found::Null,
                    Found::Bool(true),
                    Found::Int(-1),
                    Found::Float(0.5),
                    Found::Str(JsonStr(",]\\\"")),
                    Found::Object(r#"{"a":[1]}"#),
                ],
            ),
        ];
        for (array, items) in cases {
            assert_eq!(elements(array).collect::<Vec<_>>(), items, "{array}");
        }
    }

    #[test]
    fn text_that_is_not_canonical_is_survived() {
        let texts = "{ } [ ] \" \\ {\" {\"\\ {\"\\é {\"a\" {\"a\": {\"a\":\" {\"a\":[ {\"a\":] {\"a\":1 {\"a\":é [1 [, [1, \
             [\" [1é] 1 é";
        for text in texts.split(' ').chain(["", "[1 2]"]) {
            for end in (0..=text.len()).filter(|end| text.is_char_boundary(*end)) {
                let _ =
                    (lookup(&text[..end], NO_STEPS), lookup(&text[..end], &["a", "b"]), elements(&text[..end]).count());
            }
        }
        let deep = "{\"a\":".repeat(1_000_000);
        assert_eq!(lookup(&deep, &["a", "a", "a", "b"]), None);
        assert_eq!(elements(&"[".repeat(1_000_000)).count(), 0);
    }
}
