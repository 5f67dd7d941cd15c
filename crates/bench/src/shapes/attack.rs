//! Sends one shape, alone or by many clients, while others are served: what they were answered, what others saw, how much memory it
//! took, whether it ended with its clients, and which rules of the invariants (C1, C2, C3, C5) were broken.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::exchange::{Answer, Connection};
use super::fields::{Place, Size};
use super::pages::{HIDDEN, PAGES};
use super::probes::{HELD_UP, Limits, Probed, Probes, ROUNDS};
use super::shape::Shape;
use super::world::Client;
use crate::failure::{Failure, Result};
use crate::server::Server;
use crate::usage::{Usage, status_bytes};

/// The memory that the server is told that it may use.
pub(super) const MEMORY_BYTES: u64 = 256 << 20;
/// How soon a request is refused that would change too much, at full size.
const REFUSED_WITHIN: Duration = Duration::from_secs(1);
/// How long many clients go on at full size, at least.
const GOES_ON: Duration = Duration::from_secs(2);
/// However slow the probes are.
const AT_MOST: Duration = Duration::from_secs(40);
const POLL: Duration = Duration::from_millis(2);
/// How much CPU time a server may use for reads whose clients have gone (C2); it does not pass while a busy machine runs
/// something else. A read is dropped within 100 ms, and ends by itself after 25 seconds.
const LEFT_CPU_SECONDS: f64 = 8.0;
/// How an idle server is known: so much CPU in such a time.
const WINDOW: Duration = Duration::from_millis(400);
const IDLE_CPU_SECONDS: f64 = 0.04;

/// How a miss begins that is an error of the list of shapes.
const OF_THE_LIST: &str = "the list:";

/// The beginning of what a sweep tells. What is done by a form is told on the page that it leads to. One that shows a page itself asks something, or says what is wrong;
/// or it was a sweep, which is created in parts, and the page says this.
const DONE_SO_FAR: &str = "So far: ";

/// The answers to one client.
#[derive(Default)]
struct Sent {
    /// The first answer, or why there was none.
    first: Option<std::result::Result<Answer, String>>,
    first_taken: Duration,
    /// How often each answer came.
    answers: BTreeMap<String, usize>,
    /// Answers that must not be.
    wrong: Vec<String>,
    only_busy: bool,
}

/// The figures of one shape.
pub(super) struct Measured {
    pub(super) answers: BTreeMap<String, usize>,
    pub(super) slowest: Duration,
    pub(super) probed: Probed,
    /// The times of an idle server meanwhile.
    pub(super) idle: Probed,
    pub(super) peak_bytes: u64,
    pub(super) misses: Vec<String>,
}

/// A server with its probes and what is stored in it.
pub(super) struct Target<'t> {
    pub(super) server: &'t Server,
    pub(super) probes: &'t Probes,
    /// Probes of a server that nobody else asks for anything: what the machine itself costs.
    pub(super) control: &'t Probes,
    pub(super) size: Size,
}

/// Sends a shape by so many clients.
pub(super) fn measure(target: &Target<'_>, shape: &Shape, turn: usize, clients: usize) -> Result<Measured> {
    let mut preparing = Client::new(target.server.endpoint.address, target.size)?;
    let mut place =
        Place { size: target.size, heavy: shape.heavy, turn, client: 0, item: 0, matching: 0, cursor: None };
    preparing.prepare(shape, clients, &mut place)?;
    let places: Vec<Place<'_>> = (0..clients).map(|client| Place { client, ..place.clone() }).collect();
    let mut requests = Vec::new();
    for place in &places {
        requests.push(written(&mut preparing, shape, place)?);
    }
    let see = |client: &mut Client, place: &Place<'_>| -> Result<Option<Vec<u8>>> {
        shape.witness(place).map(|path| client.get(&path).map(|answer| answer.body)).transpose()
    };
    let seen = places.iter().map(|place| see(&mut preparing, place)).collect::<Result<Vec<_>>>()?;
    // From here on the kernel counts the highest use anew.
    drop(fs::write(format!("/proc/{}/clear_refs", target.server.pid()), "5"));
    let (sent, probed, idle) = attack(target, &requests)?;
    let peak_bytes = status_bytes(target.server.pid(), "VmHWM:")?;
    let beside = if target.size == Size::Full { Limits::OneOfFullSize } else { Limits::OneSmall };
    let mut misses = probed.misses(&idle, beside);
    misses.extend(sent.iter().flat_map(|sent| sent.wrong.iter().cloned()).take(3));
    if clients == 1 {
        misses.extend(sent.iter().filter_map(|sent| unsuccessful(shape, target.size, sent)));
    }
    if peak_bytes > MEMORY_BYTES {
        misses.push(format!("C3: {} MiB instead of {}", peak_bytes >> 20, MEMORY_BYTES >> 20));
    }
    for ((sent, place), before) in sent.iter().zip(&places).zip(&seen) {
        if sent.only_busy && see(&mut preparing, place)? != *before {
            misses.push(format!("C5: {} changed by a request that was answered database_busy", place.id('t')));
        }
    }
    for path in &probed.refused {
        if preparing.get(path)?.status != 404 {
            misses.push(format!("C5: {path} exists, though its creation was answered database_busy"));
        }
    }
    if clients > 1 && shape.method == "GET" {
        abandon(target.server, &requests);
        // The small ones are waited for together, when all have been sent.
        misses.extend((target.size == Size::Full).then(|| still_busy(target.server)).flatten());
    }
    preparing.clean(turn)?;
    let mut answers = BTreeMap::new();
    for (answer, count) in sent.iter().flat_map(|sent| &sent.answers) {
        *answers.entry(answer.clone()).or_default() += count;
    }
    let slowest = sent.iter().map(|sent| sent.first_taken).max().unwrap_or_default();
    Ok(Measured { answers, slowest, probed, idle, peak_bytes, misses })
}

