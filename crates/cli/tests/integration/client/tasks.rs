//! Tasks: creation, reads, walks, counts, updates, lifecycle.

use std::collections::BTreeSet;

use taskqueue_client::{
    BulkUpdateRequest, Client, Definition, Dependencies, ErrorCode, GroupQuery, JsonObject, OnDependencyFailure,
    OrderField, RetryDelay, Routes, SchedulingFields, Status, TaskDimension, TaskQuery, TaskSelection,
};

use super::support::Server;
use super::{client, named, object, priority, queue, route, task_id};

#[tokio::test]
async fn a_task_comes_back_as_it_was_defined_and_identical_creations_agree() {
    let server = Server::with_queue();
    let (client, q) = (client(&server), queue("q"));
    let definition = Definition {
        name: Some("é \"x\"".into()),
        args: object(r#"{"big":9223372036854775807,"f":1.0,"e":1e2,"z":-0.0,"s":"\u0000","deep":{"a":[null,true]}}"#),
        metadata: object(r#"{"k":[1,2.5]}"#),
        priority: i64::MIN,
        max_attempts: 1,
        routes: Routes::new(vec![route("gpu"), route("cpu")]).unwrap(),
        scheduling: SchedulingFields {
            retry_delay: RetryDelay::new(0.5, Some(3.0), None),
            timeout_seconds: Some(60),
            dependencies: Dependencies::new(vec![task_id(9), task_id(8)]).unwrap(),
            on_dependency_failure: OnDependencyFailure::Cancel,
        }
        .into(),
    };
    let first = client.create_task(&q, task_id(1), &definition).await.unwrap();
    let again = client.create_task(&q, task_id(1), &definition).await.unwrap();
    assert_eq!((first.created, again.created), (true, false));
    assert_eq!(first.value, again.value);
    let task = client.task(&q, task_id(1)).await.unwrap();
    assert_eq!(task, first.value);
    assert_eq!((task.id, &task.queue, task.status, task.attempt), (task_id(1), &q, Status::Pending, 0));
    let Definition { name, args, metadata, priority, max_attempts, routes, scheduling } = definition;
    assert_eq!((task.name, task.args, task.metadata), (name, args, metadata));
    assert_eq!((task.priority, task.max_attempts, task.routes), (priority, max_attempts, routes));
    assert_eq!((task.scheduling, task.not_before, task.archived), (scheduling, None, false));
    assert_eq!((task.last_error, task.last_route, task.started_at, task.finished_at), (None, None, None, None));
    assert_eq!(task.created_at, task.updated_at);

    let other = client.create_task(&q, task_id(1), &Definition::default()).await.unwrap_err();
    assert_eq!(other.code(), Some(ErrorCode::TaskIdConflict));
}

/// 250 tasks, named by their number, every third of them cancelled.
async fn many(client: &Client) {
    for n in 0..250 {
        client.create_task(&queue("q"), task_id(n), &named(&n.to_string())).await.unwrap();
        if n % 3 == 0 {
            client.cancel_task(&queue("q"), task_id(n)).await.unwrap();
        }
    }
}

#[tokio::test]
async fn walks_visit_every_item_once_and_in_order() {
    let server = Server::with_queue();
    let (client, q) = (client(&server), queue("q"));
    many(&client).await;

    let by_id = TaskQuery::of(TaskSelection::all()).ascending_by(OrderField::Id).limit(100);
    let mut walk = client.walk(&q, by_id.clone());
    let mut ids = Vec::new();
    while let Some(task) = walk.next().await.unwrap() {
        ids.push(task.id);
    }
    assert_eq!(ids, (0..250).map(task_id).collect::<Vec<_>>());
    assert_eq!(walk.next().await, Ok(None), "the end stays the end");

    let mut pages = client.walk(&q, by_id);
    let mut sizes = Vec::new();
    while let Some(page) = pages.next_page().await.unwrap() {
        sizes.push(page.items.len());
    }
    assert_eq!(sizes, [100, 100, 50]);

    let newest = client.page(&q, &TaskQuery::of(TaskSelection::all()).limit(1)).await.unwrap();
    assert_eq!(newest.items[0].id, task_id(249));
    let cursor = newest.next_cursor.unwrap();
    let next = client.page(&q, &TaskQuery::of(TaskSelection::all()).limit(2).after(cursor.clone())).await.unwrap();
    assert_eq!(next.items.iter().map(|task| task.id).collect::<Vec<_>>(), [task_id(248), task_id(247)]);
    let elsewhere = TaskQuery::of(TaskSelection::all().status(Status::Failed)).after(cursor);
    assert_eq!(client.page(&q, &elsewhere).await.unwrap_err().code(), Some(ErrorCode::InvalidCursor));
}

#[tokio::test]
async fn counts_are_plain_or_by_group() {
    let server = Server::with_queue();
    let (client, q) = (client(&server), queue("q"));
    many(&client).await;
    assert_eq!(client.count(&q, &TaskSelection::all()).await, Ok(250));
    assert_eq!(client.count(&q, &TaskSelection::all().status(Status::Cancelled)).await, Ok(84));

    let query = GroupQuery::by([TaskDimension::Status, TaskDimension::Routes], TaskSelection::all()).limit(1);
    let mut walk = client.walk(&q, query);
    let mut groups = Vec::new();
    while let Some(page) = walk.next_page().await.unwrap() {
        groups.extend(page.items.into_iter().map(|group| (group.key.join(" "), group.count)));
    }
    assert_eq!(groups, [("cancelled default".to_owned(), 84), ("pending default".to_owned(), 166)]);
}

#[tokio::test]
async fn selectors_survive_the_way_through_a_url() {
    let server = Server::with_queue();
    let (client, q) = (client(&server), queue("q"));
    let names = ["a&b=c", "50% + 1", "ä/?#", "", " ", "\"quoted\" \\ 'x'", "a;b,c"];
    for (n, name) in names.iter().enumerate() {
        client.create_task(&q, task_id(n), &named(name)).await.unwrap();
    }
    for (n, name) in names.iter().enumerate() {
        let mut literal = Vec::new();
        taskqueue_core::json::write_string(&mut literal, name);
        let filter = format!("name == {}", String::from_utf8(literal).unwrap());
        for selection in [TaskSelection::all().name(*name), TaskSelection::all().filter(filter)] {
            let page = client.page(&q, &TaskQuery::of(selection)).await.unwrap();
            assert_eq!(page.items.iter().map(|task| task.id).collect::<Vec<_>>(), [task_id(n)], "{name:?}");
        }
    }
    let fuzzy = TaskSelection::all().name_fuzzy("%1 50+");
    assert_eq!(client.count(&q, &fuzzy).await, Ok(1));
    let wrong = client.count(&q, &TaskSelection::all().filter("stats == 1")).await.unwrap_err();
    assert_eq!(wrong.code(), Some(ErrorCode::InvalidFilter));
}

#[tokio::test]
async fn tasks_are_updated_one_by_one_and_in_bulk() {
    let server = Server::with_queue();
    let (client, q) = (client(&server), queue("q"));
    for n in 0..3 {
        client.create_task(&q, task_id(n), &named("x")).await.unwrap();
    }
    let updated = client.update_task(&q, task_id(0), &priority(5)).await.unwrap();
    assert_eq!((updated.priority, updated.name.as_deref()), (5, Some("x")));
    let unnamed = taskqueue_client::Update { name: Some(None), ..priority(5) };
    assert_eq!(client.update_task(&q, task_id(0), &unnamed).await.unwrap().name, None);

    let bulk = BulkUpdateRequest { filter: "priority in [0, 5]".into(), changes: priority(5), include_archived: false };
    let done = client.update_tasks(&q, &bulk).await.unwrap();
    assert_eq!((done.matched, done.updated), (3, 2));
}

#[tokio::test]
async fn members_are_changed_one_by_one_and_in_bulk_where_the_server_can() {
    let server = Server::with_queue();
    let (client, q) = (client(&server), queue("q"));
    assert!(client.capabilities().await.unwrap().has(taskqueue_client::capabilities::MERGE_UPDATES));
    for n in 0..2 {
        let args = object(&format!(r#"{{"n":{n},"lr":0.1}}"#));
        client.create_task(&q, task_id(n), &Definition { args, ..named("x") }).await.unwrap();
    }
    let patch = |args: &str| taskqueue_client::Update { args_patch: Some(object(args)), ..Default::default() };
    let updated = client.update_task(&q, task_id(0), &patch(r#"{"lr":null,"seed":1}"#)).await.unwrap();
    assert_eq!(updated.args, object(r#"{"n":0,"seed":1}"#));
    let changes = patch(r#"{"seed":1}"#);
    let bulk = BulkUpdateRequest { filter: "exists(args.n)".into(), changes, include_archived: false };
    let done = client.update_tasks(&q, &bulk).await.unwrap();
    assert_eq!((done.matched, done.updated), (2, 1));
    assert_eq!(client.task(&q, task_id(1)).await.unwrap().args, object(r#"{"n":1,"lr":0.1,"seed":1}"#));
    let both = taskqueue_client::Update { args: Some(JsonObject::empty()), ..patch("{}") };
    let refused = client.update_task(&q, task_id(0), &both).await.unwrap_err();
    assert_eq!(refused.code(), Some(ErrorCode::InvalidUpdate));
}

#[tokio::test]
async fn tasks_are_cancelled_requeued_and_deleted() {
    let server = Server::with_queue();
    let (client, q) = (client(&server), queue("q"));
    client.create_task(&q, task_id(1), &Definition::default()).await.unwrap();
    assert_eq!(client.cancel_task(&q, task_id(1)).await.unwrap().status, Status::Cancelled);
    assert_eq!(client.requeue_task(&q, task_id(1)).await.unwrap().status, Status::Pending);
    client.delete_task(&q, task_id(1)).await.unwrap();
    client.delete_task(&q, task_id(1)).await.unwrap();
    assert_eq!(client.cancel_task(&q, task_id(1)).await.unwrap_err().code(), Some(ErrorCode::TaskNotFound));
    let codes: BTreeSet<u16> = [client.task(&q, task_id(1)).await, client.task(&queue("no"), task_id(1)).await]
        .into_iter()
        .map(|result| result.unwrap_err().code().unwrap().status())
        .collect();
    assert_eq!(codes, BTreeSet::from([404]));
}
