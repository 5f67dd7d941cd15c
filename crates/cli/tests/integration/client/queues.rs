//! Discovery and queues.

use taskqueue_client::{Definition, ErrorCode};

use super::support::Server;
use super::{client, queue, task_id};

#[tokio::test]
async fn a_server_reports_its_health() {
    let server = Server::start();
    let client = client(&server);
    let health = client.health().await.unwrap();
    assert!(health.is_ok);
    assert_eq!(health.api_version, "2");
}

#[tokio::test]
async fn queues_are_created_once_listed_and_deleted() {
    let server = Server::start();
    let client = client(&server);
    let (a, b) = (queue("a-1"), queue("B.2"));
    for (name, created) in [(&a, true), (&a, false), (&b, true)] {
        let answer = client.create_queue(name).await.unwrap();
        assert_eq!((&answer.value.name, answer.created), (name, created));
    }
    let names: Vec<_> = client.queues().await.unwrap().into_iter().map(|queue| queue.name).collect();
    assert_eq!(names, [b.clone(), a.clone()]);

    client.create_task(&a, task_id(1), &Definition::default()).await.unwrap();
    assert_eq!(client.delete_queue(&a).await.unwrap_err().code(), Some(ErrorCode::QueueNotEmpty));
    client.delete_queue_with_tasks(&a).await.unwrap();
    client.delete_queue(&b).await.unwrap();
    assert_eq!(client.delete_queue(&b).await.unwrap_err().code(), Some(ErrorCode::QueueNotFound));
    assert_eq!(client.queues().await, Ok(Vec::new()));
}
