//! The same work on what users would pick instead: tasks with 200 bytes of args are created for a while, then taken and completed one by
//! one. Each peer is used the way its own documentation shows, fresh each time, in turns; where it differs, its name says what a power
//! cut takes of what it acknowledged. `scripts/install-bench-peers` installs them; one that is missing is reported as not measured.

use std::cell::Cell;
use std::fs::{self, File};
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::process::{Command, Stdio};
use std::rc::Rc;
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::bench::{Bench, On};
use crate::client::{Client, Endpoint};
use crate::failure::{Failure, Result};
use crate::figures::{median, progress};
use crate::load::Load;
use crate::measures::Found;
use crate::numbered_ids::Numbers;
use crate::request::{self, Operation, QUEUE};
use crate::server::{Process, scratch};

/// How long a server may take to start.
const START_TIMEOUT: Duration = Duration::from_secs(30);

/// Something to put tasks into and to take them out of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Peer {
    Taskqueue,
    /// Its log is synced so many milliseconds after each write.
    Beanstalkd(u32),
    Labtasker,
    /// On Redis with appendfsync always.
    Bullmq,
    GraphileWorker,
}

const PEERS: &[(&str, Peer)] = &[
    ("taskqueue", Peer::Taskqueue),
    ("beanstalkd -f 0", Peer::Beanstalkd(0)),
    ("beanstalkd -f 50 (loses 50 ms)", Peer::Beanstalkd(50)),
    ("labtasker-server", Peer::Labtasker),
    ("BullMQ on Redis", Peer::Bullmq),
    ("graphile-worker", Peer::GraphileWorker),
];

const OUR_PAIRS: &str = "our pairs over its";

/// How many per second: creations, and pairs of taking and completing.
type Rates = [f64; 2];

pub(crate) async fn run(bench: &Bench, found: &mut Found<'_>) -> Result<()> {
    let wanted = if bench.args.connections.is_empty() { &[64, 1][..] } else { &bench.args.connections };
    for connections in wanted {
        let mut measured: Vec<Result<Vec<Rates>>> = PEERS.iter().map(|_| Ok(Vec::new())).collect();
        for _ in 0..bench.args.rounds.unwrap_or(3) {
            for ((name, peer), so_far) in PEERS.iter().zip(&mut measured) {
                progress(&format!("{name}, {connections} connections"));
                // What could not be measured once is not tried again.
                let Ok(rounds) = so_far else { continue };
                match peer.measure(bench, usize::from(*connections)).await {
                    Ok(rates) => rounds.push(rates),
                    Err(failure) if *peer == Peer::Taskqueue => return Err(failure),
                    Err(failure) => {
                        progress(&format!("{name} is not measured: {failure}"));
                        *so_far = Err(failure);
                    }
                }
            }
        }
        for ((name, _), rounds) in PEERS.iter().zip(&measured) {
            let (Ok(rounds), Ok(ours)) = (rounds, &measured[0]) else {
                // Who has a goal misses it.
                found.add(&format!("{connections}, {name}: {OUR_PAIRS}"), f64::NAN);
                continue;
            };
            let mut add = |what: &str, values: Vec<f64>| {
                found.add(&format!("{connections}, {name}: {what}"), median(values));
            };
            add("creations/s", rounds.iter().map(|rates| rates[0]).collect());
            add("pairs/s", rounds.iter().map(|rates| rates[1]).collect());
            add(OUR_PAIRS, ours.iter().zip(rounds).map(|(ours, theirs)| ours[1] / theirs[1]).collect());
        }
    }
    Ok(())
}