/// Sends requests and leaves.
fn abandon(server: &Server, requests: &[Vec<u8>]) {
    let leave = |request: &Vec<u8>| TcpStream::connect(server.endpoint.address)?.write_all(request);
    // A server that has no room for the connection has nothing to stop either.
    requests.iter().for_each(|request| drop(leave(request)));
}

/// Says what breaks C2: the server works on although all clients have gone.
pub(super) fn still_busy(server: &Server) -> Option<String> {
    let cpu_seconds = || Usage::of(server.pid()).map_or(f64::INFINITY, |usage| usage.cpu_seconds);
    let first = cpu_seconds();
    let mut before = first;
    loop {
        thread::sleep(WINDOW);
        let now = cpu_seconds();
        if now == f64::INFINITY {
            return Some("C2: the server has gone".to_owned());
        }
        if now - before <= IDLE_CPU_SECONDS {
            return None;
        }
        if now - first > LEFT_CPU_SECONDS {
            return Some(format!("C2: {:.0} s of CPU time after its clients have gone", now - first));
        }
        before = now;
    }
}

/// The request of one client. A later page needs its cursor, and a form what its page carries unseen.
fn written(client: &mut Client, shape: &Shape, place: &Place<'_>) -> Result<Vec<u8>> {
    let mut place = place.clone();
    if shape.has_cursor() {
        place.cursor = Some(next_cursor(client, &shape.target(&place))?);
    }
    let mut hidden = Vec::new();
    if shape.is_form() {
        let has_form = PAGES.iter().any(|page| page.method == "GET" && page.path == shape.path);
        let form = client.get(&if has_form { shape.target(&place) } else { "/ui/system".to_owned() })?;
        let text = form.text().into_owned();
        for name in HIDDEN {
            let value = text.split(&format!("name=\"{name}\" value=\"")).nth(1).and_then(|rest| rest.split('"').next());
            hidden.extend(value.map(|value| (name.to_owned(), value.to_owned())));
        }
    }
    Ok(shape.request(client.address, &place, &hidden))
}

/// Where the page behind the first one begins, in an answer of the API or in the link of a page of the dashboard.
fn next_cursor(client: &mut Client, first: &str) -> Result<String> {
    let page = client.get(first)?;
    let text = page.text();
    let cursor =
        ["\"next_cursor\":\"", "cursor="].iter().find_map(|mark| text.split_once(mark)?.1.split(['"', '&']).next());
    cursor.map(str::to_owned).ok_or_else(|| {
        let told = format!("answered {} with {} bytes", page.status, page.body.len());
        Failure::new(format!("{OF_THE_LIST} this shape asks for a cursor, but its page is the only one ({told})"))
    })
}

