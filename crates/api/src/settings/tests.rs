//! Good and bad patches, one line each; and that settings and patches read back as themselves.

use taskqueue_core::json;

use super::*;
use crate::body::{decode, encode};
use crate::tests::{agree, check, reads_back};

fn route(name: &str) -> Route {
    Route::parse(name).unwrap()
}

fn limits(limits: &[(&str, Option<u64>)]) -> SettingsPatch {
    let limits = limits.iter().map(|(name, limit)| (route(name), *limit)).collect();
    SettingsPatch { route_limits: RouteLimitsPatch::Merge(limits), ..SettingsPatch::default() }
}

fn retention(succeeded: Option<Option<u64>>, others: Option<Option<u64>>) -> SettingsPatch {
    let retention = RetentionPatch { succeeded_seconds: succeeded, failed_seconds: others, cancelled_seconds: others };
    SettingsPatch { retention, ..SettingsPatch::default() }
}

#[test]
fn a_patch_changes_what_it_names_and_null_sets_the_default() {
    let of_queue = |paused, max_running| SettingsPatch { paused, max_running, ..SettingsPatch::default() };
    let cases = [
        ("{}", SettingsPatch::default()),
        (r#"{"paused":true}"#, of_queue(Some(true), None)),
        (r#"{"paused":null,"max_running":0}"#, of_queue(Some(false), Some(Some(0)))),
        (r#"{"max_running":9223372036854775807}"#, of_queue(None, Some(Some(i64::MAX.unsigned_abs())))),
        (r#"{"max_running":null}"#, of_queue(None, Some(None))),
        (
            r#"{"route_limits":null}"#,
            SettingsPatch { route_limits: RouteLimitsPatch::Clear, ..SettingsPatch::default() },
        ),
        (r#"{"route_limits":{}}"#, limits(&[])),
        (r#"{"route_limits":{"gpu":8,"cpu":null}}"#, limits(&[("gpu", Some(8)), ("cpu", None)])),
        (r#"{"retention":null}"#, retention(Some(None), Some(None))),
        (r#"{"retention":{}}"#, SettingsPatch::default()),
        (r#"{"retention":{"succeeded_seconds":60}}"#, retention(Some(Some(60)), None)),
        (r#"{"retention":{"failed_seconds":null,"cancelled_seconds":null}}"#, retention(None, Some(None))),
    ];
    for (body, meant) in cases {
        assert_eq!(decode::<SettingsPatch>(body.as_bytes()), Ok(meant.clone()), "{body}");
        check::<SettingsPatchSchema>(body);
        reads_back(&meant);
    }
    let both = encode(&limits(&[("gpu", Some(8)), ("cpu", None)]));
    assert_eq!(String::from_utf8(both).unwrap(), r#"{"route_limits":{"cpu":null,"gpu":8}}"#);
}

#[test]
fn everything_else_is_refused_at_its_place() {
    let cases = [
        ("null", r#"["body"]"#),
        ("[]", r#"["body"]"#),
        (r#"{"pause":true}"#, r#"["body","pause"]"#),
        (r#"{"paused":1}"#, r#"["body","paused"]"#),
        (r#"{"max_running":-1}"#, r#"["body","max_running"]"#),
        (r#"{"max_running":1.0}"#, r#"["body","max_running"]"#),
        (r#"{"max_running":9223372036854775808}"#, r#"["body","max_running"]"#),
        (r#"{"route_limits":[]}"#, r#"["body","route_limits"]"#),
        (r#"{"route_limits":{"gpu":-1}}"#, r#"["body","route_limits","gpu"]"#),
        (r#"{"route_limits":{"gpu":"8"}}"#, r#"["body","route_limits","gpu"]"#),
        (r#"{"route_limits":{"g p":8}}"#, r#"["body","route_limits","g p"]"#),
        (r#"{"route_limits":{"\ud800":8}}"#, r#"["body","route_limits"]"#),
        (r#"{"retention":60}"#, r#"["body","retention"]"#),
        (r#"{"retention":{"succeeded_seconds":-1}}"#, r#"["body","retention","succeeded_seconds"]"#),
        (r#"{"retention":{"pending_seconds":1}}"#, r#"["body","retention","pending_seconds"]"#),
    ];
    for (body, place) in cases {
        let invalid = decode::<SettingsPatch>(body.as_bytes()).unwrap_err();
        assert_eq!(invalid.code, ErrorCode::InvalidRequest, "{body}");
        let details: serde_json::Value = serde_json::from_slice(&invalid.details().end()).unwrap();
        assert_eq!(details["errors"][0]["location"].to_string(), place, "{body}");
    }
    let many = |count: usize, limit: &str| {
        let limits: Vec<String> = (0..count).map(|n| format!(r#""r{n}":{limit}"#)).collect();
        decode::<SettingsPatch>(format!(r#"{{"route_limits":{{{}}}}}"#, limits.join(",")).as_bytes())
    };
    assert!(many(256, "1").is_ok() && many(1_000, "null").is_ok(), "limits may be removed, however many");
    assert_eq!(many(257, "1").unwrap_err().errors.len(), 1);
    agree::<SettingsPatchSchema>(SettingsPatch::FIELDS, &[]);
}

#[test]
fn settings_read_back_and_are_what_their_schema_describes() {
    let used = QueueSettings {
        paused: true,
        max_running: Some(0),
        route_limits: [(route("gpu"), 8)].into(),
        retention: Retention { failed_seconds: Some(60), ..Retention::default() },
    };
    for settings in [QueueSettings::default(), used] {
        let text = settings.to_json();
        check::<QueueSettingsSchema>(&text);
        assert_eq!(read_settings(&json::parse(text.as_bytes()).unwrap()), Ok(settings));
    }
    let text = QueueSettings::default().to_json();
    for (good, wrong) in [
        (r#""route_limits":{}"#, r#""route_limits":{"gpu":null}"#),
        (r#""max_running":null"#, r#""max_running":-1"#),
        (r#""paused":false"#, r#""paused":null"#),
        (r#""failed_seconds":null"#, r#""x":null"#),
    ] {
        let text = text.replace(good, wrong);
        assert!(read_settings(&json::parse(text.as_bytes()).unwrap()).is_err(), "{text}");
    }
    let newer = text.replacen('{', r#"{"more":1,"#, 1);
    assert_eq!(read_settings(&json::parse(newer.as_bytes()).unwrap()), Ok(QueueSettings::default()));
}
