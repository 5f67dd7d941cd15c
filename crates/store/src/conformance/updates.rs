//! Updates, single and bulk: what they replace, when they are refused, and that they never change a place (I15, I24).

use super::actions::bring_to;
use super::claims::claim_all;
use super::prelude::*;

fn everything() -> Update {
    Update {
        name: Some(Some("new".into())),
        args: Some(object(r#"{"a":1}"#)),
        metadata: Some(object(r#"{"m":[1]}"#)),
        priority: Some(i64::MIN),
        max_attempts: Some(7),
        routes: Some(routes(&["x", "y"])),
        result: Some(object(r#"{"r":{}}"#)),
        ..Update::default()
    }
}

fn patch(args: &str, metadata: &str) -> Update {
    Update { args_patch: Some(object(args)), metadata_patch: Some(object(metadata)), ..Update::default() }
}

fn with_args(args: &str) -> Definition {
    Definition { args: object(args), ..Definition::default() }
}

pub async fn a_patch_changes_the_members_that_it_names(fixture: Fixture) {
    let definition =
        Definition { metadata: object(r#"{"owner":"a","n":1}"#), ..with_args(r#"{"lr":0.1,"m":{"a":1,"b":2}}"#) };
    let created = fixture.create(1, definition.clone()).await;
    fixture.clock.advance_seconds(1);
    for same in [patch("{}", "{}"), patch(r#"{"m":{"b":2,"c":null}}"#, r#"{"n":1}"#)] {
        assert_eq!(fixture.task_of(update("q", 1, same.clone())).await, created);
        let none = Updated { matched: 1, updated: 0 };
        assert_eq!(fixture.ok(update_all("q", "exists(id)", same)).await, none);
    }
    assert_eq!(fixture.get(1).await, created);
    let changed = Update { priority: Some(7), ..patch(r#"{"m":{"b":null,"c":[null]}}"#, r#"{"n":{"x":null}}"#) };
    let expected = Task {
        definition: Definition {
            args: object(r#"{"lr":0.1,"m":{"a":1,"c":[null]}}"#),
            metadata: object(r#"{"owner":"a","n":{}}"#),
            priority: 7,
            ..definition.clone()
        },
        lifecycle: Lifecycle { updated_at: fixture.now(), ..created.lifecycle.clone() },
        ..created
    };
    assert_eq!(fixture.task_of(update("q", 1, changed)).await, expected);
    assert_eq!(fixture.get(1).await, expected);
    assert!(!fixture.ok(create("q", 1, definition)).await.created, "the identity is that of the creation");
    fixture.claim(1).await;
    assert_eq!(fixture.refused(update("q", 1, patch("{}", "{}"))).await, Refusal::TaskRunning { task_id: task_id(1) });
}

pub async fn a_bulk_patch_is_applied_to_the_own_value_of_each_task(fixture: Fixture) {
    // Two of them have several megabytes together with others, so that they are saved in several portions.
    let long = "x".repeat(900_000);
    let args = |id: usize| match id % 100 {
        0 => format!(r#"{{"id":{id},"long":"{long}","m":{{"k":1}}}}"#),
        _ => format!(r#"{{"id":{id},"m":{{"k":1,"n":{id}}}}}"#),
    };
    fixture.create_many((0..520).map(|id| (id, with_args(&args(id))))).await;
    fixture.claim("run").await;
    fixture.ok(update("q", 7, patch(r#"{"m":{"k":2},"id":null,"seed":1}"#, "{}"))).await;
    fixture.clock.advance_seconds(1);
    let bulk = patch(r#"{"m":{"k":2},"id":null,"seed":1}"#, "{}");
    let answer = fixture.ok(update_all("q", "exists(args.m.k)", bulk.clone())).await;
    assert_eq!(answer, Updated { matched: 519, updated: 518 }, "one is running, one has the values already");
    for id in [1, 99, 100, 101, 500, 519] {
        let expected = match id % 100 {
            0 => format!(r#"{{"long":"{long}","m":{{"k":2}},"seed":1}}"#),
            _ => format!(r#"{{"m":{{"k":2,"n":{id}}},"seed":1}}"#),
        };
        let task = fixture.get(id).await;
        assert_eq!(task.definition.args, object(&expected), "{id}");
        assert_eq!(task.lifecycle.updated_at, fixture.now(), "{id}");
        let stored = task.definition.stored_bytes();
        assert_eq!(task.head().definition_bytes, stored);
    }
    assert_eq!(fixture.get(0).await.definition.args, object(&args(0)), "the running one");
    let shorter = patch(r#"{"long":null}"#, r#"{"was":"long"}"#);
    let answer = fixture.ok(update_all("q", "exists(args.long)", shorter)).await;
    assert_eq!(answer, Updated { matched: 5, updated: 5 });
    let task = fixture.get(100).await.definition;
    assert_eq!((task.args, task.metadata), (object(r#"{"m":{"k":2},"seed":1}"#), object(r#"{"was":"long"}"#)));
    assert_eq!(fixture.ok(update_all("q", "exists(id)", bulk)).await, Updated { matched: 519, updated: 0 });
}

pub async fn a_bulk_patch_that_is_too_large_for_one_task_changes_none(fixture: Fixture) {
    fixture.create("small", with_args(r#"{"a":1}"#)).await;
    let large = Definition { args: args_beyond_the_limit(0), ..Definition::default() };
    fixture.create("large", large).await;
    let before = fixture.tasks("q").await;
    fixture.clock.advance_seconds(1);
    let longer = patch(r#"{"b":1}"#, "{}");
    assert_eq!(fixture.refused(update("q", "large", longer.clone())).await, Refusal::TaskDataTooLarge);
    assert_eq!(fixture.refused(update_all("q", "exists(id)", longer.clone())).await, Refusal::TaskDataTooLarge);
    assert_eq!(fixture.tasks("q").await, before);
    assert_eq!(fixture.ok(update_all("q", "args.a == 1", longer)).await, Updated { matched: 1, updated: 1 });
    assert_eq!(fixture.get("small").await.definition.args, object(r#"{"a":1,"b":1}"#));
}

pub async fn every_field_is_replaced(fixture: Fixture) {
    for (id, status) in (1..).zip([Status::Pending, Status::Succeeded, Status::Failed, Status::Cancelled]) {
        let before = bring_to(&fixture, id, status).await;
        let expected = Task {
            definition: Definition {
                name: Some("new".into()),
                args: object(r#"{"a":1}"#),
                metadata: object(r#"{"m":[1]}"#),
                priority: i64::MIN,
                max_attempts: 7,
                routes: routes(&["x", "y"]),
                ..before.definition.clone()
            },
            lifecycle: Lifecycle { updated_at: fixture.now(), ..before.lifecycle.clone() },
            outcome: Outcome { result: object(r#"{"r":{}}"#), ..before.outcome.clone() },
            ..before
        };
        assert_eq!(fixture.task_of(update("q", id, everything())).await, expected, "{status:?}");
        assert_eq!(fixture.get(id).await, expected);
        let cleared = Update { name: Some(None), result: Some(object("{}")), ..Update::default() };
        fixture.ok(update("q", id, cleared)).await;
        let task = fixture.get(id).await;
        assert_eq!((task.definition.name, task.outcome.result), (None, object("{}")));
        assert_eq!(task.outcome.last_error, expected.outcome.last_error);
    }
}

pub async fn an_update_that_changes_nothing_leaves_updated_at_alone(fixture: Fixture) {
    let created = fixture.create(1, Definition { args: object(r#"{"a":1,"b":2}"#), ..with_routes(&["a", "b"]) }).await;
    fixture.clock.advance_seconds(1);
    let same = Update {
        name: Some(None),
        args: Some(object(r#"{"b":2,"a":1}"#)),
        routes: Some(routes(&["b", "a"])),
        priority: Some(0),
        result: Some(object("{}")),
        ..Update::default()
    };
    assert_eq!(fixture.task_of(update("q", 1, same.clone())).await, created);
    let none = Updated { matched: 1, updated: 0 };
    assert_eq!(fixture.ok(update_all("q", "exists(id)", same)).await, none);
    assert_eq!(fixture.get(1).await, created);
    let other_kind = Update { args: Some(object(r#"{"a":1.0,"b":2}"#)), ..Update::default() };
    assert_eq!(fixture.task_of(update("q", 1, other_kind)).await.lifecycle.updated_at, fixture.now());
}

pub async fn a_running_task_takes_no_update(fixture: Fixture) {
    let before = bring_to(&fixture, 1, Status::Running).await;
    assert_eq!(fixture.refused(update("q", 1, everything())).await, Refusal::TaskRunning { task_id: task_id(1) });
    assert_eq!(fixture.get(1).await, before);
}

pub async fn a_budget_that_leaves_no_attempt_is_refused_for_pending_tasks_only(fixture: Fixture) {
    let before = bring_to(&fixture, 1, Status::Pending).await;
    assert_eq!(before.lifecycle.attempt, 1);
    let conflict = Refusal::UpdateConflict { task_id: task_id(1), field: "max_attempts", attempt: 1 };
    assert_eq!(fixture.refused(update("q", 1, to_budget(1))).await, conflict);
    assert_eq!(fixture.refused(update_all("q", "exists(id)", to_budget(1))).await, conflict);
    assert_eq!(fixture.get(1).await, before);
    fixture.ok(update("q", 1, to_budget(2))).await;
    for (id, status) in (2..).zip([Status::Succeeded, Status::Failed, Status::Cancelled]) {
        bring_to(&fixture, id, status).await;
        assert_eq!(fixture.task_of(update("q", id, to_budget(1))).await.definition.max_attempts, 1);
    }
}

pub async fn the_size_is_checked_with_the_resulting_values(fixture: Fixture) {
    let before = fixture.create(1, Definition::default()).await;
    let args = |more| Update { args: Some(args_beyond_the_limit(more)), ..Update::default() };
    assert_eq!(fixture.refused(update("q", 1, args(1))).await, Refusal::TaskDataTooLarge);
    assert_eq!(fixture.get(1).await, before);
    fixture.ok(update("q", 1, args(0))).await;
    let one_more = Update { name: Some(Some("12345".into())), ..Update::default() };
    assert_eq!(fixture.refused(update("q", 1, one_more)).await, Refusal::TaskDataTooLarge);
    let result = Update { result: Some(object(r#"{"a":1}"#)), ..Update::default() };
    assert_eq!(fixture.refused(update("q", 1, result)).await, Refusal::TaskDataTooLarge);
    fixture.claim(1).await;
    assert_eq!(fixture.refused(complete("q", 1, 1, object(r#"{"a":1}"#))).await, Refusal::TaskDataTooLarge);
    fixture.ok(complete("q", 1, 1, object("{}"))).await;
}

pub async fn a_new_priority_moves_a_task_without_changing_its_place(fixture: Fixture) {
    fixture.ok(create_all(["a", "b", "c", "d"])).await;
    fixture.ok(update("q", "a", to_priority(-5))).await;
    fixture.ok(update("q", "d", to_priority(5))).await;
    fixture.ok(update("q", "b", to_priority(9))).await;
    fixture.ok(update("q", "b", to_priority(0))).await;
    assert_eq!(claim_all(&fixture, "default", "r").await, ["d", "b", "c", "a"]);
}

pub async fn new_routes_move_a_task_without_changing_its_place(fixture: Fixture) {
    fixture.create("a", with_routes(&["x"])).await;
    fixture.create("b", with_routes(&["x", "y"])).await;
    fixture.create("c", with_routes(&["y"])).await;
    fixture.ok(update("q", "a", to_routes(&["y"]))).await;
    fixture.ok(update("q", "b", to_routes(&["z"]))).await;
    fixture.ok(update("q", "b", Update { priority: Some(-1), ..to_routes(&["y", "z"]) })).await;
    assert_eq!(claim_all(&fixture, "x", "x").await, Vec::<String>::new());
    assert_eq!(claim_all(&fixture, "y", "y").await, ["a", "c", "b"]);
    assert_eq!(claim_all(&fixture, "z", "z").await, Vec::<String>::new());
}

pub async fn bulk_updates_count_matches_and_changes_and_leave_running_tasks_out(fixture: Fixture) {
    fixture.create("run", named("m")).await;
    let running = fixture.claim(1).await.task;
    for (id, priority) in [("a", 0), ("b", 1), ("c", 1), ("d", 0)] {
        fixture.create(id, Definition { priority, ..named(if id == "d" { "other" } else { "m" }) }).await;
    }
    fixture.ok(cancel("q", "c")).await;
    fixture.clock.advance_seconds(1);
    let before = fixture.get("b").await;
    let answer = fixture.ok(update_all("q", "name == 'm'", to_priority(1))).await;
    assert_eq!(answer, Updated { matched: 3, updated: 1 });
    assert_eq!(fixture.get("run").await, running);
    assert_eq!(fixture.get("b").await, before);
    let a = fixture.get("a").await;
    assert_eq!((a.definition.priority, a.lifecycle.updated_at), (1, fixture.now()));

    let answer = fixture.ok(update_all("q", "exists(id)", to_priority(2))).await;
    assert_eq!(answer, Updated { matched: 4, updated: 4 });
    let times: Vec<_> = fixture.walk("q", &filtered("status != 'running'"), BY_ID, 10).await;
    assert!(times.iter().all(|task| task.lifecycle.updated_at == fixture.now()), "one update, one time");
    let none = Updated { matched: 0, updated: 0 };
    assert_eq!(fixture.ok(update_all("q", "name == 'nobody'", to_priority(3))).await, none);
    assert_eq!(fixture.ok(update_all("q", "status == 'running'", to_priority(3))).await, none);
}

pub async fn one_refusal_in_a_bulk_update_leaves_every_task_untouched(fixture: Fixture) {
    fixture.create("tried", with_budget(9)).await;
    fixture.claim(1).await;
    for id in 0..10 {
        fixture.create(format!("a{id}"), Definition::default()).await;
        fixture.create(format!("x{id}"), with_routes(&["x"])).await;
    }
    fixture.ok(fail("q", "tried", 1)).await;
    let long_name = Update { name: Some(Some("n".repeat(256).into())), ..Update::default() };
    let large = Definition { args: args_beyond_the_limit(0), ..Definition::default() };
    fixture.create("large", large).await;
    fixture.clock.advance_seconds(1);
    let before = fixture.tasks("q").await;
    let budget = Update { routes: Some(routes(&["moved"])), ..to_budget(1) };
    let small = "id != 't_0000000large'";
    let refusal = fixture.refused(update_all("q", small, budget)).await;
    assert!(matches!(refusal, Refusal::UpdateConflict { attempt: 1, .. }), "{refusal:?}");
    assert_eq!(fixture.refused(update_all("q", "exists(id)", long_name)).await, Refusal::TaskDataTooLarge);
    assert_eq!(fixture.tasks("q").await, before);
    assert_eq!(claim_all(&fixture, "moved", "m").await, Vec::<String>::new());
    assert_eq!(claim_all(&fixture, "x", "x").await.len(), 10);
}

pub async fn bulk_updates_move_tasks_in_the_pending_order(fixture: Fixture) {
    for id in ["a", "b", "c", "d", "e", "f"] {
        let name = if "bdf".contains(id) { "late" } else { "early" };
        fixture.create(id, named(name)).await;
    }
    fixture.ok(update_all("q", "name == 'early'", to_priority(-1))).await;
    fixture.ok(update_all("q", "name == 'late'", to_routes(&["default", "x"]))).await;
    assert_eq!(fixture.claimed(claim("q", "x", 1)).await.unwrap().task.id, task_id("b"));
    fixture.ok(update_all("q", "exists(id)", to_priority(0))).await;
    assert_eq!(claim_all(&fixture, "default", "r").await, ["a", "c", "d", "e", "f"]);
}
