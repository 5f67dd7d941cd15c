//! Lists: what a selection becomes in the query of a request, and walks from page to page.

use taskqueue_client::{OrderField, Status, TaskId, TaskQuery, TaskSelection};

use crate::server::{FaultyServer, TASK, ok, queue};

fn page(tasks: &[&str], next_cursor: &str) -> String {
    let items: Vec<String> = tasks.iter().map(|id| TASK.replace("t_000000000001", id)).collect();
    format!(r#"{{"items":[{}],"next_cursor":{next_cursor}}}"#, items.join(","))
}

/// What is asked for in each request.
fn targets(server: &FaultyServer) -> Vec<String> {
    server.requests().iter().map(|request| request.split(' ').nth(1).unwrap().to_owned()).collect()
}

#[tokio::test]
async fn selectors_survive_the_way_through_a_url() {
    let cases = [
        ("a&b=c", "a%26b%3Dc"),
        ("50% + 1", "50%25+%2B+1"),
        ("ä/?#", "%C3%A4%2F%3F%23"),
        ("", ""),
        (" ", "+"),
        (r#""quoted" \ 'x'"#, "%22quoted%22+%5C+%27x%27"),
        ("a;b,c", "a%3Bb%2Cc"),
    ];
    for (text, encoded) in cases {
        let all = TaskSelection::all;
        let selections =
            [("name", all().name(text)), ("name_fuzzy", all().name_fuzzy(text)), ("filter", all().filter(text))];
        for (parameter, selection) in selections {
            let server = FaultyServer::start([ok(&page(&[], "null"))]).await;
            server.client().page(&queue(), &TaskQuery::of(selection)).await.unwrap();
            assert_eq!(targets(&server), [format!("/api/v2/queues/q/tasks?{parameter}={encoded}")]);
        }
    }
}

#[tokio::test]
async fn a_walk_goes_from_page_to_page_and_its_end_stays_the_end() {
    let pages =
        [page(&["t_000000000001", "t_000000000002"], "\"a b\""), page(&[], "\"c\""), page(&["t_000000000003"], "null")];
    let query = || TaskQuery::of(TaskSelection::all().status(Status::Pending)).ascending_by(OrderField::Id).limit(2);
    let server = FaultyServer::start(pages.each_ref().map(|page| ok(page))).await;
    let mut walk = server.client().walk(&queue(), query());
    for id in ["t_000000000001", "t_000000000002", "t_000000000003"] {
        assert_eq!(walk.next().await.unwrap().map(|task| task.id), TaskId::parse(id));
    }
    assert_eq!([walk.next().await, walk.next().await], [Ok(None), Ok(None)], "the end stays the end");
    let first = "/api/v2/queues/q/tasks?status=pending&order_by=id&descending=false&limit=2";
    assert_eq!(targets(&server), ["", "&cursor=a+b", "&cursor=c"].map(|cursor| format!("{first}{cursor}")));

    let server = FaultyServer::start(pages.map(|page| ok(&page))).await;
    let mut walk = server.client().walk(&queue(), query());
    let mut sizes = Vec::new();
    while let Some(page) = walk.next_page().await.unwrap() {
        sizes.push(page.items.len());
    }
    assert_eq!(sizes, [2, 0, 1]);
}
