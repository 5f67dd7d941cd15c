//! The size of stored data against an independent writer of canonical JSON (`serde_json`, whose maps are sorted): whatever a
//! definition holds, what is counted is what would be written, to the byte.

use std::sync::Arc;

use proptest::collection::{btree_map, btree_set, vec};
use proptest::prelude::*;
use serde_json::{Value, json};
use taskqueue_core::definition::{check_stored_size, task_name};
use taskqueue_core::json as canonical;
use taskqueue_core::limits::TASK_DATA_BYTES;

use crate::prelude::*;

/// The stored data as the contract defines it: the canonical JSON of these seven members.
fn written(definition: &Definition, args: &Value, metadata: &Value, result: &Value) -> String {
    let members = json!({
        "args": args,
        "max_attempts": definition.max_attempts,
        "metadata": metadata,
        "name": definition.name.as_deref(),
        "priority": definition.priority,
        "result": result,
        "routes": definition.routes.iter().collect::<Vec<_>>(),
    });
    members.to_string()
}

/// The object as a client may send it: every character behind an escape, blanks between everything.
fn object(value: &Value) -> JsonObject {
    let text = serde_json::to_string_pretty(value).unwrap();
    let escaped: String =
        text.chars().map(|character| if character.is_ascii() { character.into() } else { escape(character) }).collect();
    JsonObject::from_value(&canonical::parse(escaped.as_bytes()).unwrap()).unwrap()
}

fn escape(character: char) -> String {
    character.encode_utf16(&mut [0; 2]).iter().map(|unit| format!("\\u{unit:04x}")).collect()
}

/// Characters that JSON escapes, that it does not escape though one might think so, and those of one to four bytes.
fn text() -> impl Strategy<Value = String> {
    let awkward =
        prop::sample::select("a\"\\/\n\t\u{8}\u{c}\r\u{0}\u{1f}\u{7f}\u{80}é\u{2028}～😀".chars().collect::<Vec<_>>());
    vec(prop_oneof![4 => awkward, 1 => any::<char>()], 0..20).prop_map(|characters| characters.into_iter().collect())
}

/// Names are texts without control characters.
fn name() -> impl Strategy<Value = Option<Arc<str>>> {
    let named = text().prop_map(|text| text.chars().filter(|character| !character.is_control()).collect::<String>());
    prop::option::of(named.prop_map(|name| task_name(&name).unwrap()))
}

fn routes() -> impl Strategy<Value = Routes> {
    let routes = btree_set("[A-Za-z0-9][A-Za-z0-9._-]{0,20}", 1..6);
    routes.prop_map(|routes| Routes::new(routes.iter().map(|route| Route::parse(route).unwrap()).collect()).unwrap())
}

fn member() -> impl Strategy<Value = Value> {
    // Floats without an exponent, which the contract lets each writer write as it likes.
    let floats = prop::sample::select(vec![0.0, -0.0, 1.0, -2.5, 0.1, 1e15, 123456.789]);
    let scalar = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        (-1000_i64..1000).prop_map(Value::from),
        floats.prop_map(Value::from),
        text().prop_map(Value::from),
    ];
    scalar.prop_recursive(3, 20, 5, |inner| {
        let members = btree_map(text(), inner.clone(), 0..5).prop_map(|members| members.into_iter().collect());
        prop_oneof![vec(inner, 0..5).prop_map(Value::from), members]
    })
}

fn members() -> impl Strategy<Value = Value> {
    btree_map(text(), member(), 0..5).prop_map(|members| members.into_iter().collect())
}

/// Small numbers more often than those that fill 64 bits.
fn number() -> impl Strategy<Value = i64> {
    prop_oneof![-11_i64..101, any::<i64>(), Just(i64::MIN), Just(i64::MAX)]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(1000) })]

    #[test]
    fn what_counts_is_what_would_be_written(
        name in name(), args in members(), metadata in members(), result in members(),
        priority in number(), max_attempts in number(), routes in routes(),
    ) {
        let objects = [&args, &metadata, &result].map(object);
        let [args_kept, metadata_kept, result_kept] = objects;
        let scheduling = Scheduling::default();
        let definition =
            Definition { name, args: args_kept, metadata: metadata_kept, priority, max_attempts, routes, scheduling };
        let text = written(&definition, &args, &metadata, &result);
        prop_assert_eq!(definition.stored_bytes() + result_kept.as_str().len(), text.len(), "{}", text);
    }
}

/// A worker is no part of the stored data.
#[test]
fn what_a_run_says_counts_for_memory_and_pages_and_its_progress_for_the_stored_size() {
    let value = JsonObject::from_canonical(r#"{"step":1}"#);
    let (plain, bytes) = (new_task(), value.as_str().len());
    let said = [
        Outcome { last_run: Some(LastRun { attempt: 1, worker: value.clone() }), ..Outcome::empty() },
        Outcome { progress: Some(Progress { value, updated_at: at(1), attempt: 1 }), ..Outcome::empty() },
    ];
    for (outcome, progress_bytes) in said.into_iter().zip([0, bytes]) {
        let task = Task { outcome, ..plain.clone() };
        assert_eq!((task.bytes(), task.view().bytes()), (plain.bytes() + bytes, plain.view().bytes() + bytes));
        let (head, plain) = (task.head(), plain.head());
        assert_eq!((head.progress_bytes, head.definition_bytes), (progress_bytes, plain.definition_bytes));
    }
}

/// At the limit of 1 MiB each byte decides, and each of these parts has its own way to be counted.
#[test]
fn exactly_the_limit_is_accepted_and_one_byte_more_refused_whatever_the_parts_are() {
    let names = ["", "\"", "\\", "/", "é", "\u{2028}", "～", "😀", "\"\\é😀a"].map(|piece| {
        let name: String = piece.chars().cycle().take(if piece.is_empty() { 0 } else { 256 }).collect();
        Some(task_name(&name).unwrap())
    });
    let routes =
        |routes: &[&str]| Routes::new(routes.iter().map(|route| Route::parse(route).unwrap()).collect()).unwrap();
    let numbers = [0, 9, 10, -1, -10, i64::MAX, i64::MIN];
    let definitions = names.into_iter().chain([None]).map(|name| Definition { name, ..Definition::default() });
    let definitions = definitions.chain(numbers.map(|priority| Definition { priority, ..Definition::default() }));
    let definitions = definitions.chain(
        [routes(&["a"]), routes(&["b", "a", "c-c"])].map(|routes| Definition { routes, ..Definition::default() }),
    );
    let keys = ["\"", "\\", "\n", "\u{0}", "\u{7f}", "é", "😀"].map(|key| (Definition::default(), key));
    for (definition, key) in definitions.map(|definition| (definition, "k")).chain(keys) {
        let sized = |filling: usize| json!({key: "x".repeat(filling)});
        let bytes = |filling: usize| written(&definition, &sized(filling), &json!({}), &json!({})).len();
        let filling = TASK_DATA_BYTES - bytes(0);
        assert_eq!(bytes(filling), TASK_DATA_BYTES);
        let check = |filling: usize| {
            let args = JsonObject::from_canonical(&sized(filling).to_string());
            let definition = Definition { args, ..definition.clone() };
            check_stored_size(definition.stored_bytes(), JsonObject::empty().as_str().len(), 0)
        };
        assert_eq!(check(filling), Ok(()), "{definition:?} {key:?}");
        assert_eq!(check(filling + 1), Err(Refusal::TaskDataTooLarge), "{definition:?} {key:?}");
    }
}
