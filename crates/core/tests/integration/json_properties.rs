//! Laws of the `json` module over random values, paths and bytes. Fixed examples stand beside the code.

use std::borrow::Cow;

use proptest::collection::vec;
use proptest::prelude::*;
use taskqueue_core::json::{
    Found, JsonObject, ParseError, Value, elements, has_key, lookup, merge_patch, parse, string_len, write_string,
    write_value,
};

/// Short strings out of few characters: collisions, every kind of escape, and both sides of the code-point order.
fn text() -> impl Strategy<Value = String> {
    let awkward =
        prop::sample::select("ab\"\\/bfnrtu0\n\t\u{0}\u{1f}\u{8}\u{7f}é～😀{}[]:, ".chars().collect::<Vec<_>>());
    vec(prop_oneof![4 => awkward, 1 => any::<char>()], 0..12).prop_map(|characters| characters.into_iter().collect())
}

/// Keys that meet each other and the steps of [`path`].
fn key() -> impl Strategy<Value = String> {
    let few = prop::sample::select(vec!["", "a", "ab", "b", "\\", "\"", "\n", "\\n", "é", "😀"]);
    prop_oneof![3 => few.prop_map(str::to_owned), 1 => text()]
}

fn path() -> impl Strategy<Value = Vec<String>> {
    vec(key(), 0..4)
}

fn scalar() -> impl Strategy<Value = Value<'static>> {
    let finite = any::<f64>().prop_filter("finite", |float| float.is_finite());
    prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::Bool),
        any::<i64>().prop_map(Value::Int),
        finite.prop_map(Value::Float),
        (-1000_i32..1000).prop_map(|whole| Value::Float(f64::from(whole))),
        text().prop_map(|text| Value::Str(Cow::Owned(text))),
    ]
}

/// An object as the parser could give it, but for order and repetition of its keys.
fn object() -> impl Strategy<Value = Value<'static>> {
    let members = |value| vec((key().prop_map(Cow::Owned), value), 0..6).prop_map(Value::Object);
    let inner = scalar().prop_recursive(4, 40, 6, move |inner| {
        prop_oneof![vec(inner.clone(), 0..5).prop_map(Value::Array), members(inner)]
    });
    members(inner.boxed())
}

fn written(value: &Value<'_>) -> String {
    let mut out = Vec::new();
    write_value(&mut out, value);
    String::from_utf8(out).expect("UTF-8")
}

/// The member at `path`, found by walking the tree.
fn walk<'v, 'a>(value: &'v Value<'a>, path: &[String]) -> Option<&'v Value<'a>> {
    let Some((step, rest)) = path.split_first() else { return Some(value) };
    let Value::Object(members) = value else { return None };
    members.iter().find(|(key, _)| key == step).and_then(|(_, member)| walk(member, rest))
}

