//! Runs an attack: some clients send its requests repeatedly while another measures its own requests. As many clients send cheap
//! requests to a second server meanwhile, and what another one measures there is what the machine allows. After the attackers have
//! disconnected, the server must become idle. The requests of each attack are in the other files.

use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustix::net::sockopt::set_socket_linger;
use taskqueue_test_postgres::eventually;

use super::probes::{self, Measured, Probe};
use super::support::{IntoBody, Request, Server, StopAtTheEnd, in_parallel, of_task};
use crate::alone;

/// How many requests attack at once. One alone and 32 are those of `shapes`.
const AT_ONCE: usize = 64;
/// How often an attacker checks whether it has to stop.
const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// How much CPU time the server may use from the moment on at which the attackers have disconnected, in ticks of 10 ms: CPU time
/// does not pass while a busy machine runs something else. A read is dropped within 100 ms, and 64 bodies of `large_batches.rs`
/// are understood in 640 to 870; reads on two cores to the end of their 25 seconds are 5,000.
const LEFT_TICKS: u64 = 2_000;

/// For how long the CPU time of an idle server hardly grows.
const WINDOW: Duration = Duration::from_millis(400);
/// What it grows by at most: the server has some background work.
const IDLE_TICKS: u64 = 4;

/// Something that a client may do.
pub(super) trait Attack: Sync {
    /// Fills the queue `q`.
    fn prepare(&self, server: &Server);

    /// The request number `number`.
    fn request(&self, number: usize) -> Request;
}

/// Creates so many tasks, several at a time, each with the body for its number.
pub(super) fn fill<B: IntoBody>(server: &Server, count: usize, body: impl Fn(usize) -> B + Sync) {
    in_parallel(8, |thread| {
        for number in (thread..count).step_by(8) {
            server.put(&of_task(number, ""), body(number)).expect(201);
        }
    });
}

/// A number from the environment.
pub(super) fn setting(name: &str, usual: usize) -> usize {
    std::env::var(name).map_or(usual, |text| text.parse().unwrap_or_else(|_| panic!("{name} is a number: {text:?}")))
}

/// Asserts that a server serves other clients during the attack as it does during cheap requests.
#[allow(clippy::print_stderr, reason = "figures for runs with --nocapture")]
pub(super) fn endures(attack: &dyn Attack) {
    let _alone = alone();
    let (server, other) = (Server::alone(), Server::alone());
    attack.prepare(&server);
    let (mut probe, mut control) = (Probe::new(&server), Probe::new(&other));
    let (measured, expected) = measure(attack, &mut probe, &mut control);
    eprintln!("{measured} (cheap requests: {expected})");
    assert_idle(server.process_id());
    assert_eq!(probes::check_served(&measured, &expected), Ok(()));
    probe.assert_refusals_did_nothing();
}

/// What requests cost that cost next to nothing.
struct Cheap;

impl Attack for Cheap {
    fn prepare(&self, _: &Server) {}

    fn request(&self, _: usize) -> Request {
        Request::new("GET", "/livez")
    }
}

/// What the two clients measure while so many others attack the server of the first one, and as many ask that of the second one for
/// next to nothing.
fn measure(attack: &dyn Attack, probe: &mut Probe<'_>, control: &mut Probe<'_>) -> (Measured, Measured) {
    let (done, server, other) = (&AtomicBool::new(false), probe.server(), control.server());
    thread::scope(|scope| {
        let end = StopAtTheEnd(done);
        for first in 0..AT_ONCE {
            scope.spawn(move || attacker(server, attack, first..usize::MAX, done));
            scope.spawn(move || attacker(other, &Cheap, first..usize::MAX, done));
        }
        let control = scope.spawn(|| control.measure(done));
        let measured = probe.measure_for(Duration::from_secs(setting("TASKQUEUE_COST_SECONDS", 2) as u64));
        drop(end);
        (measured, control.join().unwrap())
    })
}

/// Sends one request after the other, and resets the connection in the middle of the last one.
fn attacker(server: &Server, attack: &dyn Attack, numbers: std::ops::Range<usize>, done: &AtomicBool) {
    for number in numbers {
        let request = attack.request(number).header("Connection", "close");
        let mut stream = TcpStream::connect(&server.address).unwrap();
        stream.set_read_timeout(Some(POLL_INTERVAL)).unwrap();
        set_socket_linger(&stream, Some(Duration::ZERO)).unwrap();
        // A server that refuses early may have closed the connection.
        let _ = stream.write_all(&request.to_bytes());
        let (mut head, mut buffer) = (Vec::new(), vec![0; 1 << 16]);
        loop {
            if done.load(Ordering::Relaxed) {
                return;
            }
            match stream.read(&mut buffer) {
                Ok(0) => break,
                Ok(read) => head.extend_from_slice(&buffer[..read.min(64_usize.saturating_sub(head.len()))]),
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
                Err(_) => break,
            }
        }
        let head = String::from_utf8_lossy(&head);
        assert!(head.contains(" 200 ") || head.contains(" 503 "), "{head}");
    }
}

/// The CPU time of a process so far, in ticks of 10 ms.
fn cpu_ticks(process: u32) -> u64 {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap();
    // Behind the name, which may hold blanks: the fields from the third one on.
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
    fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
}

/// The CPU time of the server stops growing soon.
fn assert_idle(process: u32) {
    let begin = cpu_ticks(process);
    let (mut checked, mut ticks) = (Instant::now(), begin);
    eventually("the server is idle", || {
        if checked.elapsed() < WINDOW {
            return false;
        }
        let grown = cpu_ticks(process) - ticks;
        (checked, ticks) = (Instant::now(), ticks + grown);
        grown <= IDLE_TICKS
    });
    assert!(ticks - begin < LEFT_TICKS, "{} ticks after the clients left", ticks - begin);
}
