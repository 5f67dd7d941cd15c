//! A run that prints: pieces of random text, each with the time when it was sent, and the requests that send them.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::net::SocketAddr;
use std::sync::LazyLock;
use std::time::{Duration, Instant};

use crate::client::Client;
use crate::failure::{Failure, Result};
use crate::operation::Phase;
use crate::{answer_parser, numbered_ids, request};

/// Its tasks run all the time, so nothing else may claim there.
pub(crate) const QUEUE: &str = Phase::LIFECYCLE_QUEUE;
/// What a worker sends in a second.
pub(crate) const PIECE_BYTES: usize = 1_024;
/// What a request may hold.
const LARGEST_PIECE: usize = 65_536;
/// Lines of a log.
const LINE_BYTES: usize = 96;
/// Begins a piece, and is in no other place of it.
const MARK: char = '@';
const STAMP_DIGITS: usize = 20;

/// Times are told from here.
static BEGIN: LazyLock<Instant> = LazyLock::new(Instant::now);

/// One run, and how much it has printed.
#[derive(Debug)]
pub(crate) struct Printer {
    address: SocketAddr,
    task: String,
    run: String,
    offset: u64,
    steps: u64,
    random: u64,
}

impl Printer {
    pub(crate) fn new(address: SocketAddr, task: u64, run: u64) -> Self {
        let random = RandomState::new().build_hasher().finish() | 1;
        let (task, run) = (numbered_ids::task_id(task), numbered_ids::run_id(run));
        Self { address, task, run, offset: 0, steps: 0, random }
    }

    /// Prints so many bytes.
    pub(crate) async fn print(&mut self, client: &mut Client, mut bytes: usize) -> Result<()> {
        while bytes > 0 {
            let piece = bytes.min(LARGEST_PIECE);
            let text = self.text(piece);
            let (run, offset) = (&self.run, self.offset);
            self.post(client, "output", &format!(r#"{{"run_id":"{run}","offset":{offset},"text":"{text}"}}"#)).await?;
            self.offset += piece as u64;
            bytes -= piece;
        }
        Ok(())
    }

    /// Says how far it is.
    pub(crate) async fn progress(&mut self, client: &mut Client) -> Result<()> {
        self.steps += 1;
        let loss = (self.random() % 1_000_000) as f64 / 1e6;
        let (run, step) = (&self.run, self.steps);
        let progress = format!(r#"{{"loss":{loss},"step":{step},"total":100000}}"#);
        self.post(client, "progress", &format!(r#"{{"run_id":"{run}","progress":{progress}}}"#)).await
    }

    pub(crate) async fn heartbeat(&self, client: &mut Client) -> Result<()> {
        self.post(client, "heartbeat", &format!(r#"{{"run_id":"{}"}}"#, self.run)).await
    }

    async fn post(&self, client: &mut Client, what: &str, body: &str) -> Result<()> {
        let path = format!("/api/v2/queues/{QUEUE}/tasks/{}/{what}", self.task);
        let answer = client.send(request::with_body("POST", self.address, &path, body).as_bytes()).await?;
        if matches!(answer.status, 200 | 204) {
            return Ok(());
        }
        let code = answer_parser::error_code(answer.body).unwrap_or_default();
        Err(Failure::new(format!("{what} was answered with {} {code}", answer.status)))
    }

    /// A request for what comes behind all of it so far, at a server of the caller's choice.
    pub(crate) fn read(&self, at: SocketAddr) -> Vec<u8> {
        self.reading().request(at)
    }

    /// The same, which may be answered later.
    pub(crate) fn follow(&self, at: SocketAddr, wait_seconds: u32) -> Vec<u8> {
        request::with_wait(&self.read(at), wait_seconds)
    }

    /// Where someone begins to read who follows from now on.
    pub(super) fn reading(&self) -> Reading {
        Reading { task: self.task.clone(), offset: self.offset }
    }

    /// The time, and random characters in lines, nothing that a disk or a database could make smaller; as JSON writes it. Lines
    /// are cut from one random text, so that the making of a piece takes nothing from what is measured.
    fn text(&mut self, bytes: usize) -> String {
        let mut text = format!("{MARK}{:0STAMP_DIGITS$} ", BEGIN.elapsed().as_nanos());
        let mut left = bytes - text.len();
        while left > 0 {
            let line = left.min(LINE_BYTES);
            let from = self.random() as usize % (RANDOM_TEXT.len() - LINE_BYTES);
            text.push_str(&RANDOM_TEXT[from..from + line - 1]);
            text.push_str("\\n");
            left -= line;
        }
        text
    }

    fn random(&mut self) -> u64 {
        next_random(&mut self.random)
    }
}

/// The next number of xorshift64*.
fn next_random(state: &mut u64) -> u64 {
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    state.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 32
}

const CHARACTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789. ";

static RANDOM_TEXT: LazyLock<String> = LazyLock::new(|| {
    let mut state = RandomState::new().build_hasher().finish() | 1;
    (0..1 << 20).map(|_| char::from(CHARACTERS[(next_random(&mut state) % 64) as usize])).collect()
});

/// Someone who follows the output of a task.
#[derive(Debug)]
pub(super) struct Reading {
    task: String,
    pub(super) offset: u64,
}

impl Reading {
    pub(super) fn request(&self, at: SocketAddr) -> Vec<u8> {
        request::get(at, &format!("/api/v2/queues/{QUEUE}/tasks/{}/output?offset={}", self.task, self.offset))
    }
}

/// How long ago each piece of a text was sent.
pub(super) fn ages(text: &str, now: Instant) -> impl Iterator<Item = Duration> {
    let sent = |piece: &str| piece.get(..STAMP_DIGITS)?.parse().ok().map(Duration::from_nanos);
    text.split(MARK).skip(1).filter_map(sent).map(move |sent| now.saturating_duration_since(*BEGIN + sent))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_piece_has_its_size_its_time_and_ends_with_its_line() {
        let mut printer = Printer::new(SocketAddr::from(([127, 0, 0, 1], 80)), 1, 2);
        let mut text = || serde_json::from_str::<String>(&format!("\"{}\"", printer.text(PIECE_BYTES))).unwrap();
        let (one, other) = (text(), text());
        assert!(one.len() == PIECE_BYTES && one.ends_with('\n') && one != other, "{one}");
        assert!(one.lines().all(|line| line.len() < 2 * LINE_BYTES), "{one}");
        let ages: Vec<Duration> = ages(&format!("{one}{other}"), Instant::now()).collect();
        assert!(ages.len() == 2 && ages[0] >= ages[1] && ages[0] < Duration::from_secs(60), "{ages:?}");
        assert_eq!(super::ages("the end of a piece\n", Instant::now()).count(), 0);
    }

    #[test]
    fn a_follower_asks_for_what_is_behind() {
        let printer = Printer { offset: 7, ..Printer::new(SocketAddr::from(([127, 0, 0, 1], 80)), 1, 2) };
        let text = String::from_utf8(printer.follow(printer.address, 30)).unwrap();
        assert!(text.contains("/output?offset=7 HTTP/1.1\r\nprefer: wait=30\r\n"), "{text}");
    }
}