/// The members of an object by key, as the parser would give them.
fn normal(value: &Value<'_>) -> Value<'static> {
    parse_owned(&written(value))
}

fn parse_owned(text: &str) -> Value<'static> {
    fn owned(value: Value<'_>) -> Value<'static> {
        match value {
            Value::Null => Value::Null,
            Value::Bool(boolean) => Value::Bool(boolean),
            Value::Int(integer) => Value::Int(integer),
            Value::Float(float) => Value::Float(float),
            Value::Str(text) => Value::Str(Cow::Owned(text.into_owned())),
            Value::Array(items) => Value::Array(items.into_iter().map(owned).collect()),
            Value::Object(members) => {
                let own = |(key, member): (Cow<'_, str>, _)| (Cow::Owned(key.into_owned()), owned(member));
                Value::Object(members.into_iter().map(own).collect())
            }
            unusable => panic!("{unusable:?}"),
        }
    }
    owned(parse(text.as_bytes()).expect("well-formed"))
}

/// The pseudocode of RFC 7396, on trees.
fn rfc_7396<'a>(target: Option<&Value<'a>>, patch: &Value<'a>) -> Value<'a> {
    let Value::Object(changes) = patch else { return patch.clone() };
    let mut members = if let Some(Value::Object(members)) = target { members.clone() } else { Vec::new() };
    for (key, change) in changes {
        let old = members.iter().position(|(name, _)| name == key).map(|at| members.remove(at).1);
        if *change != Value::Null {
            members.push((key.clone(), rfc_7396(old.as_ref(), change)));
        }
    }
    members.sort_by(|left, right| left.0.cmp(&right.0));
    Value::Object(members)
}

fn levels(value: &Value<'_>) -> usize {
    match value {
        Value::Array(items) => 1 + items.iter().map(levels).max().unwrap_or(0),
        Value::Object(members) => 1 + members.iter().map(|(_, member)| levels(member)).max().unwrap_or(0),
        _ => 0,
    }
}

fn same(found: &Found<'_>, value: &Value<'_>) -> bool {
    match (found, value) {
        (Found::Null, Value::Null) => true,
        (Found::Bool(left), Value::Bool(right)) => left == right,
        (Found::Int(left), Value::Int(right)) => left == right,
        (Found::Float(left), Value::Float(right)) => left.to_bits() == right.to_bits(),
        (Found::Str(left), Value::Str(right)) => left.is(right) && left.to_text() == *right,
        (Found::Array(text), Value::Array(items)) => {
            *text == written(value)
                && elements(text).count() == items.len()
                && elements(text).zip(items).all(|(found, item)| same(&found, item))
        }
        (Found::Object(text), Value::Object(_)) => *text == written(value),
        _ => false,
    }
}

/// Whether two readers understood the same; `serde_json` reads floats to the last bit only on request.
fn agrees(ours: &Value<'_>, theirs: &serde_json::Value) -> bool {
    match (ours, theirs) {
        (Value::Null, serde_json::Value::Null) => true,
        (Value::Bool(left), serde_json::Value::Bool(right)) => left == right,
        (Value::Int(left), serde_json::Value::Number(right)) => {
            // `-0` is a float for them.
            right.as_i64() == Some(*left) || (*left == 0 && right.as_f64() == Some(0.0))
        }
        (Value::Float(left), serde_json::Value::Number(right)) => {
            let tolerance = left.abs().max(f64::MIN_POSITIVE) * 1e-14;
            right.is_f64() && right.as_f64().is_some_and(|right| (left - right).abs() <= tolerance)
        }
        (Value::Str(left), serde_json::Value::String(right)) => left == right,
        (Value::Array(left), serde_json::Value::Array(right)) => {
            left.len() == right.len() && left.iter().zip(right).all(|(left, right)| agrees(left, right))
        }
        (Value::Object(left), serde_json::Value::Object(right)) => {
            left.len() == right.len()
                && left.iter().all(|(key, left)| right.get(&**key).is_some_and(|right| agrees(left, right)))
        }
        // An integer too large for us is a float or an unsigned integer for them.
        (Value::Unusable(_), serde_json::Value::Number(right)) => right.as_i64().is_none(),
        _ => false,
    }
}

fn has_unusable(value: &Value<'_>) -> bool {
    match value {
        Value::Unusable(_) | Value::LoneSurrogateKeys(_) => true,
        Value::Array(items) => items.iter().any(has_unusable),
        Value::Object(members) => members.iter().any(|(_, member)| has_unusable(member)),
        _ => false,
    }
}

/// Whether `text` has room for duplicate keys: we discard the unusable value of the first, which `serde_json` refuses.
fn duplicates_hide(text: &str) -> bool {
    text.matches(':').count() > 1
}

/// Text made of pieces of JSON: often nearly right.
fn nearly_json() -> impl Strategy<Value = String> {
    let words = r#"{ } [ ] , : " "a" "b": "\u00e9 \ud83d \ude00 \n \ true null fal 0 - 1 12 .5 e3 E-2 1.25 é {} []"#;
    let pieces = words.split(' ').chain([" ", "\n", "\t", "\u{1}", "99999999999999999999"]).collect::<Vec<_>>();
    vec(prop::sample::select(pieces), 0..14).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(1000) })]

    #[test]
    fn canonical_text_is_a_fixed_point(value in object()) {
        let text = written(&value);
        let parsed = parse(text.as_bytes()).expect("well-formed");
        let canonical = JsonObject::from_value(&parsed).expect("usable");
        let again = parse(canonical.as_str().as_bytes()).expect("well-formed");
        prop_assert_eq!(&again, &parsed);
        prop_assert_eq!(JsonObject::from_value(&again).expect("usable"), canonical);
    }

    #[test]
    fn the_order_of_members_does_not_matter_unless_keys_repeat(value in object()) {
        let Value::Object(mut members) = value else { unreachable!() };
        members.sort_by(|left, right| left.0.cmp(&right.0));
        members.dedup_by(|left, right| left.0 == right.0);
        let forward = written(&Value::Object(members.clone()));
        members.reverse();
        let backward = written(&Value::Object(members));
        let canonical = |text: &str| JsonObject::from_value(&parse(text.as_bytes()).expect("well-formed"));
        prop_assert_eq!(canonical(&forward), canonical(&backward));
    }

    #[test]
    fn lookup_finds_what_a_walk_over_the_tree_finds(value in object(), paths in vec(path(), 8)) {
        let text = written(&value);
        let tree = parse(text.as_bytes()).expect("well-formed");
        let object = JsonObject::from_value(&tree).expect("usable");
        let Value::Object(members) = &tree else { unreachable!() };
        let every_member = members.iter().map(|(key, _)| vec![key.clone().into_owned()]);
        for path in every_member.chain(paths) {
            let (found, expected) = (lookup(object.as_str(), &path), walk(&tree, &path));
            let agree = match (&found, expected) {
                (Some(found), Some(expected)) => same(found, expected),
                (None, None) => true,
                _ => false,
            };
            prop_assert!(agree, "{path:?} in {object:?}: {found:?}, not {expected:?}");
            if let [key] = &path[..] {
                prop_assert_eq!(has_key(object.as_str(), key), expected.is_some());
            }
        }
    }

    #[test]
    fn a_string_reads_back_and_is_as_long_as_it_says(text in text(), other in text()) {
        let mut out = Vec::new();
        write_string(&mut out, &text);
        prop_assert_eq!(out.len(), string_len(&text));
        prop_assert_eq!(parse(&out), Ok(Value::Str(Cow::Borrowed(&text))));
        let object = format!("{{\"v\":{}}}", String::from_utf8(out).expect("UTF-8"));
        let Some(Found::Str(found)) = lookup(&object, &["v"]) else { panic!("a string: {object}") };
        prop_assert!(found.is(&text));
        prop_assert_eq!(found.is(&other), text == other);
        prop_assert_eq!(found.to_text(), text);
    }

    #[test]
    fn parse_understands_what_serde_json_understands(
        text in prop_oneof![nearly_json(), object().prop_map(|object| written(&object))],
    ) {
        match (parse(text.as_bytes()), serde_json::from_str::<serde_json::Value>(&text)) {
            (Ok(ours), Ok(theirs)) => prop_assert!(agrees(&ours, &theirs), "{text}: {ours:?}, not {theirs:?}"),
            (Ok(ours), Err(error)) => {
                prop_assert!(has_unusable(&ours) || duplicates_hide(&text), "{text}: {ours:?}, not {error}");
            }
            (Err(ParseError::Malformed { byte, .. }), theirs) => {
                prop_assert!(theirs.is_err(), "{text}: malformed at {byte}, not {theirs:?}");
                prop_assert!(byte <= text.len());
            }
            (Err(ParseError::TooDeep), _) => prop_assert!(false, "{text} is not deep"),
        }
    }

    #[test]
    fn a_patch_does_what_the_pseudocode_of_rfc_7396_does(target in object(), patch in object()) {
        let (target, patch) = (normal(&target), normal(&patch));
        let of = |value: &Value<'_>| JsonObject::from_value(value).expect("usable");
        let merged = merge_patch(&of(&target), &of(&patch));
        let expected = rfc_7396(Some(&target), &patch);
        prop_assert_eq!(&merged, &of(&expected));
        prop_assert_eq!(parse_owned(merged.as_str()), expected, "canonical again");
        prop_assert_eq!(merge_patch(&merged, &of(&patch)), merged.clone(), "a second time it changes nothing");
        prop_assert!(levels(&parse_owned(merged.as_str())) <= levels(&target).max(levels(&patch)));
        prop_assert!(merged.as_str().len() <= of(&target).as_str().len() + of(&patch).as_str().len());
    }

    #[test]
    fn no_bytes_make_the_module_panic(bytes in vec(any::<u8>(), 0..60), path in path()) {
        let _ = parse(&bytes);
        let text = String::from_utf8_lossy(&bytes);
        let _ = (lookup(&text, &path), elements(&text).count());
    }

    #[test]
    fn no_damage_to_canonical_text_makes_lookup_panic(
        value in object(), path in path(), damage in any::<prop::sample::Index>(), byte in any::<u8>(),
    ) {
        let mut bytes = written(&value).into_bytes();
        let at = damage.index(bytes.len());
        bytes[at] = byte;
        let text = String::from_utf8_lossy(&bytes);
        let _ = (parse(&bytes), lookup(&text, &path), elements(&text).count());
        let (damaged, whole) = (JsonObject::from_canonical(&text), JsonObject::from_canonical(&written(&normal(&value))));
        let _ = (merge_patch(&damaged, &whole), merge_patch(&whole, &damaged));
    }
}
