//! Finds values in canonical text without building a tree, for filters. The text is trusted, so skipping a value is finding
//! quotes and counting brackets; text that is not canonical gives some result or none, never a panic.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::iter;

use super::canonical::JsonObject;
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

/// Members that programs have agreed on, in objects that may say anything.
impl JsonObject {
    /// Returns the text of a member, if it has that member and it is a text.
    pub fn text(&self, name: &str) -> Option<Cow<'_, str>> {
        if let Found::Str(text) = lookup(self.as_str(), &[name])? { Some(text.to_text()) } else { None }
    }

    /// Returns the number of a member, if it has that member and it is an integer.
    pub fn integer(&self, name: &str) -> Option<i64> {
        if let Found::Int(number) = lookup(self.as_str(), &[name])? { Some(number) } else { None }
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

/// Returns whether the canonical text of an object has the member `key`.
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
    let begun = scanner.expect(b'{');
    iter::from_fn(move || {
        begun?;
        let key = scanner.next_key()??;
        Some((key, Found::read(scanner.value()?)?))
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

    /// Moves from between two members of an object to the value of the next one, and gives its key; behind the object after the
    /// last one.
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

    /// Skips until no container is open, of which `open` are open here. It does not distinguish the two kinds of brackets:
    /// trusted text is balanced.
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

/// `target` with the members that `patch` names replaced, merged or removed. It is nested no deeper than the deeper of the
/// two, and no longer than both texts together.
pub fn merge_patch(target: &JsonObject, patch: &JsonObject) -> JsonObject {
    if patch.is_empty_object() {
        return target.clone();
    }
    let mut out = Vec::with_capacity(target.as_str().len() + patch.as_str().len());
    let merged = merge(&mut out, &mut Scanner::new(target.as_str()), &mut Scanner::new(patch.as_str()));
    // Both are canonical, and whole pieces of them were copied: neither can fail.
    let text = merged.and_then(|()| std::str::from_utf8(&out).ok());
    text.map_or_else(|| target.clone(), JsonObject::from_canonical)
}

/// Both scanners stand before an object, and afterwards behind it. The recursion is as deep as the patch is nested, which
/// the limit of its depth bounds.
fn merge<'a>(out: &mut Vec<u8>, target: &mut Scanner<'a>, patch: &mut Scanner<'a>) -> Option<()> {
    target.expect(b'{')?;
    patch.expect(b'{')?;
    out.push(b'{');
    let (mut old, mut new) = (target.next_key()?, patch.next_key()?);
    loop {
        match order(old, new) {
            None => break,
            Some(Ordering::Less) => {
                write_key(out, old?);
                out.extend_from_slice(target.value()?.as_bytes());
                old = target.next_key()?;
            }
            Some(Ordering::Greater) => {
                // A member that is not there is merged like an empty object, so that its own `null`s are removed.
                merge_member(out, new?, &mut Scanner::new("{}"), patch)?;
                new = patch.next_key()?;
            }
            Some(Ordering::Equal) => {
                merge_member(out, new?, target, patch)?;
                (old, new) = (target.next_key()?, patch.next_key()?);
            }
        }
    }
    out.push(b'}');
    Some(())
}

/// One member that the patch names. Both scanners stand before its value.
fn merge_member<'a>(
    out: &mut Vec<u8>,
    key: JsonStr<'a>,
    target: &mut Scanner<'a>,
    patch: &mut Scanner<'a>,
) -> Option<()> {
    let (old, new) = (target.peek()?, patch.peek()?);
    if new != b'n' {
        write_key(out, key);
    }
    if (old, new) == (b'{', b'{') {
        return merge(out, target, patch);
    }
    target.value()?;
    match new {
        b'n' => drop(patch.value()?),
        b'{' => merge(out, &mut Scanner::new("{}"), patch)?,
        _ => out.extend_from_slice(patch.value()?.as_bytes()),
    }
    Some(())
}

/// Which of the two members comes first; nothing when there is none.
fn order(old: Option<JsonStr<'_>>, new: Option<JsonStr<'_>>) -> Option<Ordering> {
    match (old, new) {
        (None, None) => None,
        (Some(_), None) => Some(Ordering::Less),
        (None, Some(_)) => Some(Ordering::Greater),
        (Some(old), Some(new)) => Some(old.order_of_keys(&new)),
    }
}

fn write_key(out: &mut Vec<u8>, key: JsonStr<'_>) {
    // No value ends with this bracket, so behind it comes the first member.
    if out.last() != Some(&b'{') {
        out.push(b',');
    }
    out.push(b'"');
    out.extend_from_slice(key.0.as_bytes());
    out.extend_from_slice(b"\":");
}

/// How much is scanned, for tests of cost.
#[cfg(test)]
pub(crate) mod scanned {
    use std::cell::Cell;

    thread_local! {
        static BYTES: Cell<usize> = const { Cell::new(0) };
    }

    /// Returns how many bytes of canonical text this thread has scanned.
    pub(crate) fn scanned_bytes() -> usize {
        BYTES.get()
    }

    impl Drop for super::Scanner<'_> {
        fn drop(&mut self) {
            BYTES.set(BYTES.get() + self.at);
        }
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
        let cases: [(&[&str], Option<Found<'_>>); 16] = [
            (NO_STEPS, Some(Found::Object(OBJECT))),
            (&[""], Some(Found::Int(0))),
            (&["\0"], Some(Found::Int(1))),
            (&["["], Some(Found::Str(JsonStr("]}\\\"")))),
            (&["a"], Some(Found::Null)),
            (&["d"], Some(Found::Float(1e16))),
            (&["e"], Some(Found::Array(r#"["x",[1,{"y":"]"}],{}]"#))),
            (&["f", "g", "h"], Some(Found::Str(JsonStr(r"\u001fi")))),
            (&["f", "\\u"], Some(Found::Array("[]"))),
            (&["é"], Some(Found::Float(-0.0))),
            (&["😀"], Some(Found::Object("{}"))),
            (&["\\n"], None),
            (&["ab"], None),
            (&["zz"], None),
            (&["e", "0"], None),
            (&["f", "g", "h", "i"], None),
        ];
        for (path, found) in cases {
            assert_eq!(lookup(OBJECT, path), found, "{path:?}");
            if let [key] = path {
                assert_eq!(has_key(OBJECT, key), found.is_some(), "{key:?}");
            }
        }
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

#[cfg(test)]
mod merge_tests {
    use super::*;
    use crate::json::scanned_bytes;
    use crate::samples::object;

    fn merged(target: &str, patch: &str) -> String {
        merge_patch(&object(target), &object(patch)).as_str().to_owned()
    }

    #[test]
    fn a_patch_replaces_merges_and_removes_as_rfc_7396_shows() {
        // The examples of its appendix whose target and patch are objects, and the one of its first section.
        let cases = [
            (r#"{"a":"b"}"#, r#"{"a":"c"}"#, r#"{"a":"c"}"#),
            (r#"{"a":"b"}"#, r#"{"b":"c"}"#, r#"{"a":"b","b":"c"}"#),
            (r#"{"a":"b"}"#, r#"{"a":null}"#, "{}"),
            (r#"{"a":"b","b":"c"}"#, r#"{"a":null}"#, r#"{"b":"c"}"#),
            (r#"{"a":["b"]}"#, r#"{"a":"c"}"#, r#"{"a":"c"}"#),
            (r#"{"a":"c"}"#, r#"{"a":["b"]}"#, r#"{"a":["b"]}"#),
            (r#"{"a":{"b":"c"}}"#, r#"{"a":{"b":"d","c":null}}"#, r#"{"a":{"b":"d"}}"#),
            (r#"{"a":[{"b":"c"}]}"#, r#"{"a":[1]}"#, r#"{"a":[1]}"#),
            (r#"{"e":null}"#, r#"{"a":1}"#, r#"{"a":1,"e":null}"#),
            ("{}", r#"{"a":{"bb":{"ccc":null}}}"#, r#"{"a":{"bb":{}}}"#),
            (r#"{"a":"b","c":{"d":"e","f":"g"}}"#, r#"{"a":"z","c":{"f":null}}"#, r#"{"a":"z","c":{"d":"e"}}"#),
        ];
        for (target, patch, result) in cases {
            assert_eq!(merged(target, patch), result, "{target} {patch}");
        }
    }

    #[test]
    fn a_member_is_reached_wherever_it_stands_and_the_others_stay() {
        let target = r#"{"a":1,"b":{"c":{"d":[1,{"x":null}],"e":"}{\"","f":2}},"g":null,"z":-0.0}"#;
        // Escaped, the first of them would stand behind all others.
        let escaped = r#"{"\n":1,"":2,"A":3,"\"":4,"\u0000":5,"é":6}"#;
        let cases = [
            (
                target,
                r#"{"b":{"c":{"f":3}}}"#,
                r#"{"a":1,"b":{"c":{"d":[1,{"x":null}],"e":"}{\"","f":3}},"g":null,"z":-0.0}"#,
            ),
            (target, r#"{"b":{"c":7},"g":{"h":null}}"#, r#"{"a":1,"b":{"c":7},"g":{},"z":-0.0}"#),
            (escaped, r#"{"\u000a":null,"\u00e9":{},"!":0}"#, r#"{"":2,"\u0000":5,"!":0,"\"":4,"A":3,"é":{}}"#),
            (r#"{"A\n":1}"#, r#"{"A":2,"A\nb":3}"#, r#"{"A":2,"A\n":1,"A\nb":3}"#),
        ];
        for (target, patch, result) in cases {
            assert_eq!(merged(target, patch), result, "{patch}");
        }
    }

    #[test]
    fn both_texts_are_read_once_however_deep_they_are() {
        let nested = |inner: &str| format!("{}{inner}{}", r#"{"a":"#.repeat(60), "}".repeat(60));
        let wide: Vec<String> = (0..2_000).map(|key| format!(r#""k{key:04}":[{key}]"#)).collect();
        let target = object(&nested(&format!("{{{}}}", wide.join(","))));
        for patch in [nested(r#"{"k0500":null,"new":{}}"#), r#"{"a":{"a":{"b":1}}}"#.to_owned(), nested("1")] {
            let (patch, before) = (object(&patch), scanned_bytes());
            let merged = merge_patch(&target, &patch);
            assert_ne!(merged, target);
            let both = target.as_str().len() + patch.as_str().len();
            // An object that is new is merged into an empty one.
            assert!(scanned_bytes() - before <= both + 2 * 64, "{} of {both}", scanned_bytes() - before);
        }
    }

    #[test]
    fn text_that_is_not_canonical_is_survived() {
        for text in ["", "{", "[", "{\"", "{\"a\"", "{\"a\":", "{\"a\":{", "nul", "{}{", "{,", "{\"a\":1 ,}"] {
            let broken = JsonObject::from_canonical(text);
            let _ = merge_patch(&broken, &object(r#"{"a":{"b":1}}"#));
            let _ = merge_patch(&object(r#"{"a":{"b":1}}"#), &broken);
        }
    }
}
