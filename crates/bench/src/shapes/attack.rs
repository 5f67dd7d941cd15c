//! Sends one shape, alone or by many clients, while others are served: what they were answered, what others saw, how much memory it
//! took, whether it ended with its clients, and which rules of the invariants (C1, C2, C3, C5) were broken.

use std::fs;
use std::io::Write;
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::fields::{Place, Size};
use super::pages::{HIDDEN, PAGES};
use super::probes::{Connection, HELD_UP_MILLIS, OF_ONE, OF_ONE_SMALL, Probed, Probes, ROUNDS, is_truthful_busy};
use super::shape::{Least, Shape};
use crate::Result;
use crate::client::{Answer, text_behind};
use crate::usage::{Usage, status_bytes};

/// The memory that the server is told that it may use.
pub(super) const MEMORY_BYTES: u64 = 256 << 20;
/// How soon a request is refused that would change too much, at full size.
const REFUSED_WITHIN_MILLIS: f64 = 1_000.0;
/// How long many clients go on at full size, at least.
const GOES_ON: Duration = Duration::from_secs(2);
/// However slow the probes are.
const AT_MOST: Duration = Duration::from_secs(40);
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
    /// The first answer, if there was one.
    first: Option<Answer>,
    first_taken: Duration,
    /// Answers that must not be.
    wrong: Vec<String>,
    /// Whether one was not `database_busy`.
    did_something: bool,
}

/// The figures of one shape.
#[derive(Default)]
pub(super) struct Measured {
    pub(super) peak_bytes: u64,
    pub(super) misses: Vec<String>,
    /// What the probes of its server and those of an idle one saw meanwhile.
    pub(super) probed: Probed,
    pub(super) idle: Probed,
}

/// A server to which shapes are sent, and one that nobody else asks for anything: what its probes see is what the machine itself costs.
#[derive(Clone, Copy)]
pub(super) struct Target {
    pub(super) address: SocketAddr,
    pub(super) pid: u32,
    pub(super) idle: SocketAddr,
    pub(super) size: Size,
}

/// Sends a shape by so many clients.
pub(super) fn measure(target: Target, shape: &Shape, turn: usize, clients: usize) -> Result<Measured> {
    let Target { address, pid, size, .. } = target;
    let mut connection = Connection::new(address);
    let mut place = Place { heavy: shape.heavy, turn, ..Place::of(size) };
    connection.prepare(shape, clients, &mut place)?;
    let places = place.of_clients(clients);
    let requests: Vec<Vec<u8>> =
        places.iter().map(|place| written(&mut connection, shape, place)).collect::<Result<_>>()?;
    let mut see = |place: &Place<'_>| -> Result<Option<Answer>> {
        Ok(shape.witness(place).map(|path| connection.get(&path)).transpose()?)
    };
    let seen = places.iter().map(&mut see).collect::<Result<Vec<_>>>()?;
    // From here on the kernel counts the highest use anew.
    drop(fs::write(format!("/proc/{pid}/clear_refs"), "5"));
    let (sent, probed, idle) = attack(target, &requests);
    let peak_bytes = status_bytes(pid, "VmHWM:")?;
    let mut misses = probed.misses(&idle, if size == Size::Full { OF_ONE } else { OF_ONE_SMALL });
    misses.extend(sent.iter().flat_map(|sent| sent.wrong.iter().cloned()).take(3));
    if clients == 1 {
        misses.extend(sent.iter().filter_map(|sent| unsuccessful(shape, size, sent)));
    }
    if peak_bytes > MEMORY_BYTES {
        misses.push(format!("C3: {} MiB instead of {}", peak_bytes >> 20, MEMORY_BYTES >> 20));
    }
    for ((sent, place), before) in sent.iter().zip(&places).zip(&seen) {
        let body = |answer: &Option<Answer>| answer.as_ref().map(|answer| answer.body().to_vec());
        if !sent.did_something && body(&see(place)?) != body(before) {
            misses.push(format!("C5: {} changed by a request that was answered database_busy", place.id('t')));
        }
    }
    for path in &probed.refused {
        if connection.get(path)?.status != 404 {
            misses.push(format!("C5: {path} exists, though its creation was answered database_busy"));
        }
    }
    if clients > 1 && shape.method == "GET" {
        // All send and leave. A server that has no room for the connection has nothing to stop either.
        let leave = |request: &Vec<u8>| TcpStream::connect(address)?.write_all(request);
        requests.iter().for_each(|request| drop(leave(request)));
        // The small ones are waited for together, when all have been sent.
        misses.extend((size == Size::Full).then(|| still_busy(pid)).flatten());
    }
    connection.clean(turn)?;
    Ok(Measured { peak_bytes, misses, probed, idle })
}

/// Says what breaks C2: the server works on although all clients have gone.
pub(super) fn still_busy(pid: u32) -> Option<String> {
    let cpu_seconds = || Usage::of(pid).ok().map(|usage| usage.cpu_seconds);
    let gone = || Some("C2: the server has gone".to_owned());
    let Some(first) = cpu_seconds() else { return gone() };
    let mut before = first;
    loop {
        thread::sleep(WINDOW);
        match cpu_seconds() {
            None => return gone(),
            Some(now) if now - before <= IDLE_CPU_SECONDS => return None,
            Some(now) if now - first > LEFT_CPU_SECONDS => {
                return Some(format!("C2: {:.0} s of CPU time after its clients have gone", now - first));
            }
            Some(now) => before = now,
        }
    }
}

