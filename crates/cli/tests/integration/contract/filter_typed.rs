//! Filters on the typed fields of a task: statuses, strings, numbers, timestamps, routes and last errors
//! (docs/reference/filter-language.md §5 and §7). Fields of workers are in `workers`.

use serde_json::{Value, json};

use super::support::*;

const ALL: &[usize] = &[1, 2, 3, 4, 5, 6];

/// Six tasks: 1 pending and never claimed; 2 running, without a name; 3 failed; 4 pending after a failure with a
/// traceback; 5 cancelled, with an empty name; 6 succeeded after a failure.
fn six_tasks() -> SharedServer {
    let server = Server::with_queue();
    server.create(1, json!({"name": "a", "priority": 1, "routes": ["a", "b"]}));
    server.create(2, json!({"priority": -5, "routes": ["r2"]}));
    server.create(3, json!({"name": "B", "priority": 9_007_199_254_740_993_i64, "routes": ["r3"], "max_attempts": 1}));
    server.create(4, json!({"name": "é", "priority": 0, "routes": ["r4"]}));
    server.create(5, json!({"name": "", "priority": i64::MAX, "routes": ["r5"]}));
    server.create(6, json!({"name": "c", "priority": 2, "routes": ["r6"]}));
    let fail = |n: usize, error: Value| {
        server.claim_for("q", &format!("r{n}"), n).expect(200);
        server.post(&of_task(n, "/fail"), json!({"run_id": run_id(n), "error": error})).expect(204);
    };
    fail(3, json!({"type": "E", "message": "m"}));
    fail(4, json!({"type": "F", "message": "boom", "traceback": "tb"}));
    fail(6, json!({"type": "E", "message": "m2", "traceback": null}));
    server.claim_for("q", "r6", 16).expect(200);
    server.act(6, "complete", 16).expect(204);
    server.claim_for("q", "r2", 2).expect(200);
    server.cancel(5).expect(200);
    server
}

#[test]
fn statuses_and_ids() {
    six_tasks().assert_selections(&[
        ("status == 'pending'", &[1, 4]),
        ("status != 'pending'", &[2, 3, 5, 6]),
        ("'running' == status", &[2]),
        ("status in ['failed', 'cancelled']", &[3, 5]),
        ("status not in ['pending']", &[2, 3, 5, 6]),
        ("status in []", &[]),
        ("status not in []", ALL),
        ("status < 'pending'", &[3, 5]),
        ("status >= 'running'", &[2, 6]),
        ("id == 't_000000000003'", &[3]),
        ("id < 't_000000000003'", &[1, 2]),
        ("id >= 't_000000000003' and id != 't_000000000005'", &[3, 4, 6]),
        ("id == 'any text'", &[]),
        ("id in ['x', 't_000000000001']", &[1]),
        ("id > 't'", ALL),
    ]);
}

#[test]
fn names_may_be_none() {
    six_tasks().assert_selections(&[
        ("name == 'a'", &[1]),
        ("name == 'A'", &[]),
        ("name == ''", &[5]),
        ("name != 'a'", &[2, 3, 4, 5, 6]),
        ("not name == 'a'", &[2, 3, 4, 5, 6]),
        ("name == None", &[2]),
        ("name == null", &[2]),
        ("name != None", &[1, 3, 4, 5, 6]),
        ("name in ['a', None]", &[1, 2]),
        ("name in [None]", &[2]),
        ("name in []", &[]),
        ("name not in ['a']", &[2, 3, 4, 5, 6]),
        ("name not in ['a', None]", &[3, 4, 5, 6]),
        ("name not in [null]", &[1, 3, 4, 5, 6]),
        ("name not in []", ALL),
        ("not name in ['a']", &[2, 3, 4, 5, 6]),
        ("name < 'a'", &[3, 5]),
        ("name <= 'a'", &[1, 3, 5]),
        ("name >= 'a'", &[1, 4, 6]),
        ("name > 'c'", &[4]),
        ("not name < 'a'", &[1, 2, 4, 6]),
        ("exists(name)", ALL),
        ("missing(name)", &[]),
        ("last_route == None", &[1, 5]),
        ("last_route == 'r2'", &[2]),
        ("last_route != 'r2'", &[1, 3, 4, 5, 6]),
        ("last_route > 'r2'", &[3, 4, 6]),
        ("exists(last_route)", ALL),
    ]);
}

#[test]
fn numbers_compare_exactly() {
    six_tasks().assert_selections(&[
        ("priority == 1", &[1]),
        ("priority == 1.0", &[1]),
        ("priority == 1.5", &[]),
        ("priority != 1.5", ALL),
        ("priority == -0.0", &[4]),
        ("priority < 0.5", &[2, 4]),
        ("priority < -4.9", &[2]),
        ("priority == 9007199254740993", &[3]),
        ("priority == 9007199254740992", &[]),
        ("priority == 9007199254740992.0", &[]),
        ("priority > 9007199254740992.0", &[3, 5]),
        ("priority <= 9007199254740992.0", &[1, 2, 4, 6]),
        ("priority == 9223372036854775807", &[5]),
        ("priority == 9223372036854775808.0", &[]),
        ("priority < 9223372036854775808.0", ALL),
        ("priority in [1, 2.0, -5, 9007199254740992.0]", &[1, 2, 6]),
        ("priority not in [1, 2.0]", &[2, 3, 4, 5]),
        ("priority > -1e300 and priority < 1e300", ALL),
        ("attempt == 0", &[1, 5]),
        ("attempt == 1", &[2, 3, 4]),
        ("attempt >= 2", &[6]),
        ("attempt < 5e-324", &[1, 5]),
        ("max_attempts == 1", &[3]),
        ("max_attempts in [3]", &[1, 2, 4, 5, 6]),
        ("exists(priority) and not missing(attempt)", ALL),
    ]);
}