impl Peer {
    async fn measure(self, bench: &Bench, connections: usize) -> Result<Rates> {
        let (folder, seconds) = (scratch(&bench.args.database_dir)?, bench.seconds(2.0));
        let at = folder.path().canonicalize()?;
        match self {
            Self::Taskqueue => {
                let server = bench.start(On::Disk).await?;
                same_api(server.endpoint.clone(), server.pid(), connections, seconds).await
            }
            Self::Labtasker => {
                let program = fs::canonicalize(bench.args.peers_dir.join("venv/bin/labtasker-server"))?;
                let database = at.join("bench.db");
                let (process, address) = start(&program, &at, |command, port| {
                    command.args(["serve", "--connection", "http", "--host", "127.0.0.1", "--port", port]);
                    command.arg("--database").arg(database).arg("--labtasker-root").arg(&at);
                })
                .await?;
                let mut client = Client::connect(&address.into()).await?;
                client.call("PUT", &format!("/api/v2/queues/{QUEUE}"), "").await?;
                same_api(address.into(), process.0.id(), connections, seconds).await
            }
            Self::Beanstalkd(millis) => {
                let millis = millis.to_string();
                let (_process, address) = start(Path::new("beanstalkd"), &at, |command, port| {
                    command.args(["-l", "127.0.0.1", "-p", port, "-b", ".", "-f", &millis]);
                })
                .await?;
                let length = Duration::from_secs_f64(seconds);
                Ok([
                    beanstalk(false, address, connections, length).await?,
                    beanstalk(true, address, connections, length).await?,
                ])
            }
            Self::Bullmq => {
                let (_process, address) = start(Path::new("redis-server"), &at, |command, port| {
                    command.args(["--port", port, "--bind", "127.0.0.1", "--save", "", "--dir", "."]);
                    command.args(["--appendonly", "yes", "--appendfsync", "always"]);
                })
                .await?;
                node(bench, include_str!("peers/bullmq.mjs"), &address.port().to_string(), connections, seconds)
            }
            Self::GraphileWorker => {
                let database = bench.cluster().database();
                node(bench, include_str!("peers/graphile_worker.mjs"), &database.url(), connections, seconds)
            }
        }
    }
}

/// The two with our API: the load is that of the other measurements.
async fn same_api(endpoint: Endpoint, pid: u32, connections: usize, seconds: f64) -> Result<Rates> {
    let numbers: Rc<Numbers> = Rc::default();
    let load = |cycle| Load::at(endpoint.clone(), pid, numbers.clone(), cycle, connections, seconds);
    let creations = load(&[Operation::Create]).run().await?.without_errors()?.rate();
    // Pairs that are faster than creations end early, and are counted until then.
    let requests = load(&[Operation::Claim, Operation::Complete]).run().await?.without_errors()?.rate();
    Ok([creations, requests / 2.0])
}

/// Starts a program on a port that was free a moment ago, and waits until that port answers. Its output goes into a file.
async fn start(
    program: &Path,
    folder: &Path,
    arguments: impl FnOnce(&mut Command, &str),
) -> Result<(Process, SocketAddr)> {
    let address = TcpListener::bind("127.0.0.1:0")?.local_addr()?;
    let (mut command, log) = (Command::new(program), folder.join("log"));
    arguments(&mut command, &address.port().to_string());
    let file = File::create(&log)?;
    command.current_dir(folder).stdin(Stdio::null()).stdout(file.try_clone()?).stderr(file);
    let failed = |why: String| Failure::new(format!("{} does not start: {why}", program.display()));
    let mut process = Process(command.spawn().map_err(|error| failed(error.to_string()))?);
    let begin = Instant::now();
    while TcpStream::connect(address).await.is_err() {
        if process.0.try_wait()?.is_some() || begin.elapsed() > START_TIMEOUT {
            return Err(failed(fs::read_to_string(&log).unwrap_or_default()));
        }
        sleep(Duration::from_millis(20)).await;
    }
    Ok((process, address))
}

/// How often per second beanstalkd took a task, or handed one out and deleted it, until the time is over or nothing is left.
async fn beanstalk(takes: bool, address: SocketAddr, connections: usize, length: Duration) -> Result<f64> {
    let mut streams = Vec::with_capacity(connections);
    for _ in 0..connections {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        streams.push(stream);
    }
    let (done, begin, mut running) = (Rc::new(Cell::new(0_u32)), Instant::now(), JoinSet::new());
    for mut stream in streams {
        let done = done.clone();
        running.spawn_local(async move {
            let args = request::args();
            // Priority 0, no delay, and as long to work on it as our lease.
            let put = format!("put 0 0 300 {}\r\n{args}\r\n", args.len());
            while begin.elapsed() < length {
                match takes {
                    false => drop(talk(&mut stream, &put).await?),
                    true => match talk(&mut stream, "reserve-with-timeout 0\r\n").await? {
                        Some(id) => drop(talk(&mut stream, &format!("delete {id}\r\n")).await?),
                        None => break,
                    },
                }
                done.set(done.get() + 1);
            }
            Ok::<_, io::Error>(())
        });
    }
    while let Some(ended) = running.join_next().await {
        ended??;
    }
    Ok(f64::from(done.get()) / begin.elapsed().as_secs_f64())
}

