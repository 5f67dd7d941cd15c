//! Input that is meant to hurt a database: it must never crash the server, hang it, or be answered with a failure of ours
//! (docs/reference/invariants.md §5). Each test ends by showing that the server still works. What no database sees is in
//! `contract_http`.

use serde_json::json;

use super::support::*;

#[test]
fn wide_and_long_bodies_are_handled() {
    let server = Server::with_queue();
    let keys: String = (0..60_000).map(|n| format!("\"k{n}\":{n},")).collect();
    server.put(&of_task(1, ""), format!("{{\"args\":{{{keys}\"z\":0}}}}")).expect(201);
    let same_key = "\"a\":1,".repeat(150_000);
    server.put(&of_task(2, ""), format!("{{\"args\":{{{same_key}\"a\":2}}}}")).expect(201);
    assert_eq!(server.task(2)["args"], json!({"a": 2}));
    server.put(&of_task(3, ""), format!("{{{same_key}\"a\":2}}")).assert_error(422, "invalid_task");
    let routes: Vec<String> = (0..100_000).map(|n| n.to_string()).collect();
    server.put(&of_task(4, ""), json!({"routes": routes})).assert_error(422, "invalid_task");
    server.put(&of_task(5, ""), json!({"routes": vec!["same"; 100_000]})).assert_error(422, "invalid_task");
    let digits = "9".repeat(900_000);
    server.put(&of_task(6, ""), format!("{{\"priority\":{digits}}}")).assert_error(422, "invalid_task");
    server.put(&of_task(6, ""), format!("{{\"args\":{{\"a\":{digits}}}}}")).assert_error(422, "invalid_task");
    server.put(&of_task(6, ""), format!("{{\"args\":{{\"a\":0.{digits}}}}}")).expect(201);
    server.put(&of_task(7, ""), json!({"name": "x".repeat(900_000)})).assert_error(422, "invalid_task_name");
    server.assert_alive();
}

#[test]
fn statements_in_texts_are_just_texts() {
    let server = Server::with_queue();
    let statements =
        ["'; DROP TABLE tasks; --", "\" OR \"\"=\"", "' OR 1=1 --", "a' || 'b", "*/ 1 /*", "NULL", "?1", ":x", "@x"];
    let patterns = ["%", "_", "\\", "$.a", "$[0]", "{}", "[]", "$$", "`id`", "${x}", "{{x}}", "<script>", "%s%n"];
    let others = ["a%", "a_b", "a'b", "a\"b", "a\\b", "é", "e\u{301}", "a", "A", "\u{ffff}", "\u{202e}abc", "𝒳"];
    let texts = [&statements[..], &patterns, &others].concat();
    server.create_each(0..texts.len(), |n| {
        let text = texts[n];
        json!({"name": text, "args": {"v": text, "list": [text]}, "metadata": {text: text}})
    });
    for (n, text) in texts.into_iter().enumerate() {
        let literal = json!(text).to_string();
        assert_eq!(numbers(&server.get(&tasks_where(&[("name", text)])).json()), [n], "{text}");
        for filter in ["name == @", "name in [@]", "args.v == @", "@ in args.list", "@ in metadata"] {
            server.assert_selections(&[(&filter.replacen('@', &literal, 1), &[n])]);
        }
        server.get(&tasks_where(&[("cursor", text)])).assert_error(422, "invalid_cursor");
        server.get(&tasks_where(&[("order_by", text)])).assert_error(422, "invalid_request");
        server.get(&tasks_where(&[("status", text)])).assert_error(422, "invalid_request");
        server.get(&in_queue(&format!("/tasks/count?group_by={}", encode(text)))).assert_error(422, "invalid_request");
    }
    // Texts that a database cannot keep or search as they are.
    let server = Server::with_queue();
    let texts = ["", "\0", "a", "a\0", "a\0b", "[1]", "null", "1"];
    server.create_each(0..texts.len(), |n| {
        let text = texts[n];
        json!({"args": {"v": text, "list": [text], "object": {text: 1}}})
    });
    for (n, text) in texts.into_iter().enumerate() {
        let literal = json!(text).to_string();
        for filter in ["args.v == @", "args.v in [@]", "@ in args.list", "@ in args.object"] {
            server.assert_selections(&[(&filter.replacen('@', &literal, 1), &[n])]);
        }
    }
    server.assert_alive();
}
