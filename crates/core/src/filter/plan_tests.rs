//! What a filter costs: bytes of documents that are gone over, whatever the number of predicates.

use crate::definition::Definition;
use crate::filter::{ObservationFilter, TaskFilter};
use crate::json::{JsonObject, parse, scanned_bytes};
use crate::limits::{FILTER_BYTES, TELEMETRY_BYTES};
use crate::observation::{Observation, Telemetry};
use crate::samples::{at, idle_worker, new_task};
use crate::task::Task;

fn task(args: JsonObject) -> Task {
    Task { definition: Definition { args, ..Definition::default() }, ..new_task() }
}

/// How many bytes of documents are gone over for this filter on a task with these args.
fn cost(filter: &str, args: &str) -> usize {
    assert!(filter.len() <= FILTER_BYTES, "{} bytes", filter.len());
    let value = parse(args.as_bytes()).unwrap();
    let task = task(JsonObject::from_value(&value).unwrap());
    let filter = TaskFilter::parse(filter).unwrap();
    let before = scanned_bytes();
    filter.matches(&task.view());
    scanned_bytes() - before
}

fn joined(predicates: impl Iterator<Item = String>) -> String {
    predicates.collect::<Vec<_>>().join(" or ")
}

#[test]
fn four_hundred_predicates_cost_about_as_much_as_one() {
    let padding = "x".repeat(200);
    let members: Vec<String> = (0..500).map(|n| format!("\"k{n}\":[{n},\"{padding}\",{{\"a\":{n}}}]")).collect();
    let args = format!("{{{}}}", members.join(","));
    let one = cost("args.zz == 1", &args);
    assert!(one > 100_000, "it is looked through: {one}");
    let many = [
        joined((0..400).map(|n| format!("args.k{n}==1"))),
        joined((0..400).map(|n| format!("args.z{n}==1"))),
        joined((0..400).map(|_| "args.zz==1".to_owned())),
        joined((0..250).map(|n| format!("missing(args.k{n})"))),
        joined((0..300).map(|n| format!("'k{n}x' in args"))),
        joined((0..300).map(|n| format!("'{n}' in args.k400"))),
        joined((0..250).map(|n| format!("{n} not in args.k{n}"))),
        joined((0..200).map(|n| format!("args.k{n}.a.b.c.d.e==1"))),
    ];
    for filter in many {
        let cost = cost(&filter, &args);
        assert!(cost <= 2 * one, "{cost} instead of {one}: {}", &filter[..60]);
    }
}

#[test]
fn a_filter_of_many_predicates_goes_over_telemetry_once() {
    let telemetry = format!("{{\"a\":\"{}\"}}", "x".repeat(TELEMETRY_BYTES - 8));
    let telemetry = Some(Telemetry { value: JsonObject::from_canonical(&telemetry), updated_at: at(1) });
    let seen = Observation { telemetry, ..idle_worker() };
    let cost = |filter: &str| {
        let filter = ObservationFilter::parse(filter).unwrap();
        let before = scanned_bytes();
        assert!(!filter.matches(&seen));
        scanned_bytes() - before
    };
    let one = cost("telemetry.z == 1");
    assert!(one >= TELEMETRY_BYTES / 2, "it is looked through: {one}");
    let many = cost(&joined((0..300).map(|n| format!("telemetry.z{n}==1"))));
    assert!(many <= 2 * one, "{many} instead of {one}");
}

#[test]
fn asking_for_keys_at_every_level_costs_about_one_scan() {
    let levels = 60;
    let args = format!(
        "{}[\"{}\"]{}",
        "{\"a\":{\"b\":{".to_owned() + &"\"a\":{".repeat(levels - 2) + "\"l\":",
        "x".repeat(100_000),
        ",\"z\":1}".repeat(levels - 2) + "}}}"
    );
    let path = |depth: usize| format!("args.a.b{}", ".a".repeat(depth));
    let filter = joined((0..levels - 4).map(|depth| format!("'y' in {}", path(depth))));
    let cost = cost(&filter, &args);
    assert!(cost <= 2 * args.len(), "{cost} of {}", args.len());
}

#[test]
fn many_literals_are_looked_for_in_one_pass_over_an_array() {
    let items: Vec<String> = (0..20_000).map(|n| format!("\"i{n}\"")).collect();
    let args = format!("{{\"list\":[{}]}}", items.join(","));
    let filter = joined((0..300).map(|n| format!("'none{n}' in args.list")));
    let cost = cost(&filter, &args);
    assert!(cost <= 3 * args.len(), "{cost} of {}", args.len());
}

#[test]
fn a_document_that_no_predicate_reaches_is_not_looked_at() {
    let args = format!("{{\"a\":\"{}\"}}", "x".repeat(10_000));
    let filter = joined(std::iter::once("exists(id)".to_owned()).chain((0..100).map(|n| format!("args.b{n}==1"))));
    assert_eq!(cost(&filter, &args), 0);
}

#[test]
fn a_path_deeper_than_any_document_is_missing() {
    let deep = format!("args{}", ".a".repeat(65));
    let task = task(JsonObject::empty());
    for (text, expected) in [
        (format!("missing({deep})"), true),
        (format!("exists({deep})"), false),
        (format!("{deep} != 1 or args.b == 1"), false),
        (format!("'a' not in {deep} or args.b == 1"), false),
    ] {
        assert_eq!(TaskFilter::parse(&text).unwrap().matches(&task.view()), expected, "{}", &text[..20]);
    }
}
