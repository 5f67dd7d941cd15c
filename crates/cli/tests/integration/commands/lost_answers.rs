//! Answers that get lost or come late: what was done is not done a second time, and nothing is missed.

use std::io::Write;
use std::net::TcpStream;
use std::process::Child;
use std::sync::mpsc::{self, Receiver, Sender};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use super::support::{A, B, Ran, Server, start};
use crate::support::{FakeServer, read_message};

/// Longer than the slowest machine needs for a request.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(60);

const BROKEN: &str = "HTTP/1.1 500 Internal Server Error\r\nContent-Length: 0\r\n\r\n";

/// As a server answers to what it does not know.
const MISSING: &str = "HTTP/1.1 404 Not Found\r\nContent-Type: application/json\r\nContent-Length: 58\r\n\r\n\
                       {\"error\":{\"code\":\"not_found\",\"message\":\"no\",\"details\":{}}}";

/// As a proxy with a limit for bodies answers.
const TOO_LARGE: &str = "HTTP/1.1 413 Request Entity Too Large\r\nContent-Type: text/html\r\nContent-Length: 13\r\n\r\n\
                         <html></html>";

/// What becomes of an answer.
#[derive(Clone, Copy)]
pub(crate) enum Fate {
    Passed,
    Lost,
    /// Replaced by an internal error.
    Broken,
    /// The server does not see the request and seems not to know it.
    Missing,
    /// The server does not see the request, which is too large for the proxy.
    TooLarge,
    /// Held back until the test releases it.
    Held,
}

/// A proxy before a server that handles one request after the other.
pub(crate) struct Proxy {
    pub(crate) url: String,
    held: Receiver<()>,
    // Before the server, which may wait for it.
    released: Sender<()>,
    _server: FakeServer,
}

impl Proxy {
    /// `fate` gets each request, head and body.
    pub(crate) fn start(server: &Server, mut fate: impl FnMut(&str) -> Fate + Send + 'static) -> Self {
        let target = server.url.strip_prefix("http://").unwrap().to_owned();
        let ((hold, held), (released, release)) = (mpsc::channel(), mpsc::channel());
        let server = FakeServer::start(move |request| {
            let fate = fate(request);
            let mut answer = match fate {
                Fate::Missing => MISSING.into(),
                Fate::TooLarge => TOO_LARGE.into(),
                _ => {
                    let mut server = TcpStream::connect(&target).unwrap();
                    server.write_all(request.as_bytes()).unwrap();
                    read_message(&server).unwrap()
                }
            };
            match fate {
                Fate::Passed | Fate::Missing | Fate::TooLarge => {}
                Fate::Lost => return Some(Vec::new()),
                Fate::Broken => answer = BROKEN.into(),
                Fate::Held => {
                    hold.send(()).unwrap();
                    let Ok(()) = release.recv() else { return Some(Vec::new()) };
                }
            }
            // One request per connection, so that each is seen.
            Some(String::from_utf8(answer).unwrap().replacen("\r\n", "\r\nConnection: close\r\n", 1).into())
        });
        Self { url: server.url(), held, released, _server: server }
    }

    /// A proxy where the `n`th of the requests that are meant has this fate, and all others pass.
    pub(crate) fn for_nth(
        server: &Server,
        n: usize,
        fate: Fate,
        is_meant: impl Fn(&str) -> bool + Send + 'static,
    ) -> Self {
        let mut seen = 0;
        Self::start(server, move |request| {
            let counts = is_meant(request);
            seen += usize::from(counts);
            if counts && seen == n { fate } else { Fate::Passed }
        })
    }

    /// Starts a command that goes through the proxy.
    fn spawn(&self, server: &Server, arguments: &[&str]) -> Child {
        start(&mut server.command(&[arguments, &["--url", &self.url]].concat()))
    }

    /// Waits until an answer is held back.
    #[track_caller]
    fn wait_until_held(&self) {
        self.held.recv_timeout(REQUEST_TIMEOUT).unwrap();
    }
}