/// Sends a command to beanstalkd; the number of the task that it hands out, if any.
async fn talk(stream: &mut TcpStream, command: &str) -> io::Result<Option<u64>> {
    stream.write_all(command.as_bytes()).await?;
    let (mut buffer, mut filled) = ([0; 1024], 0);
    loop {
        match stream.read(&mut buffer[filled..]).await? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            count => filled += count,
        }
        if let Some(task) = beanstalk_reply(&String::from_utf8_lossy(&buffer[..filled]))? {
            return Ok(task);
        }
    }
}

/// The number of the task in an answer of beanstalkd that came alone; none when the answer is not complete yet.
fn beanstalk_reply(text: &str) -> io::Result<Option<Option<u64>>> {
    let Some((line, rest)) = text.split_once("\r\n") else { return Ok(None) };
    let unknown = || io::Error::other(format!("beanstalkd answered: {line}"));
    let mut words = line.split(' ');
    match words.next() {
        Some("INSERTED" | "DELETED" | "TIMED_OUT") => Ok(Some(None)),
        Some("RESERVED") => {
            let mut number = || words.next().and_then(|word| word.parse::<u64>().ok()).ok_or_else(unknown);
            let (id, bytes) = (number()?, number()?);
            // The body and the end of its line.
            Ok((rest.len() as u64 >= bytes + 2).then_some(Some(id)))
        }
        _ => Err(unknown()),
    }
}

/// Runs a small script for a library of Node.js, which puts and takes tasks, with so many calls under way at once, and prints the figures
/// in its last line.
fn node(bench: &Bench, script: &str, server: &str, connections: usize, seconds: f64) -> Result<Rates> {
    let packages = fs::canonicalize(bench.args.peers_dir.join("node"))?;
    let mut command = Command::new("node");
    command.args(["--input-type=module", "--eval", script, "--"]).arg(packages).arg(server);
    command.args([connections.to_string(), seconds.to_string(), request::args()]);
    let output = command.output()?;
    let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
    rates(&stdout).ok_or_else(|| Failure::new(format!("{stdout}{}", String::from_utf8_lossy(&output.stderr))))
}

fn rates(stdout: &str) -> Option<Rates> {
    let figures: serde_json::Value = serde_json::from_str(stdout.lines().last()?).ok()?;
    Some([figures["creations"].as_f64()?, figures["pairs"].as_f64()?])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_of_beanstalkd_are_read_once_they_are_complete() {
        let text = "RESERVED 17 5\r\nhello\r\n";
        for end in 0..text.len() {
            assert_eq!(beanstalk_reply(&text[..end]).unwrap(), None, "{end}");
        }
        assert_eq!(beanstalk_reply(text).unwrap(), Some(Some(17)));
        for done in ["INSERTED 3\r\n", "DELETED\r\n", "TIMED_OUT\r\n"] {
            assert_eq!(beanstalk_reply(done).unwrap(), Some(None));
        }
        for refused in ["NOT_FOUND\r\n", "OUT_OF_MEMORY\r\n", "RESERVED x 5\r\n", "RESERVED 5\r\n", "\r\n"] {
            assert!(beanstalk_reply(refused).is_err(), "{refused}");
        }
    }

    #[test]
    fn the_figures_of_a_script_stand_in_its_last_line() {
        assert_eq!(rates("a warning\n{\"creations\":12.5,\"pairs\":3}\n"), Some([12.5, 3.0]));
        assert_eq!((rates("Error: nothing"), rates("")), (None, None));
    }
}
