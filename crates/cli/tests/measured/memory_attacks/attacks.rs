//! Ways to fill a server with valid requests. An attacker goes on until it has to stop; what the server answers it is
//! of no interest here.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::json;

use super::healthy;
use super::support::*;

/// How many tasks of 2 MB the queue `large` has: 1 MB of args, and an error of 1 MB.
const LARGE_TASKS: usize = 24;
/// How long connections that do nothing are kept before they are replaced: longer than the server puts up with.
const HOLD: Duration = Duration::from_secs(8);

/// One thread of an attack.
pub(crate) struct Attacker<'a> {
    pub(crate) number: usize,
    pub(crate) address: &'a str,
    pub(crate) stop: &'a AtomicBool,
}

impl Attacker<'_> {
    fn goes_on(&self) -> bool {
        !self.stop.load(Ordering::SeqCst)
    }

    /// A connection on which `bytes` were sent. Nothing when the server does not want it: attackers have no patience.
    fn send(&self, bytes: &[u8]) -> io::Result<TcpStream> {
        let mut stream = TcpStream::connect(self.address)?;
        stream.set_write_timeout(Some(Duration::from_secs(2)))?;
        stream.set_read_timeout(Some(Duration::from_secs(2)))?;
        stream.write_all(bytes)?;
        Ok(stream)
    }

    /// Sends a request and reads its answer.
    fn exchange(&self, request: &Request) {
        drop(Connection::tcp(self.address).and_then(|mut connection| connection.exchange(request)));
    }

    /// Waits for a while, or until it has to stop.
    fn rest(&self, time: Duration) {
        let end = Instant::now() + time;
        while self.goes_on() && Instant::now() < end {
            thread::park_timeout(Duration::from_millis(20));
        }
    }

    /// Sends on `count` connections and reads nothing, again and again.
    fn hold(&self, count: usize, request: impl Fn(usize) -> Vec<u8>) {
        let mut round = 0;
        while self.goes_on() {
            let held: Vec<_> = (0..count)
                .take_while(|_| self.goes_on())
                .filter_map(|n| self.send(&request(round * count + n)).ok())
                .collect();
            self.rest(HOLD);
            drop(held);
            round += 1;
        }
    }
}

/// A server with large tasks, and with some small ones for the healthy client.
pub(crate) fn prepare(server: &Server) {
    server.create_queue(healthy::QUEUE);
    (0..50).for_each(|n| drop(server.create_in(healthy::QUEUE, n, json!({}))));
    server.create_queue("large");
    let megabyte = "x".repeat(1_000_000);
    for n in 0..LARGE_TASKS {
        server.create_in("large", n, json!({"args": {"a": megabyte}, "max_attempts": 1_000_000}));
    }
    for n in 0..LARGE_TASKS {
        let run = run_id(900_000 + n);
        let claimed = server.claim_for("large", "default", 900_000 + n).expect(200).json();
        let failed = json!({"run_id": run, "error": {"type": "E", "message": megabyte}});
        let path = format!("/api/v2/queues/large/tasks/{}/fail", claimed["task"]["id"].as_str().unwrap());
        server.post(&path, failed).expect(204);
    }
    // What it prints takes six times as much as JSON.
    let (path, run) = (output_path(), run_id(700_000));
    server.create_in(healthy::QUEUE, 700_000, json!({"routes": ["printing"]}));
    server.claim_for(healthy::QUEUE, "printing", 700_000).expect(200);
    for part in 0..4 {
        let output = json!({"run_id": run, "offset": part * 65_536, "text": "\u{1}".repeat(65_536)});
        server.post(&path, output).expect(204);
    }
}

fn output_path() -> String {
    format!("/api/v2/queues/{}/tasks/{}/output", healthy::QUEUE, task_id(700_000))
}

fn get(path: &str) -> Vec<u8> {
    Request::new("GET", path).to_bytes()
}

pub(crate) fn many_routes(attacker: &Attacker<'_>) {
    let filling = "x".repeat(1_030_000);
    for n in (0..).take_while(|_| attacker.goes_on()) {
        let routes: Vec<String> = (0..256).map(|route| format!("r{}-{n}-{route}", attacker.number)).collect();
        let task = task_id(attacker.number * 1_000_000 + n);
        let path = format!("/api/v2/queues/large/tasks/{task}");
        attacker.exchange(&Request::new("PUT", &path).json(json!({"args": {"a": filling}, "routes": routes})));
    }
}

pub(crate) fn long_routes(attacker: &Attacker<'_>) {
    let filling = "x".repeat(110);
    for n in (0..).take_while(|_| attacker.goes_on()) {
        let routes: Vec<String> =
            (0..256).map(|route| format!("r{}{n:06}{route:03}{filling}", attacker.number)).collect();
        let path = format!("/api/v2/queues/large/tasks/{}", task_id(attacker.number * 1_000_000 + n));
        attacker.exchange(&Request::new("PUT", &path).json(json!({"routes": routes})));
    }
}

/// Reads 95 kB in each second.
pub(crate) fn slow_list(attacker: &Attacker<'_>) {
    while attacker.goes_on() {
        let Ok(mut stream) = attacker.send(&get("/api/v2/queues/large/tasks?limit=1000")) else { continue };
        while attacker.goes_on() && matches!(stream.read(&mut [0; 9_500]), Ok(1..)) {
            attacker.rest(Duration::from_millis(100));
        }
    }
}

