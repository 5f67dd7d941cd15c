//! Query parameters that nobody knows (docs/reference/http-api.md §3.2). How values are written, and what is broken, is proven beside
//! their reader in `server`.

use serde_json::json;

use super::support::*;

fn three_tasks() -> SharedServer {
    let server = Server::with_queue();
    server.create_each(1..=3, |n| json!({"name": format!("a{n}")}));
    server
}

#[test]
fn unknown_parameters_are_ignored_and_names_are_case_sensitive() {
    let server = three_tasks();
    let unknown = "x=1 Limit=0 LIMIT=abc Status=nonsense filter[]=( %20limit=0 limit%20=0 group_by=x = &&";
    for query in unknown.split(' ').chain([""]) {
        assert_eq!(server.ids(query), [3, 2, 1], "{query}");
    }
    assert_eq!(server.ids("li%6Dit=1"), [3]);
    assert_eq!(server.get("/api/v2/queues?limit=0&cursor=x").expect(200).json(), json!([{"name": "q"}]));
    server.put(&in_queue("?cascade=maybe"), ()).expect(200);
    server.get(&of_task(1, "?limit=0")).expect(200);
}