#[test]
fn a_rerun_whose_answer_is_lost_makes_one_copy() {
    let server = Server::with_task(&["--arg", "x=1"]);
    server.run("task cancel t_aaaaaaaaaaaa").ok();
    let proxy = Proxy::for_nth(&server, 1, Fate::Lost, |request| request.starts_with("PUT "));
    let new_id = server.run_with(&["task", "rerun", "t_aaaaaaaaaaaa", "--url", &proxy.url, "-o", "quiet"]).ok();
    assert_eq!(server.run("task list --status pending -o quiet").ok(), new_id);
    assert_eq!(server.run("task count -o quiet").ok(), "2\n");
}

#[test]
fn ctrl_c_during_a_rerun_prints_the_copies_that_exist() {
    let server = Server::with_tasks(&[A, B]);
    server.run("task cancel t_aaaaaaaaaaaa t_bbbbbbbbbbbb").ok();
    let proxy = Proxy::for_nth(&server, 2, Fate::Held, |request| request.starts_with("PUT "));
    let rerun = proxy.spawn(&server, &["task", "rerun", "--status", "cancelled", "--yes", "-o", "quiet"]);
    proxy.wait_until_held();
    kill_process(Pid::from_child(&rerun), Signal::INT).unwrap();
    let ran = Ran::of(rerun);
    let copies = server.run("task list --status pending -o quiet").ok();
    let (shown, unsure): (Vec<&str>, Vec<&str>) = copies.lines().partition(|id| ran.stdout.contains(id));
    assert_eq!((shown.len(), unsure.len()), (1, 1), "{ran:?}");
    assert_eq!(ran.stdout, format!("{}\n", shown[0]));
    let interrupted = "error: interrupted: 1 task submitted again so far";
    ran.fails_with(130, &[&format!("--queue q {} tells", unsure[0]), interrupted]);
}

#[test]
fn a_task_that_becomes_pending_again_during_a_cancellation_is_cancelled() {
    let server = Server::with_task(&["--route", "a", "--name", "one"]);
    server.submit("t_bbbbbbbbbbbb", &["--route", "b", "--name", "one"]);
    server.claim("b", 1);
    let is_list = |request: &str| request.contains("/tasks?") && request.contains("order_by");
    let proxy = Proxy::for_nth(&server, 1, Fate::Held, is_list);
    // What a fuzzy search finds is listed and cancelled one by one.
    let cancel = proxy.spawn(&server, &["task", "cancel", "--fuzzy", "one", "--yes"]);
    proxy.wait_until_held();
    // It has attempts left.
    server.fail("t_bbbbbbbbbbbb", 1);
    proxy.released.send(()).unwrap();
    assert_eq!(Ran::of(cancel).ok(), "2 cancelled\n");
    assert_eq!(server.count("status == \"cancelled\""), 2);
}

#[test]
fn an_update_that_loses_its_server_says_how_many_tasks_were_changed() {
    let server = Server::with_tasks(&[A, B]);
    let is_second = |request: &str| request.starts_with("PATCH ") && request.contains(B);
    let proxy = Proxy::for_nth(&server, 1, Fate::Held, is_second);
    let update = proxy.spawn(&server, &["task", "update", "t_aaaaaaaaaaaa", "t_bbbbbbbbbbbb", "--priority", "1"]);
    proxy.wait_until_held();
    // The proxy ends with the connection.
    drop(proxy);
    Ran::of(update).fails_with(3, &["1 updated so far"]);
}

#[test]
fn a_wait_goes_on_without_the_warning_of_routes() {
    let server = Server::with_tasks(&[A]);
    let proxy = Proxy::start(&server, |request| if request.contains("/workers") { Fate::Broken } else { Fate::Passed });
    for arguments in [&["task", "wait", "--timeout", "0"][..], &["task", "wait", "t_aaaaaaaaaaaa", "--timeout", "0"]] {
        Ran::of(proxy.spawn(&server, arguments)).fails_with(1, &["error: timed out: 1 task has not ended"]);
    }
}