/// Lets all clients send, each its request, while the probes run.
fn attack(target: &Target<'_>, requests: &[Vec<u8>]) -> Result<(Vec<Sent>, Probed, Probed)> {
    let (done, rounds, answered) = (&AtomicBool::new(false), &AtomicUsize::new(0), &AtomicUsize::new(0));
    // One that is alone sends once; at full size many go on until enough was seen.
    let (goes_on, least) = match (requests.len(), target.size) {
        (1, _) | (_, Size::Small) => (Duration::ZERO, 0),
        (_, Size::Full) => (GOES_ON, ROUNDS),
    };
    let connections: Vec<_> =
        requests.iter().map(|_| Connection::new(target.server.endpoint.address)).collect::<std::io::Result<_>>()?;
    thread::scope(|scope| {
        let probing = scope.spawn(|| target.probes.measure(done, rounds));
        let control = scope.spawn(|| target.control.measure(done, &AtomicUsize::new(0)));
        let senders: Vec<_> = requests
            .iter()
            .zip(connections)
            .map(|(request, mut connection)| {
                scope.spawn(move || {
                    let mut sent = Sent { only_busy: true, ..Sent::default() };
                    sent.send(&mut connection, request);
                    answered.fetch_add(1, Ordering::Relaxed);
                    while !goes_on.is_zero() && !done.load(Ordering::Relaxed) {
                        sent.send(&mut connection, request);
                    }
                    sent
                })
            })
            .collect();
        let begin = Instant::now();
        let is_enough = || {
            answered.load(Ordering::Relaxed) == requests.len()
                && (begin.elapsed() > AT_MOST || begin.elapsed() >= goes_on && rounds.load(Ordering::Relaxed) >= least)
        };
        while !is_enough() {
            thread::sleep(POLL);
        }
        done.store(true, Ordering::Relaxed);
        let sent = senders.into_iter().filter_map(|sender| sender.join().ok()).collect();
        Ok((sent, probing.join().unwrap_or_default(), control.join().unwrap_or_default()))
    })
}

impl Sent {
    fn send(&mut self, connection: &mut Connection, request: &[u8]) {
        let begin = Instant::now();
        let answer = connection.send(request).map_err(|error| error.to_string());
        let taken = begin.elapsed();
        let told = match &answer {
            Ok(answer) => format!("{} {}", answer.status, answer.code()).trim().to_owned(),
            Err(error) => error.clone(),
        };
        match &answer {
            Ok(answer) if answer.is_truthful_busy() => {}
            Ok(answer) if answer.status < 500 => self.only_busy = false,
            Ok(answer) => {
                self.only_busy = false;
                self.wrong.push(format!("answered {told} after {} ms: {}", taken.as_millis(), answer.excerpt()));
            }
            Err(error) => {
                self.only_busy = false;
                self.wrong.push(format!("no answer: {error} after {} ms", taken.as_millis()));
            }
        }
        *self.answers.entry(told).or_default() += 1;
        if self.first.is_none() {
            (self.first, self.first_taken) = (Some(answer), taken);
        }
    }
}

/// Why a request that was alone is not the largest valid one, or was not done.
fn unsuccessful(shape: &Shape, size: Size, sent: &Sent) -> Option<String> {
    let Some(Ok(answer)) = &sent.first else { return None };
    // A request of the wrong form is not the largest valid one.
    let is_malformed = answer.code().starts_with("invalid_") || answer.code() == "filter_too_large";
    let is_refusal = shape.may_be_refused && matches!(answer.status, 400..500) && !is_malformed;
    let is_busy = shape.may_be_busy && answer.is_truthful_busy();
    let within = if size == Size::Full { REFUSED_WITHIN } else { HELD_UP };
    let refused_at_once = (is_refusal || is_busy) && sent.first_taken <= within;
    let has_refused_items = answer.text().contains(r#""outcome":"refused""#);
    match answer.status {
        200..400 if has_refused_items => Some(format!("alone: items were refused: {}", answer.excerpt())),
        200..300 if shape.is_form() && !shape.may_be_refused && !answer.text().contains(DONE_SO_FAR) => {
            Some(format!("{OF_THE_LIST} nothing was done, but a page of {} bytes was shown", answer.body.len()))
        }
        200..400 => shape.least.lacking_in(answer, size).map(|lacking| format!("{OF_THE_LIST} {lacking}")),
        _ if refused_at_once => None,
        status => {
            let taken = sent.first_taken.as_millis();
            Some(format!("alone: answered {status} {} after {taken} ms: {}", answer.code(), answer.excerpt()))
        }
    }
}

impl Measured {
    /// A shape that could not be measured.
    pub(super) fn failed(failure: &Failure) -> Self {
        let (answers, slowest) = (BTreeMap::new(), Duration::ZERO);
        let (probed, idle) = (Probed::default(), Probed::default());
        Self { answers, slowest, probed, idle, peak_bytes: 0, misses: vec![failure.to_string()] }
    }
}
