//! The examples of `docs/reference/filter-language.md`, each run on the tasks that the page shows. The grammar and what comparisons
//! mean is proven in `core`, and that both databases mean the same by random filters, by the conformance suite of the stores.

use serde_json::{Value, json};

use super::support::*;

const PAGE: &str = include_str!("../../../../../docs/reference/filter-language.md");

/// The row of a table as its cells by the names of their columns.
type Row<'p> = Vec<(&'p str, &'p str)>;

/// Every row of every table of the page.
fn rows() -> Vec<Row<'static>> {
    let (mut rows, mut header) = (Vec::new(), None);
    for line in PAGE.lines() {
        let Some(inner) = line.strip_prefix("| ").and_then(|line| line.strip_suffix(" |")) else {
            // The line of dashes stands between the header and the rows.
            header = header.filter(|_| line.starts_with("|-"));
            continue;
        };
        let cells: Vec<&str> = inner.split(" | ").collect();
        match &header {
            None => header = Some(cells),
            Some(names) => rows.push(names.iter().copied().zip(cells).collect()),
        }
    }
    rows
}

/// The cell of a column, without the quotes of code.
fn cell<'p>(row: &Row<'p>, column: &str) -> Option<&'p str> {
    let (_, text) = row.iter().find(|(name, _)| *name == column)?;
    Some(text.strip_prefix('`').and_then(|text| text.strip_suffix('`')).unwrap_or(text))
}

fn task_id(letter: &str) -> String {
    format!("t_exampletask{letter}")
}

/// A server with the tasks and the workers of the page. Tasks that stay pending come last, so that claims find the others.
fn server_with_examples() -> SharedServer {
    let server = Server::with_queue();
    let (_, block) = PAGE.split_once("```jsonl\n").unwrap();
    let (block, _) = block.split_once("```").unwrap();
    let mut tasks: Vec<Value> = block.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    tasks.sort_by_key(|task| task["then"].is_null());
    for task in &tasks {
        let letter = task["task"].as_str().unwrap();
        let (path, run) = (in_queue(&format!("/tasks/{}", task_id(letter))), format!("r_exampletask{letter}"));
        server.put(&path, task["create"].clone()).expect(201);
        let then = task["then"].as_str().unwrap_or_default();
        if matches!(then, "claim" | "complete" | "fail") {
            let claim = json!({"route": task["create"]["routes"][0], "run_id": run, "worker": task["worker"]});
            let claimed = server.post(&in_queue("/tasks/claim"), claim).expect(200).json();
            assert_eq!(claimed["task"]["id"], task_id(letter));
        }
        if !task["progress"].is_null() {
            let body = json!({"run_id": run, "progress": task["progress"]});
            server.post(&format!("{path}/progress"), body).expect(204);
        }
        match then {
            "complete" | "fail" => {
                let what = if then == "fail" { "error" } else { "result" };
                server.post(&format!("{path}/{then}"), json!({"run_id": run, what: task[what]})).expect(204);
            }
            "cancel" => drop(server.post(&format!("{path}/cancel"), ()).expect(200)),
            _ => {}
        }
    }
    let report = |route: &str, status: &str, task: Value| json!({"route": route, "status": status, "task_id": task});
    server.put(&in_queue("/workers/w_exampleworkW"), report("gpu", "idle", Value::Null)).expect(204);
    let mut busy = report("cpu", "busy", json!(task_id("D")));
    busy["metadata"] = json!({"host": "node-2"});
    server.put(&in_queue("/workers/w_exampleworkX"), busy).expect(204);
    let telemetry = json!({"telemetry": {"cpu_percent": 350, "gpus": [{"utilization": 92}]}});
    server.post(&in_queue("/workers/w_exampleworkX/telemetry"), telemetry).expect(204);
    server
}

/// The last letters of the ids on a page, in their order.
fn letters(page: &Value) -> String {
    let ids = page["items"].as_array().unwrap().iter().map(|item| item["id"].as_str().unwrap());
    let mut letters: Vec<&str> = ids.map(|id| &id[13..]).collect();
    letters.sort_unstable();
    if letters.is_empty() { "none".to_owned() } else { letters.join(" ") }
}

#[test]
fn every_example_of_the_filter_page_selects_what_the_page_says() {
    let server = server_with_examples();
    let mut tried = 0;
    for row in rows() {
        for (column, path) in [
            ("filter", "/tasks?filter="),
            ("worker filter", "/workers?filter="),
            ("fuzzy search", "/tasks?name_fuzzy="),
        ] {
            let (Some(text), Some(selects)) = (cell(&row, column), cell(&row, "selects")) else { continue };
            let page = server.get(&in_queue(&format!("{path}{}", encode(text)))).expect(200).json();
            assert_eq!(letters(&page), selects, "{text}");
            tried += 1;
        }
    }
    assert!(tried > 80, "only {tried} examples were found");
}

#[test]
fn every_wrong_filter_of_the_filter_page_is_refused_as_the_page_says() {
    let server = Server::with_queue();
    let mut tried = 0;
    for row in rows() {
        let Some(text) = cell(&row, "wrong filter") else { continue };
        let refused = server.get(&in_queue(&format!("/tasks?filter={}", encode(text))));
        let column = refused.assert_error(422, "invalid_filter")["column"].to_string();
        // A message may begin or end with code, so its quotes stay.
        let (_, message) = row.iter().find(|(name, _)| *name == "message").unwrap();
        assert_eq!(column, cell(&row, "column").unwrap(), "{text}");
        assert_eq!(refused.json()["error"]["message"], *message, "{text}");
        tried += 1;
    }
    assert!(tried > 20, "only {tried} examples were found");
}
