//! Activity of several servers: each tells what all have done, and a server that dies takes at most its last seconds with it
//! (docs/decisions/0059).

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use taskqueue_test_postgres::eventually;

use super::{fresh_database, server};
use crate::support::*;

/// Servers save every 5 seconds; the rest is for a loaded machine.
const SOON: Duration = Duration::from_secs(10);

fn stats(server: &Server) -> Value {
    server.get(&in_queue("/stats")).expect(200).json()
}

/// How many tasks were created, and how many claimed.
fn counted(server: &Server) -> (u64, u64) {
    let counts = &stats(server)["activity"]["last_hour"];
    (counts["created"].as_u64().unwrap(), counts["claimed"].as_u64().unwrap())
}

#[test]
fn each_server_soon_tells_what_the_other_did() {
    let database = fresh_database();
    let (mut first, mut second) = (server(&database.url()), server(&database.url()));
    first.create_queue("q");
    first.create_each(1..=3, |_| json!({}));
    second.claim(1);
    assert_eq!((counted(&first).0, counted(&second).1), (3, 1), "its own work at once");
    let begun = Instant::now();
    eventually("each knows what the other did", || [counted(&first), counted(&second)] == [(3, 1); 2]);
    assert!(begun.elapsed() < SOON, "{:?}", begun.elapsed());
    assert_eq!(stats(&first)["since"], stats(&second)["since"]);

    // A kill loses what was not saved yet, and nothing of the other server.
    first.create(4, json!({}));
    first.signal("KILL");
    second.claim(2);
    first.wait();
    first.start_again();
    eventually("the server knows what was done before and without it", || {
        let (created, claimed) = counted(&first);
        assert!((3..=4).contains(&created), "{created} were created");
        claimed == 2
    });

    // A stop loses nothing.
    let created = counted(&second).0;
    second.create(5, json!({}));
    second.signal("TERM");
    second.wait();
    assert_eq!(counted(&first), (created + 1, 2));
}

#[test]
fn a_queue_is_deleted_and_created_again_while_another_server_counts_in_it() {
    let database = fresh_database();
    let (first, second) = (server(&database.url()), server(&database.url()));
    first.create_queue("q");
    second.create(1, json!({}));
    let rows = || database.rows("SELECT 1 FROM taskqueue.activity").len();
    eventually("the second server has saved", || rows() > 0);
    second.create(2, json!({}));
    first.delete(&in_queue("?cascade=true")).expect(204);
    first.create_queue("q");
    assert_eq!([counted(&first), counted(&second)], [(0, 0); 2], "the new queue has no past");
    second.create(3, json!({}));
    eventually("the first server knows of the new queue", || counted(&first) == (1, 0));
    assert_eq!(rows(), 2, "nothing is left of the deleted queue");
}
