//! The command `check` on the real binary: beside a running server, on a stopped one and after a kill it finds everything sound
//! and changes nothing; what damage looks like is tested in each backend.

use serde_json::{Value, json};

use super::support::*;

/// It finds nothing wrong; returns what it counted.
#[track_caller]
fn assert_sound(database: &str) -> (u64, u64) {
    let report = run(&["check", "--database", database, "--output", "json"], &[]).ok_quietly();
    let report: Value = serde_json::from_str(&report).unwrap();
    assert_eq!(report["status"], "sound", "{report}");
    assert_eq!((&report["rules_checked"], &report["problems"]), (&json!(true), &json!([])), "{report}");
    (report["queues"].as_u64().unwrap(), report["tasks"].as_u64().unwrap())
}

fn fill(server: &Server) {
    server.create_in_states(1);
    server.create(6, json!({"max_attempts": 9, "args": {"nul\0": [1.0, -0.0]}, "name": "é"}));
    for run in 1..=3 {
        server.claim(run);
        server.act(6, "unclaim", run).expect(204);
    }
    server.claim(4);
    server.send(&output_request(6, 4, 3, "what it says")).expect(204);
    server.put(&of_worker(1), json!({"route": "a", "status": "busy", "task_id": task_id(1)})).expect(204);
    server.create(7, json!({}));
    server.delete(&of_task(7, "")).expect(204);
    server.create_queue("other");
    server.create_in("other", 8, json!({}));
    server.delete("/api/v2/queues/other?cascade=true").expect(204);
}

#[test]
fn a_database_is_sound_while_servers_use_it_and_when_they_have_stopped() {
    let mut server = Server::alone();
    fill(&server);
    let database = server.database.argument();
    assert_eq!(assert_sound(&database), (1, 6));
    server.terminate();
    let before = server.database.contents();
    assert_eq!(assert_sound(&database), (1, 6));
    assert!(server.database.contents() == before, "a check changed the database");
    server.start_again();
    server.create(9, json!({}));
    server.kill();
    assert_eq!(assert_sound(&database), (1, 7));
    server.start_again();
    assert_eq!(server.ids(BY_ID).len(), 7);
}

#[test]
fn a_database_is_sound_at_every_moment_while_it_is_written_to() {
    let server = Server::alone();
    let database = server.database.argument();
    let write = |thread: usize, round: usize| {
        let (n, route) = (thread * 1_000_000 + round, format!("r{thread}"));
        server.put(&of_task(n, ""), json!({"routes": [route], "max_attempts": 2})).expect(201);
        server.claim_for("q", &route, n);
        server.act(n, if n % 2 == 0 { "complete" } else { "fail" }, n);
    };
    meanwhile(&[&|round| write(1, round), &|round| write(2, round)], || {
        for _ in 0..3 {
            assert_sound(&database);
        }
    });
}
