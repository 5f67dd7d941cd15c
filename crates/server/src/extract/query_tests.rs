//! Every rule of docs/reference/http-api.md §3.2, §7 and §8 about queries, one line each.

use super::*;

fn list(raw: &str) -> Result<ListTasks, Invalid> {
    Query::new(Some(raw)).list_tasks()
}

#[test]
fn values_are_decoded_and_the_last_one_counts() {
    let cases = [
        ("", None),
        ("name=a", Some("a")),
        ("name=", Some("")),
        ("name", Some("")),
        ("name=a&name=b", Some("b")),
        ("name=a&name", Some("")),
        ("Name=a", None),
        ("name=a;name=b", Some("a;name=b")),
        ("name=a=b", Some("a=b")),
        ("&&name=a&", Some("a")),
        ("name=a+b%2Bc%20d", Some("a b+c d")),
        ("n%61me=a", Some("a")),
        ("name=%C3%A9%00", Some("é\0")),
        ("name=%FFx", Some("\u{fffd}x")),
        ("name=%zz%4", Some("%zz%4")),
        ("name=100%", Some("100%")),
        ("name=%2541", Some("%41")),
    ];
    for (raw, expected) in cases {
        assert_eq!(list(raw).unwrap().selectors.others.name.as_deref(), expected, "{raw}");
    }
    let nothing = format!("{:?}", Selectors::default());
    assert_eq!(format!("{:?}", Query::new(None).list_tasks().unwrap().selectors), nothing);
}

#[test]
fn lists_and_counts_are_asked_for_archived_tasks_by_a_boolean() {
    let cases = [
        ("", Some(false)),
        ("include_archived=true", Some(true)),
        ("include_archived=ON&limit=5", Some(true)),
        ("include_archived=1&include_archived=no", Some(false)),
        ("include_archived=", None),
        ("include_archived=2", None),
    ];
    for (raw, expected) in cases {
        assert_eq!(list(raw).ok().map(|list| list.selectors.others.include_archived), expected, "{raw}");
        let counted = Query::new(Some(raw)).count_tasks();
        assert_eq!(counted.is_ok(), raw.is_empty() || expected.is_some() && !raw.contains("limit"), "{raw}");
    }
    assert!(list("include_archived=y").unwrap().selectors.others.include_archived);
}

#[test]
fn a_limit_is_decimal_digits_from_1_to_1000() {
    let cases = [
        ("", Some(100)),
        ("limit=1", Some(1)),
        ("limit=1000", Some(1000)),
        ("limit=007", Some(7)),
        ("limit=00000000000000000000000000000000001", Some(1)),
        ("limit=x&limit=5", Some(5)),
        ("Limit=x", Some(100)),
    ];
    let refused = "limit=0 limit=1001 limit=65541 limit=99999999999999999999999999 limit= limit limit=-1 limit=+5 limit=%2B5 \
         limit=1.5 limit=5.0 limit=1e2 limit=0x10 limit=1_0 limit=%205 limit=５ limit=5&limit=x";
    let refused = refused.split(' ').map(|raw| (raw, None));
    for (raw, expected) in cases.into_iter().chain(refused) {
        assert_eq!(list(raw).ok().map(|list| list.limit), expected, "{raw}");
    }
}

#[test]
fn a_boolean_is_one_of_twelve_words_in_any_letter_case() {
    let cascade = |word: &str| Query::new(Some(&format!("cascade={word}"))).delete_queue().ok();
    for word in ["true", "TRUE", "t", "Yes", "y", "oN", "1"] {
        assert_eq!(cascade(word), Some(true), "{word}");
    }
    for word in ["false", "F", "no", "N", "OFF", "0"] {
        assert_eq!(cascade(word), Some(false), "{word}");
    }
    for word in ["", "2", "null", "1.0", "%20true", "true+", "tru", "wahr", "yess"] {
        assert_eq!(cascade(word), None, "{word}");
    }
    assert_eq!(Query::new(None).delete_queue(), Ok(false));
    assert!(list("").unwrap().order.descending);
    assert!(!list("descending=off").unwrap().order.descending);
}

