//! Cursors of lists and groups: positions that stay usable, bound to one selection (docs/reference/http-api.md §7.5).
//! Successors of deleted queues are in `queues`, the order of checks in `order_of_checks`.

use serde_json::json;

use super::support::*;

/// Fills the queue `q` with tasks 1 to 6, priorities equal to their numbers, and workers 1 to 3.
fn fill(server: &Server) {
    server.create_each(1..=6, |n| json!({"priority": n, "name": format!("name {n}"), "routes": [format!("r{n}")]}));
    for n in 1..=3 {
        server.put(&of_worker(n), json!({"route": format!("r{n}"), "status": "idle", "task_id": null})).expect(204);
    }
}

/// A server with these six tasks.
fn six_tasks() -> SharedServer {
    let server = Server::with_queue();
    fill(&server);
    server
}

/// The cursor behind the first page of a path that already has a query.
fn cursor_of(server: &Server, path: &str) -> String {
    let page = server.get(&format!("{path}&limit=2")).expect(200).json();
    encode(page["next_cursor"].as_str().unwrap_or_else(|| panic!("no cursor for {path}: {page}")))
}

/// Takes the cursor of each path that has a second page, with which all others are refused; how many there were.
#[track_caller]
fn cursors_of_their_own(server: &Server, paths: &[String]) -> usize {
    let mut taken = 0;
    for path in paths {
        let page = server.get(&format!("{path}&limit=1")).expect(200).json();
        let Some(cursor) = page["next_cursor"].as_str().map(encode) else { continue };
        for other in paths {
            let response = server.get(&format!("{other}&cursor={cursor}"));
            if other == path {
                response.expect(200);
            } else {
                response.assert_error(422, "invalid_cursor");
            }
        }
        taken += 1;
    }
    taken
}

const BY_PRIORITY: &str = "order_by=priority&descending=false";

#[test]
fn a_cursor_survives_a_restart() {
    let mut server = Server::alone();
    fill(&server);
    let paths = [
        in_queue(&format!("/tasks?{BY_PRIORITY}")),
        in_queue("/tasks?status=pending&name_fuzzy=name&filter=priority%3E0"),
        in_queue("/workers?filter=status==%22idle%22"),
        in_queue("/tasks/count?group_by=routes"),
        in_queue("/workers/count?group_by=route"),
    ];
    let pages: Vec<(String, String)> = paths
        .iter()
        .map(|path| format!("{path}&cursor={}", cursor_of(&server, path)))
        .map(|path| (server.get(&path).expect(200).text(), path))
        .collect();
    server.restart();
    for (page, path) in pages {
        assert_eq!(server.get(&path).expect(200).text(), page, "{path}");
    }
}

#[test]
fn a_task_cursor_is_bound_to_every_selector() {
    let server = six_tasks();
    let selections = "status=pending status=running name=name+1 name= name_fuzzy= name_fuzzy=name name_fuzzy=Name
        name_fuzzy=name+ filter=priority%3E0 filter=priority+%3E0 filter=priority%3E0+ filter=priority%3E=1
        order_by=priority order_by=id descending=false order_by=id&descending=false include_archived=true";
    let selections = selections.split_whitespace().chain([""]);
    let paths: Vec<String> = selections.map(|selection| in_queue(&format!("/tasks?{selection}"))).collect();
    assert_eq!(cursors_of_their_own(&server, &paths), 15, "one selects a single task, and two select none");
}

#[test]
fn spellings_of_the_same_selection_share_their_cursors() {
    let server = six_tasks();
    let cursor = cursor_of(&server, &in_queue("/tasks?"));
    let same =
        "order_by=created_at descending=true order_by=created_at&descending=YES descending=1&x=y include_archived=no";
    for query in same.split(' ').chain([""]) {
        assert_eq!(server.ids(&format!("{query}&cursor={cursor}")), [4, 3, 2, 1], "{query}");
    }
    let cursor = cursor_of(&server, &in_queue("/tasks?descending=false&filter=priority%20%3E%200"));
    for query in [
        "descending=0&filter=priority+%3E+0",
        "filter=priority%20%3E%200&descending=Off",
        "filter=x&filter=priority+%3E+0&descending=n",
    ] {
        assert_eq!(server.ids(&format!("{query}&cursor={cursor}")), [3, 4, 5, 6], "{query}");
    }
}

#[test]
fn a_cursor_is_bound_to_its_resource_and_queue() {
    let server = six_tasks();
    server.create_queue("other");
    let paths = "q/tasks? q/workers? q/tasks/count?group_by=routes q/tasks/count?group_by=routes,status
        q/tasks/count?group_by=status,routes q/tasks/count?group_by=routes&status=pending
        q/tasks/count?group_by=routes&filter=priority%3E0 q/tasks/count?group_by=routes&include_archived=true
        q/workers/count?group_by=route q/workers/count?group_by=route,status q/workers?filter=status==%22idle%22
        other/tasks? other/workers? other/tasks/count?group_by=routes";
    let paths: Vec<String> = paths.split_whitespace().map(|path| format!("/api/v2/queues/{path}")).collect();
    assert_eq!(cursors_of_their_own(&server, &paths), 11, "nothing is in the other queue");
}