pub(crate) fn unread_lists(attacker: &Attacker<'_>) {
    attacker.hold(100, |_| get("/api/v2/queues/large/tasks?limit=1000"));
}

pub(crate) fn unread_tasks(attacker: &Attacker<'_>) {
    attacker.hold(375, |n| get(&format!("/api/v2/queues/large/tasks/{}", task_id(n % LARGE_TASKS))));
}

/// Each claims one of the large tasks; the same claim again gets the same task.
pub(crate) fn unread_claims(attacker: &Attacker<'_>) {
    attacker.hold(125, |n| {
        let run = json!({"route": "default", "run_id": run_id(800_000 + n % LARGE_TASKS)});
        Request::new("POST", "/api/v2/queues/large/tasks/claim").json(run).to_bytes()
    });
}

/// Sends nearly all of a large body, and then a byte now and then.
pub(crate) fn slow_bodies(attacker: &Attacker<'_>) {
    let path = format!("/api/v2/queues/large/tasks/{}", task_id(7));
    let whole = Request::new("PUT", &path).json(format!("{{\"args\":{{\"a\":\"{}\"}}}}", "x".repeat(1_000_000)));
    let bytes = whole.to_bytes();
    while attacker.goes_on() {
        let begun = (0..250).take_while(|_| attacker.goes_on());
        let mut held: Vec<_> = begun.filter_map(|_| attacker.send(&bytes[..bytes.len() - 5_000]).ok()).collect();
        for _ in 0..4 {
            attacker.rest(HOLD / 8);
            held.retain_mut(|stream| stream.write_all(b"x").is_ok());
        }
    }
}

/// A megabyte of lists with one number each.
pub(crate) fn dense_bodies(attacker: &Attacker<'_>) {
    let lists = "[1],".repeat(260_000);
    let path = format!("/api/v2/queues/large/tasks/{}", task_id(attacker.number));
    let request = Request::new("PATCH", &path).json(format!("{{\"args\":{{\"a\":[{lists}1]}}}}"));
    while attacker.goes_on() {
        attacker.exchange(&request);
    }
}

/// By turns text that is kept, lists that are large when parsed, and items that are refused.
pub(crate) fn large_batches(attacker: &Attacker<'_>) {
    let (text, lists) = ("x".repeat(1_000_000), "[1],".repeat(250_000));
    for n in (0..).take_while(|_| attacker.goes_on()) {
        let task = |item: usize| {
            let id = task_id(attacker.number * 1_000_000 + n * 16 + item);
            match n % 3 {
                0 => format!(r#"{{"id":"{id}","args":{{"a":"{text}"}}}}"#),
                1 => format!(r#"{{"id":"{id}","args":{{"a":[{lists}1]}},"x":1}}"#),
                _ => format!(r#"{{"id":"{id}","args":{{"{text}":1e400}}}}"#),
            }
        };
        let tasks: Vec<String> = (0..16).map(task).collect();
        let body = format!(r#"{{"tasks":[{}]}}"#, tasks.join(","));
        attacker.exchange(&Request::new("POST", "/api/v2/queues/large/tasks/batch/create").json(body));
    }
}

/// A batch of 16 tasks and nearly 16 MiB for the queue `q`.
pub(crate) fn largest_batch(lane: usize) -> Request {
    let text = "x".repeat(1_048_400);
    let task = |n| format!(r#"{{"id":"{}","args":{{"a":"{text}"}}}}"#, task_id(lane * 100 + n));
    let tasks: Vec<String> = (0..16).map(task).collect();
    Request::new("POST", &in_queue("/tasks/batch/create")).json(format!(r#"{{"tasks":[{}]}}"#, tasks.join(",")))
}

/// Each claims as many of the large tasks as fit; the same claims again get the same tasks.
pub(crate) fn unread_batches(attacker: &Attacker<'_>) {
    let run_ids: Vec<String> = (0..LARGE_TASKS).map(|n| run_id(700_000 + n)).collect();
    let request = Request::new("POST", "/api/v2/queues/large/tasks/batch/claim");
    let bytes = request.json(json!({"route": "default", "run_ids": run_ids})).to_bytes();
    attacker.hold(125, |_| bytes.clone());
}

pub(crate) fn large_heads(attacker: &Attacker<'_>) {
    let head = format!("GET /health HTTP/1.1\r\nhost: x\r\nx: {}", "a".repeat(120_000));
    attacker.hold(300, |_| head.clone().into_bytes());
}

/// A quarter of them never sent anything, the others got an answer.
pub(crate) fn idle_connections(attacker: &Attacker<'_>) {
    attacker.hold(400, |n| if n % 4 == 0 { Vec::new() } else { get("/health") });
}

pub(crate) fn unread_output(attacker: &Attacker<'_>) {
    attacker.hold(375, |_| get(&output_path()));
}

pub(crate) fn waiting_reads(attacker: &Attacker<'_>) {
    let path = output_path() + "?offset=9223372036854775807";
    attacker.hold(300, |_| Request::new("GET", &path).header("Prefer", "wait=60").to_bytes());
}

pub(crate) fn bulk_updates(attacker: &Attacker<'_>) {
    for n in (0..).take_while(|_| attacker.goes_on()) {
        let changes = json!({"filter": "max_attempts > 1", "changes": {"priority": n}});
        attacker.exchange(&Request::new("PATCH", "/api/v2/queues/large/tasks").json(changes));
    }
}