#[test]
fn selectors_and_order_take_the_words_of_the_contract_only() {
    for raw in ["status=pending", "order_by=finished_at", "unknown=1", "filter=((&cursor="] {
        assert!(list(raw).is_ok(), "{raw}");
    }
    let refused = "status=Pending status= status=pending,running order_by= order_by=queue order_by=ID";
    for raw in refused.split(' ') {
        assert!(list(raw).is_err(), "{raw}");
    }
}

#[test]
fn all_errors_of_a_query_are_reported_with_their_places() {
    let invalid = list("status=x&limit=0&descending=2&order_by=y").unwrap_err();
    assert_eq!(invalid.code, ErrorCode::InvalidRequest);
    let details = invalid.details().end();
    let details: serde_json::Value = serde_json::from_slice(&details).unwrap();
    let places: Vec<String> = details["errors"].as_array().unwrap().iter().map(|e| e["location"].to_string()).collect();
    let expected = ["status", "order_by", "descending", "limit"].map(|name| format!("[\"query\",\"{name}\"]"));
    assert_eq!(places, expected);
}

#[test]
fn grouping_is_given_once_in_a_documented_spelling_and_pages_only_groups() {
    let tasks = |raw: &str| {
        let counted = Query::new(Some(raw)).count_tasks().ok();
        counted.map(|(_, grouping)| grouping.map(|grouping| grouping.shape))
    };
    let shape = |text: &str| Some(Some(text.to_owned()));
    let cases = [
        ("", Some(None)),
        ("group_by=routes", shape("routes")),
        ("group_by=status%2Croutes", shape("status,routes")),
        ("group_by=routes&limit=5&cursor=", shape("routes")),
        ("order_by=nonsense&descending=maybe", Some(None)),
    ];
    let refused = "group_by= group_by=route group_by=routes,+status group_by=routes&group_by=routes group_by=&group_by=routes \
         group_by=routes&group_by group_by=routes&limit=0 limit=5 limit= cursor=";
    for (raw, expected) in cases.into_iter().chain(refused.split(' ').map(|raw| (raw, None))) {
        assert_eq!(tasks(raw), expected, "{raw}");
    }
    assert!(Query::new(Some("group_by=route,status")).count_workers().is_ok());
    assert!(Query::new(Some("group_by=routes")).count_workers().is_err());
}

#[test]
fn a_series_has_a_unit_and_times_only_with_it() {
    let stats = |raw: &str| Query::new(Some(raw)).stats();
    assert_eq!(stats(""), Ok(None));
    let at = |text: &str| Timestamp::parse(text);
    let (from, to) = ("2026-01-31T12:00:00Z", "2026-01-31T13:00:00.5Z");
    let selection = SeriesSelection { unit: Unit::Hour, from: at(from), to: at(to) };
    assert_eq!(stats(&format!("series=hour&from={from}&to={to}")), Ok(Some(selection)));
    let minutes = SeriesSelection { unit: Unit::Minute, from: None, to: None };
    assert_eq!(stats("series=minute"), Ok(Some(minutes)));
    assert_eq!(stats(&format!("series=minute&from={from}&to={from}")).map(|series| series.is_some()), Ok(true));
    let refused = [
        ("series=day", "series"),
        ("series=", "series"),
        ("series=Minute", "series"),
        ("series=minute&from=yesterday", "from"),
        ("series=minute&from=", "from"),
        ("series=minute&to=1700000000", "to"),
        ("series=minute&from=2026-01-31T12:00:00%2B01:00x", "from"),
        (&format!("from={from}"), "from"),
        (&format!("to={from}"), "to"),
        (&format!("series=minute&from={to}&to={from}"), "to"),
    ];
    for (raw, parameter) in refused {
        let errors = stats(raw).unwrap_err().errors;
        let told = format!("{errors:?}");
        assert!(told.contains(&format!("\"{parameter}\"")), "{raw}: {told}");
    }
}
