//! Servers that tests use one after the other: to start one and its database costs more than most tests. Each test gets a server
//! without queues but `q`, and has it for itself. What else a test may find of those before it: the lines of the log, the counters
//! of the metrics, and run ids that are used up (so each test gets others: [`super::run_id`]). Who looks at these takes
//! [`Server::alone`].

use std::ops::Deref;
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::thread;

use serde_json::{Value, json};

use super::Server;
use super::api::renew_run_ids;

/// Ends a server and removes its files as soon as the tests have ended: nothing drops what is static.
const REMOVE: &str = r#"cat >/dev/null; kill -KILL "$1"; shift; rm -rf -- "$@""#;

/// Servers that no test has at the moment, each with who removes it.
static FREE: Mutex<Vec<(Server, Child)>> = Mutex::new(Vec::new());

/// A server that goes to another test afterwards. Nobody can stop it.
pub(crate) struct SharedServer(Option<(Server, Child)>);

impl SharedServer {
    pub(super) fn take() -> Self {
        let free = FREE.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let (server, remover) = free.unwrap_or_else(|| {
            let server = Server::start();
            let remover = remover(&server);
            (server, remover)
        });
        renew_run_ids();
        server.create_queue("q");
        Self(Some((server, remover)))
    }
}

impl Deref for SharedServer {
    type Target = Server;

    fn deref(&self) -> &Server {
        &self.0.as_ref().expect("taken only when dropped").0
    }
}

impl Drop for SharedServer {
    fn drop(&mut self) {
        let Some((server, mut remover)) = self.0.take() else { return };
        // What a failed test left may fail others. The server goes with its value, and no one else may end what has its number then.
        if thread::panicking() {
            drop(remover.kill());
            drop(remover.wait());
            return;
        }
        clear(&server);
        server.disconnect();
        FREE.lock().unwrap_or_else(PoisonError::into_inner).push((server, remover));
    }
}

fn remover(server: &Server) -> Child {
    let mut command = Command::new("sh");
    command.args(["-c", REMOVE, "sh", &server.process_id().to_string()]);
    command.args(server.folders()).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn().expect("a shell starts")
}

/// Deletes all queues.
fn clear(server: &Server) {
    let queues: Vec<Value> = server.get("/api/v2/queues").expect(200).json().as_array().unwrap().clone();
    for queue in queues {
        let path = format!("/api/v2/queues/{}", queue["name"].as_str().unwrap());
        // Running tasks keep their queue.
        server
            .post(
                &format!("{path}/tasks/bulk/cancel"),
                json!({"filter": "status == 'running'", "include_archived": true}),
            )
            .expect(200);
        server.delete(&format!("{path}?cascade=true")).expect(204);
    }
}
