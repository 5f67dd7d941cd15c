//! JSON merge patches (RFC 7396) on canonical text: members replace, nested objects merge, `null` removes a member. Both texts
//! are sorted, so one pass over each is enough, and what comes out is canonical again. No tree is built.

use std::cmp::Ordering;

use super::canonical::JsonObject;
use super::lookup::Scanner;
use super::strings::JsonStr;

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
    match (target.peek()?, patch.peek()?) {
        (_, b'n') => {
            target.value()?;
            patch.value()?;
        }
        (b'{', b'{') => {
            write_key(out, key);
            merge(out, target, patch)?;
        }
        (_, b'{') => {
            target.value()?;
            write_key(out, key);
            merge(out, &mut Scanner::new("{}"), patch)?;
        }
        _ => {
            target.value()?;
            write_key(out, key);
            out.extend_from_slice(patch.value()?.as_bytes());
        }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::{parse, scanned_bytes};

    fn object(text: &str) -> JsonObject {
        JsonObject::from_value(&parse(text.as_bytes()).unwrap()).unwrap()
    }

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
        let cases = [
            (r#"{"b":{"c":{"f":3}}}"#, r#"{"a":1,"b":{"c":{"d":[1,{"x":null}],"e":"}{\"","f":3}},"g":null,"z":-0.0}"#),
            (r#"{"b":{"c":{"d":null,"e":null,"f":null}}}"#, r#"{"a":1,"b":{"c":{}},"g":null,"z":-0.0}"#),
            (r#"{"b":null,"g":null,"z":null,"no":null}"#, r#"{"a":1}"#),
            (r#"{"b":{"c":7},"g":{"h":null}}"#, r#"{"a":1,"b":{"c":7},"g":{},"z":-0.0}"#),
            (
                r#"{"a":{"b":{"c":null,"d":1},"e":[null,{"f":null}]}}"#,
                concat!(
                    r#"{"a":{"b":{"d":1},"e":[null,{"f":null}]},"b":{"c":{"d":[1,{"x":null}],"e":"}{\"","f":2}},"#,
                    r#""g":null,"z":-0.0}"#
                ),
            ),
        ];
        for (patch, result) in cases {
            assert_eq!(merged(target, patch), result, "{patch}");
        }
    }

    #[test]
    fn keys_are_compared_as_what_they_stand_for() {
        // Escaped, the first of them would stand behind all others.
        let target = r#"{"\n":1,"":2,"A":3,"\"":4,"\u0000":5,"é":6}"#;
        assert_eq!(
            merged(target, r#"{"\u000a":null,"\u00e9":{},"!":0}"#),
            r#"{"":2,"\u0000":5,"!":0,"\"":4,"A":3,"é":{}}"#
        );
        assert_eq!(merged(r#"{"A\n":1}"#, r#"{"A":2,"A\nb":3}"#), r#"{"A":2,"A\n":1,"A\nb":3}"#);
    }

    #[test]
    fn the_empty_patch_and_one_that_says_what_is_there_change_nothing() {
        let target = r#"{"a":{"b":1.0},"c":[]}"#;
        for patch in ["{}", r#"{"a":{}}"#, r#"{"a":{"b":1e0}}"#, r#"{"c":[],"d":null,"a":{"e":null}}"#, target] {
            assert_eq!(merge_patch(&object(target), &object(patch)), object(target), "{patch}");
        }
        assert_ne!(merged(target, r#"{"a":{"b":1}}"#), target, "an integer is no float");
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
