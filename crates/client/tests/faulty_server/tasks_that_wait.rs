//! What the client sends and reads of delays, dependencies, the archive, explanations and settings of queues.

use std::time::Duration;

use taskqueue_client::{
    Creation, Definition, Dependencies, Failure, QueueSettings, Reason, RetryDelay, RunKey, RunReport, Scheduling,
    SchedulingFields, SettingsPatch, TaskId, TaskQuery, TaskSelection, Timestamp, Update,
};

use crate::server::{FaultyServer, NO_RESULT, TASK, answer, ok, queue, run_id, task_id};

fn scheduling() -> Scheduling {
    let fields = SchedulingFields {
        retry_delay: RetryDelay::new(10.0, None, None),
        dependencies: Dependencies::new(vec![TaskId::parse("t_000000000009").unwrap()]).unwrap(),
        ..SchedulingFields::default()
    };
    fields.into()
}

/// The one request that was sent: its first line and its body.
fn request(server: &FaultyServer) -> (String, String) {
    let requests = server.requests();
    let [request] = requests.as_slice() else { panic!("{requests:?}") };
    let (head, body) = request.split_once("\r\n\r\n").unwrap();
    (head.lines().next().unwrap().trim_end_matches(" HTTP/1.1").to_owned(), body.to_owned())
}

const TASK_PATH: &str = "/api/v2/queues/q/tasks/t_000000000001";

#[tokio::test]
async fn a_creation_says_when_its_task_may_run_and_reads_back_what_the_task_has() {
    let shown = concat!(
        r#","not_before":"2026-01-31T12:00:00.000000Z","dependencies":["t_000000000009"],"#,
        r#""retry_delay":{"factor":2,"max_seconds":86400,"seconds":10},"archived":true}"#
    );
    let task = format!("{}{shown}", TASK.trim_end_matches('}'));
    let server = FaultyServer::start([answer(201, "", &task)]).await;
    let not_before = Timestamp::parse("2026-01-31T12:00:00Z");
    let definition = Definition { scheduling: scheduling(), ..Definition::default() };
    let created = server.client().create_task(&queue(), task_id(), Creation { definition, not_before }).await.unwrap();
    let expected = concat!(
        r#","not_before":"2026-01-31T12:00:00.000000Z","retry_delay":{"factor":2,"max_seconds":86400,"seconds":10},"#,
        r#""dependencies":["t_000000000009"]}"#
    );
    let (line, body) = request(&server);
    assert!(line == format!("PUT {TASK_PATH}") && body.ends_with(expected), "{line} {body}");
    let task = created.value;
    assert_eq!((task.not_before, task.scheduling, task.archived), (not_before, scheduling(), true));
}

#[tokio::test]
async fn an_update_and_a_list_name_the_archive() {
    let server = FaultyServer::start([ok(TASK)]).await;
    let update = Update { archived: Some(true), not_before: Some(None), ..Update::default() };
    server.client().update_task(&queue(), task_id(), &update).await.unwrap();
    let expected = (format!("PATCH {TASK_PATH}"), r#"{"not_before":null,"archived":true}"#.to_owned());
    assert_eq!(request(&server), expected);
    for (included, query) in [(true, "?include_archived=true"), (false, "")] {
        let server = FaultyServer::start([ok(r#"{"items":[],"next_cursor":null}"#)]).await;
        let selection = TaskSelection::all().include_archived(included);
        server.client().page(&queue(), &TaskQuery::of(selection)).await.unwrap();
        assert_eq!(request(&server).0, format!("GET /api/v2/queues/q/tasks{query}"));
    }
}

#[tokio::test]
async fn a_report_is_sent_with_all_that_it_says() {
    let failure = Failure { kind: "E".into(), message: "m".into(), traceback: None };
    let error = r#""error":{"type":"E","message":"m","traceback":null}"#;
    let minute = Some(Duration::from_secs(60));
    let failed = RunReport::Fail { failure, retry: true, retry_after: minute };
    let cases = [
        (RunReport::Complete { result: NO_RESULT }, "complete", r#","result":{}"#.to_owned()),
        (failed, "fail", format!(r#",{error},"retry_after_seconds":60.0"#)),
        (RunReport::Unclaim { delay: minute }, "unclaim", r#","delay_seconds":60.0"#.to_owned()),
        (RunReport::Unclaim { delay: None }, "unclaim", String::new()),
    ];
    for (report, action, more) in cases {
        let server = FaultyServer::start([answer(204, "", "")]).await;
        server.client().report_run(&RunKey::new(&queue(), task_id(), run_id()), &report).await.unwrap();
        let body = format!(r#"{{"run_id":"r_000000000001"{more}}}"#);
        assert_eq!(request(&server), (format!("POST {TASK_PATH}/{action}"), body));
    }
}

#[tokio::test]
async fn explanations_and_settings_are_read_as_what_they_mean() {
    let explanation = r#"{"claimable":false,"reasons":[{"code":"queue_paused","message":"the queue is paused"}]}"#;
    let server = FaultyServer::start([ok(explanation)]).await;
    let explained = server.client().explain_task(&queue(), task_id()).await.unwrap();
    assert_eq!(request(&server).0, format!("GET {TASK_PATH}/explain"));
    assert_eq!((explained.claimable, &explained.reasons[0].reason), (false, &Some(Reason::QueuePaused)));

    let paused = QueueSettings { paused: true, ..QueueSettings::default() };
    let server = FaultyServer::start([ok(&paused.to_json())]).await;
    assert_eq!(server.client().queue_settings(&queue()).await, Ok(paused.clone()));
    assert_eq!(request(&server).0, "GET /api/v2/queues/q/settings");
    let server = FaultyServer::start([ok(&paused.to_json())]).await;
    let patch = SettingsPatch { paused: Some(true), max_running: Some(None), ..SettingsPatch::default() };
    assert_eq!(server.client().change_settings(&queue(), &patch).await, Ok(paused));
    let body = r#"{"paused":true,"max_running":null}"#.to_owned();
    assert_eq!(request(&server), ("PATCH /api/v2/queues/q/settings".to_owned(), body));
}
