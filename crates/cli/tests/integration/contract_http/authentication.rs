//! The token: who gets in, what an unauthorised caller sees, and where the token must never appear
//! (docs/reference/http-api.md §2.1). That it comes before all other checks is in `order_of_checks`.

use std::fs;

use serde_json::json;

use super::support::*;

const TOKEN: &str = "s3cret-Token_~!";

/// A list of queues with these header fields and no others about the token.
fn list_with(server: &Server, headers: &[(&str, &str)]) -> Response {
    let request = Request::new("GET", "/api/v2/queues");
    let mut connection = server.connect();
    let request = headers.iter().fold(request, |request, (name, value)| request.header(name, value));
    let response = connection.exchange(&request).unwrap();
    assert_general_rules(&response, "/api/v2/queues");
    response
}

#[test]
fn a_missing_token_and_a_wrong_one_are_told_apart_by_the_message_alone() {
    let server = Server::with_token(TOKEN);
    let message = |headers: &[(&str, &str)]| {
        let response = list_with(&server, headers);
        assert_eq!(response.assert_error(401, "unauthorized"), json!({}));
        assert_eq!(response.header("WWW-Authenticate"), Some("Bearer"));
        response.json()["error"]["message"].as_str().unwrap().to_owned()
    };
    assert!(message(&[]).contains("token is missing"), "{}", message(&[]));
    let wrong = message(&[("Authorization", "Bearer x")]);
    assert!(wrong.contains("token is wrong"), "{wrong}");
    let nearly = format!("Bearer {}", &TOKEN[..TOKEN.len() - 1]);
    assert_eq!(message(&[("Authorization", &nearly)]), wrong, "how wrong it is remains unknown");
    let malformed = message(&[("Authorization", "Basic eDp5")]);
    assert!(malformed.contains("Authorization header cannot be read"), "{malformed}");
}

#[test]
fn tokens_elsewhere_do_not_count() {
    let server = Server::with_token(TOKEN);
    let right = format!("Bearer {TOKEN}");
    let places = [
        ("Cookie", format!("token={TOKEN}")),
        ("Cookie", format!("Authorization={right}")),
        ("X-Authorization", right.clone()),
        ("Proxy-Authorization", right.clone()),
        ("X-Api-Key", TOKEN.to_owned()),
        ("Token", TOKEN.to_owned()),
    ];
    for (name, value) in places {
        list_with(&server, &[(name, &value)]).assert_error(401, "unauthorized");
    }
    for query in
        [format!("token={TOKEN}"), format!("access_token={TOKEN}"), format!("Authorization={}", encode(&right))]
    {
        let request = Request::new("GET", &format!("/api/v2/queues?{query}")).header("Authorization", "Bearer wrong");
        server.send(&request).assert_error(401, "unauthorized");
    }
}

#[test]
fn health_and_schema_never_need_the_token() {
    let server = Server::with_token(TOKEN);
    for path in ["/health", "/openapi.json"] {
        let request = Request::new("GET", path).header("Authorization", "Bearer wrong");
        server.send(&request).expect(200);
        server.connect().exchange(&Request::new("GET", path)).unwrap().expect(200);
    }
    let request = Request::new("GET", "/docs").header("Authorization", "Bearer wrong");
    server.send(&request).assert_error(404, "not_found");
}

#[test]
fn no_spelling_of_a_path_goes_around_the_token() {
    let server = Server::with_token(TOKEN);
    let targets = "/%61pi/v2/queues //api/v2/queues /./api/v2/queues /x/../api/v2/queues /api/v2/../v2/queues
        /api/%76%32/queues /API/v2/queues /api//v2/queues http://localhost/api/v2/queues /api/v2/queues/
        /api/v2/queues?x /api%2Fv2/queues";
    for target in targets.split_whitespace() {
        let response = server.connect().exchange(&Request::new("GET", target)).unwrap();
        assert!(matches!(response.status, 400 | 401 | 404), "{response:?}");
        assert!(!response.text().starts_with('['), "{response:?}");
    }
    let absolute = server.connect().exchange(&Request::new("GET", "http://localhost/api/v2/queues")).unwrap();
    absolute.assert_error(401, "unauthorized");
}

#[test]
fn a_head_request_needs_the_token_too() {
    let server = Server::with_token(TOKEN);
    let wrong = Request::new("HEAD", "/api/v2/queues").header("Authorization", "Bearer wrong");
    assert!(server.send(&wrong).expect(401).body.is_empty());
    server.send(&Request::new("HEAD", "/api/v2/queues")).expect(200);
}

#[test]
fn refused_callers_change_nothing() {
    let server = Server::with_token(TOKEN);
    let wrong = |method: &str, path: &str| Request::new(method, path).header("Authorization", "Bearer wrong");
    server.send(&wrong("PUT", "/api/v2/queues/q")).assert_error(401, "unauthorized");
    assert_eq!(server.get("/api/v2/queues").json(), json!([]));
    server.create_queue("q");
    server.send(&wrong("DELETE", "/api/v2/queues/q")).assert_error(401, "unauthorized");
    assert_eq!(server.get("/api/v2/queues").json(), json!([{"name": "q"}]));
}

#[test]
fn the_token_appears_nowhere() {
    let mut server = Server::with_token(TOKEN);
    server.create_queue("q");
    let wrong = list_with(&server, &[("Authorization", &format!("Bearer {TOKEN}x"))]);
    let seen = [
        wrong.text(),
        server.get("/openapi.json").text(),
        server.get("/api/v2/nope").text(),
        server.put(&of_task(1, ""), "{").text(),
        fs::read_to_string(format!("/proc/{}/cmdline", server.process_id())).unwrap_or_default(),
    ];
    server.create_queue("kept");
    server.terminate();
    let contains = |bytes: &[u8], text: &str| bytes.windows(text.len()).any(|window| window == text.as_bytes());
    assert!(seen.iter().all(|text| !text.contains(TOKEN)));
    assert!(!server.stderr().contains(TOKEN));
    let kept = server.database.contents();
    assert!(contains(&kept, "kept") && !contains(&kept, TOKEN));
}
