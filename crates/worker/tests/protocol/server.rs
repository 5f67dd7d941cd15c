//! A scripted server, with one list of replies per verb. The last reply of a list is repeated.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use taskqueue_client::capabilities::FEATURES;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;

use super::batch_server::Tasks;

/// What the server does with one request, after it has read all of it.
#[derive(Clone, Debug)]
pub(crate) enum Reply {
    /// A whole answer: status, extra header lines, body. `{run_id}` in the body stands for the run id that was sent.
    Answer(u16, &'static str, String),
    /// Sends these bytes and closes the connection.
    Garbage(&'static str),
    /// Never answers.
    Silence,
    /// Answers when it is told to.
    Held(Arc<Notify>, Box<Reply>),
    /// Answers by itself, as far as it has tasks ([`Tasks`]).
    Honest,
    /// The same, after so many tasks became pending.
    Adding(u8),
    /// The same as `Honest`, but the items of a batch are changed by this function on their way back.
    Lie(fn(Vec<String>) -> Vec<String>),
}

pub(crate) fn done() -> Reply {
    Reply::Answer(204, "", String::new())
}

pub(crate) fn empty() -> Reply {
    done()
}

/// No task, with the header that says that the server has waited.
pub(crate) fn empty_after_waiting() -> Reply {
    Reply::Answer(204, "Preference-Applied: wait=1\r\n", String::new())
}

/// The features of a server of this version, without those that are left out.
pub(crate) fn capabilities_without(left_out: &[&str]) -> Reply {
    let features: Vec<&str> = FEATURES.into_iter().filter(|feature| !left_out.contains(feature)).collect();
    Reply::Answer(200, "", format!(r#"{{"features":{features:?}}}"#))
}

pub(crate) fn disconnect() -> Reply {
    Reply::Garbage("")
}

/// A reply, and what it waits for.
pub(crate) fn held(reply: Reply) -> (Arc<Notify>, Reply) {
    let told = Arc::new(Notify::new());
    (Arc::clone(&told), Reply::Held(told, Box::new(reply)))
}

pub(crate) fn refusal(status: u16, code: &str) -> Reply {
    Reply::Answer(status, "", format!(r#"{{"error":{{"code":"{code}","message":"no","details":{{}}}}}}"#))
}

/// The run was ended by its time limit.
pub(crate) fn timed_out() -> Reply {
    let error = r#"{"code":"run_finalized","message":"no","details":{"action":"timeout"}}"#;
    Reply::Answer(409, "", format!(r#"{{"error":{error}}}"#))
}

/// The task `t_00000000000N`, claimed.
pub(crate) fn task(number: u8) -> Reply {
    let (task, lease) = (task_text(number), LEASE);
    Reply::Answer(200, "", format!(r#"{{"task":{task},"run_id":"{{run_id}}","lease_expires_at":"{lease}"}}"#))
}

/// The same, with a limit for the time of its runs.
pub(crate) fn limited_task(number: u8, timeout_seconds: u64) -> Reply {
    let Reply::Answer(status, headers, body) = task(number) else { panic!("a claim is an answer") };
    let limited = format!(r#""finished_at":null,"timeout_seconds":{timeout_seconds}}}"#);
    Reply::Answer(status, headers, body.replace(r#""finished_at":null}"#, &limited))
}

pub(crate) fn task_text(number: u8) -> String {
    format!(
        r#"{{"id":"t_{number:012}","queue":"q","status":"running","name":null,"args":{{}},"metadata":{{}},"priority":0,"attempt":1,"max_attempts":3,"routes":["default"],"result":{{}},"last_error":null,"last_route":"default","created_at":"2026-01-01T00:00:00.000000Z","updated_at":"2026-01-01T00:00:00.000000Z","started_at":"2026-01-01T00:00:00.000000Z","finished_at":null}}"#
    )
}

pub(crate) fn lease() -> Reply {
    Reply::Answer(200, "", RENEWED.to_owned())
}

/// A renewed lease, with the header that says that the heartbeat was held.
pub(crate) fn lease_after_holding() -> Reply {
    Reply::Answer(200, "Preference-Applied: wait=1\r\n", RENEWED.to_owned())
}

pub(crate) const LEASE: &str = "2026-01-01T00:05:00.000000Z";
const RENEWED: &str = r#"{"lease_expires_at":"2026-01-01T00:05:00.000000Z"}"#;

#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) verb: String,
    pub(crate) text: String,
}

impl Request {
    pub(crate) fn body(&self) -> &str {
        self.text.split_once("\r\n\r\n").unwrap().1
    }

    /// The value of a text member of the body.
    pub(crate) fn member(&self, name: &str) -> String {
        let start = self.text.find(&format!("\"{name}\":\"")).unwrap() + name.len() + 4;
        self.text[start..].split('"').next().unwrap().to_owned()
    }
}

#[derive(Debug, Default)]
struct State {
    scripts: HashMap<&'static str, Vec<Reply>>,
    seen: Vec<Request>,
    tasks: Tasks,
}

/// The server. Verbs are `claim`, `heartbeat`, `complete`, `fail`, `unclaim`, `output`, `progress`, `batch/claim`,
/// `batch/report`, `capabilities`, and `PUT`, `POST` (telemetry) and `DELETE` of workers.
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    state: Arc<Mutex<State>>,
}

impl Server {
    /// Everything works, and nothing is ever pending.
    pub(crate) async fn start() -> Self {
        let events = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = events.local_addr().unwrap();
        let state = Arc::new(Mutex::new(State::default()));
        let server = Self { address, state: Arc::clone(&state) };
        for verb in ["complete", "fail", "unclaim", "output", "progress", "PUT", "POST", "DELETE"] {
            server.script(verb, [done()]);
        }
        server.script("claim", [empty()]);
        server.script("heartbeat", [lease()]);
        server.script("capabilities", [capabilities_without(&[])]);
        server.script("batch/claim", [Reply::Honest]);
        server.script("batch/report", [Reply::Honest]);
        tokio::spawn(async move {
            while let Ok((stream, _)) = events.accept().await {
                tokio::spawn(serve(stream, Arc::clone(&state)));
            }
        });
        server
    }

    /// Answers claims like this.
    pub(crate) async fn claiming(replies: impl IntoIterator<Item = Reply>) -> Self {
        let server = Self::start().await;
        server.script("claim", replies);
        server
    }

    /// Answers claims with these tasks, and then with none.
    pub(crate) async fn with_tasks(tasks: impl IntoIterator<Item = Reply>) -> Self {
        Self::claiming(tasks.into_iter().chain([empty()])).await
    }

    /// Answers by itself with so many tasks.
    pub(crate) async fn with_batches(pending: u8) -> Self {
        let server = Self::start().await;
        server.tasks(|tasks| tasks.pending = pending);
        for verb in ["claim", "heartbeat", "complete", "fail", "unclaim"] {
            server.script(verb, [Reply::Honest]);
        }
        server
    }

    /// Looks at the tasks of the server, or changes them.
    pub(crate) fn tasks<T>(&self, work: impl FnOnce(&mut Tasks) -> T) -> T {
        work(&mut self.state.lock().unwrap().tasks)
    }

    /// Sets the replies to a verb.
    pub(crate) fn script(&self, verb: &'static str, replies: impl IntoIterator<Item = Reply>) {
        self.state.lock().unwrap().scripts.insert(verb, replies.into_iter().collect());
    }

    /// The verbs of all requests in order, without observations and the question for capabilities.
    pub(crate) fn verbs(&self) -> Vec<String> {
        let state = self.state.lock().unwrap();
        let verbs = state.seen.iter().map(|request| request.verb.clone());
        verbs.filter(|verb| !["PUT", "POST", "DELETE", "capabilities"].contains(&verb.as_str())).collect()
    }

    /// The requests with this verb.
    pub(crate) fn asked(&self, verb: &str) -> Vec<Request> {
        self.state.lock().unwrap().seen.iter().filter(|request| request.verb == verb).cloned().collect()
    }

    /// Waits until this many requests with the verb have arrived.
    pub(crate) async fn until(&self, verb: &str, times: usize) {
        super::test_worker::until(|| self.asked(verb).len() >= times).await;
    }
}

async fn serve(mut stream: TcpStream, state: Arc<Mutex<State>>) {
    let Some(text) = read_request(&mut stream).await else { return };
    let verb = verb(&text);
    let request = Request { verb: verb.clone(), text };
    let reply = {
        let mut state = state.lock().unwrap();
        let state = &mut *state;
        state.seen.push(request.clone());
        let script = state.scripts.get_mut(verb.as_str()).unwrap_or_else(|| panic!("no script for {verb}"));
        match if script.len() > 1 { script.remove(0) } else { script[0].clone() } {
            Reply::Honest if verb.starts_with("batch/") => batch_answer(state.tasks.items(&request)),
            Reply::Honest => {
                let (status, body) = state.tasks.answer(&request);
                Reply::Answer(status, "", body)
            }
            Reply::Adding(count) => {
                state.tasks.pending += count;
                batch_answer(state.tasks.items(&request))
            }
            Reply::Lie(lie) => batch_answer(lie(state.tasks.items(&request))),
            reply => reply,
        }
    };
    let reply = match reply {
        Reply::Held(told, reply) => {
            told.notified().await;
            *reply
        }
        reply => reply,
    };
    let bytes = match reply {
        Reply::Silence | Reply::Held(..) | Reply::Honest | Reply::Adding(_) | Reply::Lie(_) => {
            std::future::pending().await
        }
        Reply::Garbage(text) => text.to_owned(),
        Reply::Answer(status, headers, body) => {
            let body =
                if body.contains("{run_id}") { body.replace("{run_id}", &request.member("run_id")) } else { body };
            let length = if status == 204 { String::new() } else { format!("Content-Length: {}\r\n", body.len()) };
            format!("HTTP/1.1 {status} Said\r\nConnection: close\r\n{length}{headers}\r\n{body}")
        }
    };
    // The client may have closed the connection.
    let _ = stream.write_all(bytes.as_bytes()).await;
    let _ = stream.shutdown().await;
}

fn batch_answer(items: Vec<String>) -> Reply {
    Reply::Answer(200, "", format!(r#"{{"items":[{}]}}"#, items.join(",")))
}

fn verb(text: &str) -> String {
    let mut words = text.split(' ');
    let (method, path) = (words.next().unwrap(), words.next().unwrap());
    let last = path.rsplit('/').next().unwrap();
    match path {
        path if path.contains("/workers/") => method.to_owned(),
        path if path.contains("/batch/") => format!("batch/{last}"),
        _ => last.to_owned(),
    }
}

async fn read_request(stream: &mut TcpStream) -> Option<String> {
    let mut bytes = Vec::new();
    loop {
        if stream.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
        let text = String::from_utf8_lossy(&bytes).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
            if body.len() >= length.map_or(0, |length| length.parse().unwrap()) {
                return Some(text);
            }
        }
    }
}