#[test]
fn routes_are_a_set() {
    let server = six_tasks();
    server.assert_selections(&[
        ("'a' in routes", &[1]),
        ("'a' in routes and 'b' in routes", &[1]),
        ("'a' not in routes", &[2, 3, 4, 5, 6]),
        ("not 'a' in routes", &[2, 3, 4, 5, 6]),
        ("'A' in routes", &[]),
        ("'' in routes", &[]),
        ("'no route at all!' not in routes", ALL),
        ("'r2' in routes or 'r3' in routes", &[2, 3]),
        ("exists(routes)", ALL),
        ("missing(routes)", &[]),
    ]);
    server.assert_refused(&[
        "routes == 'a'",
        "routes != 'a'",
        "routes < 'a'",
        "'a' == routes",
        "routes in ['a']",
        "routes not in ['a']",
        "5 in routes",
        "None in routes",
        "True in routes",
        "routes.a == 'a'",
        "'a' in routes.a",
    ]);
}

#[test]
fn last_errors_are_missing_without_a_failure() {
    six_tasks().assert_selections(&[
        ("last_error.type == 'E'", &[3, 6]),
        ("last_error.type != 'E'", &[4]),
        ("not last_error.type == 'E'", &[1, 2, 4, 5]),
        ("last_error.type in ['E', 'F']", &[3, 4, 6]),
        ("last_error.type not in ['E']", &[4]),
        ("last_error.type not in []", &[3, 4, 6]),
        ("last_error.type in []", &[]),
        ("exists(last_error.type)", &[3, 4, 6]),
        ("missing(last_error.type)", &[1, 2, 5]),
        ("last_error.message > 'm'", &[6]),
        ("last_error.message <= 'm'", &[3, 4]),
        (&format!("last_error.run_id == '{}'", run_id(4)), &[4]),
        ("last_error.attempt == 1.0", &[3, 4, 6]),
        ("last_error.attempt != 1", &[]),
        ("last_error.attempt > 1", &[]),
        ("last_error.occurred_at > '2000-01-01T00:00:00Z'", &[3, 4, 6]),
        ("last_error.occurred_at < '2000-01-01T00:00:00Z'", &[]),
        ("last_error.traceback == None", &[3, 6]),
        ("last_error.traceback != None", &[4]),
        ("last_error.traceback == 'tb'", &[4]),
        ("last_error.traceback != 'x'", &[3, 4, 6]),
        ("last_error.traceback not in ['x']", &[3, 4, 6]),
        ("last_error.traceback in [None, 'tb']", &[3, 4, 6]),
        ("last_error.traceback not in [None]", &[4]),
        ("last_error.traceback not in []", &[3, 4, 6]),
        ("last_error.traceback > ''", &[4]),
        ("exists(last_error.traceback)", &[3, 4, 6]),
        ("missing(last_error.traceback)", &[1, 2, 5]),
    ]);
}

#[test]
fn timestamps_may_be_none_where_the_field_may_be() {
    let past = "'2000-01-01T00:00:00Z'";
    let with_past = |filter: &str| filter.replace('@', past);
    six_tasks().assert_selections(&[
        ("started_at == None", &[1, 5]),
        ("started_at != None", &[2, 3, 4, 6]),
        ("started_at in [None]", &[1, 5]),
        ("finished_at == None", &[1, 2, 5]),
        (&with_past("finished_at > @"), &[3, 4, 6]),
        (&with_past("finished_at != @"), ALL),
        (&with_past("started_at not in [@]"), ALL),
        (&with_past("started_at not in [@, None]"), &[2, 3, 4, 6]),
        (&with_past("created_at > @"), ALL),
        (&with_past("@ < created_at"), ALL),
        (&with_past("updated_at <= @"), &[]),
        ("created_at in []", &[]),
        ("exists(started_at)", ALL),
        ("missing(finished_at)", &[]),
    ]);
}

#[test]
fn timestamps_compare_as_instants_with_microseconds() {
    let server = Server::with_queue();
    let created = micros(&server.create(1, json!({}))["created_at"]);
    for hours in [0, 1, -1, 23, -23] {
        for (shift, operators) in [(0, ["==", "<=", ">="]), (1, ["!=", "<", "<="]), (-1, ["!=", ">", ">="])] {
            for operator in operators {
                let filter = format!("created_at {operator} '{}'", at_offset(created + shift, hours));
                server.assert_selections(&[(&filter, &[1]), (&format!("not ({filter})"), &[])]);
            }
        }
    }
}
