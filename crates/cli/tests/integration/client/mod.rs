//! The typed client against the real binary: every endpoint once, with what the types promise. Part of `sqlite` and of `postgres`.
//! What the client does with servers that misbehave is tested in `crates/client/tests`.

mod batches;
mod output;
mod queues;
mod reach;
mod runs;
mod tasks;
mod workers;

use super::support::{self, Server};
use taskqueue_client::{Client, Config, Definition, JsonObject, QueueName, Route, RunId, TaskId, Update};

/// A client of `server` that shows its token, if it has one.
fn client(server: &Server) -> Client {
    let config = Config::new(&format!("http://{}", server.address)).unwrap();
    let config = match &server.token {
        Some(token) => config.token(token).unwrap(),
        None => config,
    };
    Client::new(config).unwrap()
}

fn queue(name: &str) -> QueueName {
    QueueName::parse(name).unwrap()
}

fn task_id(n: usize) -> TaskId {
    TaskId::parse(&support::task_id(n)).unwrap()
}

fn run_id(n: usize) -> RunId {
    RunId::parse(&support::run_id(n)).unwrap()
}

fn route(name: &str) -> Route {
    Route::parse(name).unwrap()
}

fn object(text: &str) -> JsonObject {
    JsonObject::from_value(&taskqueue_core::json::parse(text.as_bytes()).unwrap()).unwrap()
}

fn named(name: &str) -> Definition {
    Definition { name: Some(name.into()), ..Definition::default() }
}

fn priority(priority: i64) -> Update {
    Update { priority: Some(priority), ..Update::default() }
}
