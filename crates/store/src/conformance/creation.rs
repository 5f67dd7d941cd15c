//! Creating tasks: replays, conflicts, identity, size, and that every value reads back as it was given (I19, I28).

use super::prelude::*;

pub async fn a_new_task_is_pending_and_empty_with_equal_timestamps(fixture: Fixture) {
    let definition = Definition { args: object(r#"{"a":[1,{"b":null}]}"#), ..named("n") };
    let task = fixture.create(1, definition.clone()).await;
    let lifecycle = Lifecycle::created(fixture.now(), 0);
    let expected = Task { queue: queue("q"), id: task_id(1), definition, lifecycle, outcome: Outcome::empty() };
    assert_eq!(without_seq(task.clone()), expected);
    assert_eq!(fixture.get(1).await, task);
}

pub async fn a_replay_returns_the_current_task_and_changes_nothing(fixture: Fixture) {
    let definition = with_budget(2);
    fixture.create(1, definition.clone()).await;
    fixture.create(2, Definition::default()).await;
    let replayed = async || {
        fixture.clock.advance_seconds(1);
        let current = fixture.get(1).await;
        let answer = fixture.ok(create("q", 1, definition.clone())).await;
        assert_eq!(answer, CreatedTask { created: false, task: Box::new(current.clone()) });
        assert_eq!(fixture.get(1).await, current);
    };
    replayed().await;
    assert_eq!(fixture.claim(1).await.task.id, task_id(1), "its place in the order was kept");
    replayed().await;
    fixture.ok(fail("q", 1, 1)).await;
    replayed().await;
    assert_eq!(fixture.claim(2).await.task.id, task_id(2));
    assert_eq!(fixture.claim(3).await.task.id, task_id(1));
    fixture.ok(fail("q", 1, 3)).await;
    replayed().await;
    fixture.ok(requeue("q", 1)).await;
    fixture.ok(cancel("q", 1)).await;
    replayed().await;
    fixture.ok(requeue("q", 1)).await;
    fixture.claim(4).await;
    fixture.ok(complete("q", 1, 4, object(r#"{"done":true}"#))).await;
    replayed().await;
}

pub async fn the_identity_is_that_of_the_creation_for_the_life_of_the_task(fixture: Fixture) {
    fixture.create(1, Definition::default()).await;
    let everything = Update {
        name: Some(Some("n".into())),
        args: Some(object(r#"{"a":1}"#)),
        metadata: Some(object(r#"{"m":1}"#)),
        priority: Some(3),
        max_attempts: Some(9),
        routes: Some(routes(&["other"])),
        result: Some(object(r#"{"r":1}"#)),
        ..Update::default()
    };
    let updated = fixture.task_of(update("q", 1, everything)).await;
    let replay = fixture.ok(create("q", 1, Definition::default())).await;
    assert_eq!(replay, CreatedTask { created: false, task: Box::new(updated.clone()) });
    let conflict = Refusal::TaskIdConflict { queue: queue("q"), task_id: task_id(1) };
    assert_eq!(fixture.refused(create("q", 1, updated.definition)).await, conflict);
}

pub async fn the_id_of_a_deleted_task_is_free_again(fixture: Fixture) {
    fixture.create_running(1, named("first")).await;
    fixture.ok(complete("q", 1, 1, object(r#"{"r":1}"#))).await;
    fixture.ok(delete("q", 1)).await;
    let again = fixture.create(1, named("second")).await;
    assert_eq!(again.outcome, Outcome::empty());
    assert_eq!(fixture.refused(fail("q", 1, 1)).await, Refusal::StaleRun { run_id: run_id(1) });
    assert_eq!(fixture.get(1).await, again);
}

pub async fn an_oversized_creation_of_an_existing_id_is_a_conflict(fixture: Fixture) {
    fixture.create(1, Definition::default()).await;
    let oversized = Definition { args: args_beyond_the_limit(1), ..Definition::default() };
    assert!(matches!(fixture.refused(create("q", 1, oversized)).await, Refusal::TaskIdConflict { .. }));
}

pub async fn values_at_their_bounds_read_back(fixture: Fixture) {
    let deep = format!("{}1{}", r#"{"d":"#.repeat(64), "}".repeat(64));
    let long_route = "r".repeat(128);
    let args = r#"{"":"","nul":"a\u0000b","esc":"\"\\\u0001\u007f\u2028","é":"é","e\u0301":"😀","i":-9223372036854775808,
        "j":9223372036854775807,"f":[0.0,-0.0,1.0,1e300,5e-324,9223372036854775808.0,1e16],"n":null,"t":[true,false,[],{}]}"#;
    let definitions = [
        Definition { name: Some("".into()), ..Definition::default() },
        Definition { name: Some("😀".repeat(256).into()), priority: i64::MIN, ..Definition::default() },
        Definition { name: Some("null".into()), priority: i64::MAX, max_attempts: i64::MAX, ..Definition::default() },
        Definition { args: object(args), metadata: object(args), max_attempts: 1, ..Definition::default() },
        Definition { args: object(&deep), routes: routes(&["A", "a", "0.-_", &long_route]), ..Definition::default() },
    ];
    for (id, definition) in definitions.into_iter().enumerate() {
        let created = fixture.create(id, definition.clone()).await;
        let read = fixture.get(id).await;
        assert_eq!(read.definition, definition);
        assert_eq!(read, created);
        assert!(matches!(fixture.ok(create("q", id, definition)).await, CreatedTask { created: false, .. }));
    }
}

pub async fn a_missing_task_is_not_found(fixture: Fixture) {
    fixture.ok(create_queue("other")).await;
    fixture.ok(create("other", 1, Definition::default())).await;
    let missing = Refusal::TaskNotFound { queue: queue("q"), task_id: task_id(1) };
    let got = fixture.store.get_task(&queue("q"), task_id(1)).await;
    assert_eq!(got.unwrap_err(), StoreError::Refused(missing.clone()));
    for command in commands![update("q", 1, to_priority(1)), cancel("q", 1), requeue("q", 1), heartbeat("q", 1, 1)] {
        assert_eq!(fixture.refused(command).await, missing);
    }
}