/// The request of one client. A later page needs its cursor, and a form what its page carries unseen.
fn written(connection: &mut Connection, shape: &Shape, place: &Place<'_>) -> Result<Vec<u8>> {
    let mut place = place.clone();
    if shape.has_cursor() {
        place.cursor = Some(next_cursor(&connection.get(&shape.target(&place))?)?);
    }
    let mut hidden = Vec::new();
    if shape.is_form() {
        let has_form = PAGES.iter().any(|page| page.method == "GET" && page.path == shape.path);
        let form = connection.get(&if has_form { shape.target(&place) } else { "/ui/system".to_owned() })?;
        for name in HIDDEN {
            let value = text_behind(&form.text(), &format!("name=\"{name}\" value=\""), &['"']).map(str::to_owned);
            hidden.extend(value.map(|value| (name, value)));
        }
    }
    Ok(shape.request(connection.address, &place, &hidden))
}

/// Where the page behind the first one begins, in an answer of the API or in the link of a page of the dashboard.
fn next_cursor(page: &Answer) -> Result<String> {
    let text = page.text();
    let cursor = ["\"next_cursor\":\"", "cursor="].iter().find_map(|mark| text_behind(&text, mark, &['"', '&']));
    Ok(cursor.map(str::to_owned).ok_or_else(|| {
        let told = format!("answered {} with {} bytes", page.status, page.body().len());
        format!("{OF_THE_LIST} this shape asks for a cursor, but its page is the only one ({told})")
    })?)
}

/// Lets all clients send, each its request, while the probes run.
fn attack(target: Target, requests: &[Vec<u8>]) -> (Vec<Sent>, Probed, Probed) {
    // One that is alone sends once; at full size many go on until enough was seen.
    let goes_on = requests.len() > 1 && target.size == Size::Full;
    let (probes, control) = (Probes::start(target.address), Probes::start(target.idle));
    let (answered, begin) = (AtomicUsize::new(0), Instant::now());
    let is_enough = || {
        let is_seen = begin.elapsed() >= GOES_ON && probes.rounds() >= ROUNDS;
        answered.load(Ordering::Relaxed) == requests.len() && (is_seen || begin.elapsed() > AT_MOST)
    };
    let send = |request: &[u8]| {
        let (mut sent, mut connection) = (Sent::default(), Connection::new(target.address));
        sent.send(&mut connection, request);
        answered.fetch_add(1, Ordering::Relaxed);
        while goes_on && !is_enough() {
            sent.send(&mut connection, request);
        }
        sent
    };
    let sent = thread::scope(|scope| {
        let senders: Vec<_> = requests.iter().map(|request| scope.spawn(|| send(request))).collect();
        senders.into_iter().filter_map(|sender| sender.join().ok()).collect()
    });
    (sent, probes.end(), control.end())
}

impl Sent {
    fn send(&mut self, connection: &mut Connection, request: &[u8]) {
        let begin = Instant::now();
        let answer = connection.send(request);
        let taken = begin.elapsed();
        let is_busy = answer.as_ref().is_ok_and(is_truthful_busy);
        self.did_something |= !is_busy;
        let millis = taken.as_millis();
        match &answer {
            Ok(answer) if !is_busy && answer.status >= 500 => {
                let told = format!("{} {} after {millis} ms: {}", answer.status, answer.code(), answer.excerpt());
                self.wrong.push(told);
            }
            Err(error) => self.wrong.push(format!("no answer after {millis} ms: {error}")),
            Ok(_) => {}
        }
        if self.first_taken.is_zero() {
            (self.first, self.first_taken) = (answer.ok(), taken);
        }
    }
}

/// Why a request that was alone is not the largest valid one, or was not done.
fn unsuccessful(shape: &Shape, size: Size, sent: &Sent) -> Option<String> {
    let answer = sent.first.as_ref()?;
    // A request of the wrong form is not the largest valid one.
    let is_malformed = || answer.code().starts_with("invalid_") || answer.code() == "filter_too_large";
    let is_refusal = shape.least == Least::OrRefusal && matches!(answer.status, 400..500) && !is_malformed();
    let is_busy = shape.least == Least::OrBusy && is_truthful_busy(answer);
    let within = if size == Size::Full { REFUSED_WITHIN_MILLIS } else { HELD_UP_MILLIS };
    let taken = sent.first_taken.as_secs_f64() * 1e3;
    let has_refused_items = answer.text().contains(r#""outcome":"refused""#);
    match answer.status {
        200..400 if has_refused_items => Some(format!("alone: items were refused: {}", answer.excerpt())),
        200..300 if shape.is_form() && shape.least != Least::OrRefusal && !answer.text().contains(DONE_SO_FAR) => {
            Some(format!("{OF_THE_LIST} nothing was done, but a page of {} bytes was shown", answer.body().len()))
        }
        200..400 => shape.least.lacking_in(answer, size).map(|lacking| format!("{OF_THE_LIST} {lacking}")),
        _ if (is_refusal || is_busy) && taken <= within => None,
        status => Some(format!("alone: answered {status} {} after {taken:.0} ms: {}", answer.code(), answer.excerpt())),
    }
}
