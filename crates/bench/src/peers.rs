//! The same work on what users would pick instead: tasks with 200 bytes of args are created for a while, then taken and completed one by
//! one. Each peer is used the way its own documentation shows, fresh each time, in turns; where it differs, its name says what a power
//! cut takes of what it acknowledged. `scripts/install-bench-peers` installs them; one that is missing is reported as not measured.

use std::cell::Cell;
use std::fs::{self, File};
use std::io;
use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use futures_util::future::try_join_all;
use tempfile::TempDir;
use tokio::io::{AsyncBufRead, AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufStream};
use tokio::net::TcpStream;
use tokio::time::sleep;

use crate::Result;
use crate::figures::{median, progress};
use crate::load::Load;
use crate::request::{self, Operation, PAIRS, QUEUE};
use crate::server::{Bench, On, Process, Server, scratch};
use crate::usage::printed;

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

/// How many per second: creations, and pairs of taking and completing.
type Rates = [f64; 2];

pub(crate) async fn run(bench: &mut Bench) -> Result<()> {
    for connections in bench.connections(&[64, 1]) {
        let mut measured = vec![Vec::<Rates>::new(); PEERS.len()];
        for round in 0..bench.args.rounds.unwrap_or(3) as usize {
            for ((name, peer), so_far) in PEERS.iter().zip(&mut measured) {
                // What could not be measured once is not tried again.
                if so_far.len() < round {
                    continue;
                }
                progress(&format!("{name}, {connections} connections"));
                match peer.measure(bench, connections).await {
                    Ok(rates) => so_far.push(rates),
                    Err(failure) if *peer == Peer::Taskqueue => return Err(failure),
                    Err(failure) => {
                        progress(&format!("{name} is not measured: {failure}"));
                        so_far.clear();
                    }
                }
            }
        }
        for ((name, _), rounds) in PEERS.iter().zip(&measured) {
            let of = |what: &str| format!("{connections}, {name}: {what}");
            if !rounds.is_empty() {
                bench.add(&of("creations/s"), median(rounds.iter().map(|rates| rates[0])));
                bench.add(&of("pairs/s"), median(rounds.iter().map(|rates| rates[1])));
            }
            // One that is not measured has none: if it has a goal, it misses it.
            let both = rounds.iter().zip(&measured[0]);
            bench.add(&of("our pairs over its"), median(both.map(|(theirs, ours)| ours[1] / theirs[1])));
        }
    }
    Ok(())
}

impl Peer {
    async fn measure(self, bench: &Bench, connections: usize) -> Result<Rates> {
        let (folder, seconds) = (scratch(&bench.args.database_dir)?, bench.seconds(2.0));
        match self {
            Self::Taskqueue => same_api(&bench.start(On::Disk).await?, connections, seconds).await,
            Self::Labtasker => {
                let program = fs::canonicalize(bench.args.peers_dir.join("venv/bin/labtasker-server"))?;
                let at = ["serve", "--connection", "http", "--host", "127.0.0.1"];
                let stored = ["--database", "bench.db", "--labtasker-root", ".", "--port"];
                let server = start(&program, &folder, &[at, stored].concat()).await?;
                server.client().await?.call("PUT", &format!("/api/v2/queues/{QUEUE}"), "").await?;
                same_api(&server, connections, seconds).await
            }
            Self::Beanstalkd(millis) => {
                let arguments = ["-l", "127.0.0.1", "-b", ".", "-f", &millis.to_string(), "-p"];
                let server = start(Path::new("beanstalkd"), &folder, &arguments).await?;
                let creations = beanstalk(false, &server, connections, seconds).await?;
                Ok([creations, beanstalk(true, &server, connections, seconds).await?])
            }
            Self::Bullmq => {
                let at = ["--bind", "127.0.0.1", "--dir", ".", "--save", ""];
                let stored = ["--appendonly", "yes", "--appendfsync", "always", "--port"];
                let server = start(Path::new("redis-server"), &folder, &[&at[..], &stored].concat()).await?;
                let port = server.endpoint.address.port().to_string();
                node(bench, include_str!("peers/bullmq.mjs"), &port, connections, seconds)
            }
            Self::GraphileWorker => {
                let database = bench.cluster().database();
                node(bench, include_str!("peers/graphile_worker.mjs"), &database.url(), connections, seconds)
            }
        }
    }
}

/// The two with our API: the load is that of the other measurements.
async fn same_api(server: &Server, connections: usize, seconds: f64) -> Result<Rates> {
    let creations = Load::new(server, &[Operation::Create], connections, seconds).run().await?.without_errors()?.rate();
    // Pairs that are faster than creations end early, and are counted until then.
    let requests = Load::new(server, PAIRS, connections, seconds).run().await?.without_errors()?.rate();
    Ok([creations, requests / 2.0])
}

/// Starts a program in a folder, on a port that was free a moment ago and is its last argument, and waits until that port answers. Its
/// output goes into a file.
async fn start(program: &Path, folder: &TempDir, arguments: &[&str]) -> Result<Server> {
    let address = TcpListener::bind("127.0.0.1:0")?.local_addr()?;
    let (mut command, log) = (Command::new(program), folder.path().join("log"));
    command.args(arguments).arg(address.port().to_string());
    let file = File::create(&log)?;
    command.current_dir(folder.path()).stdin(Stdio::null()).stdout(file.try_clone()?).stderr(file);
    let failed = |why: String| format!("{} does not start: {why}", program.display());
    let mut process = Process(command.spawn().map_err(|error| failed(error.to_string()))?);
    let begin = Instant::now();
    while TcpStream::connect(address).await.is_err() {
        if process.0.try_wait()?.is_some() || begin.elapsed() > START_TIMEOUT {
            return Err(failed(fs::read_to_string(&log).unwrap_or_default()).into());
        }
        sleep(Duration::from_millis(20)).await;
    }
    Ok(Server::of(process, address.into()))
}

/// How often per second beanstalkd took a task, or handed one out and deleted it, until the time is over or nothing is left.
async fn beanstalk(takes: bool, server: &Server, connections: usize, seconds: f64) -> Result<f64> {
    let address = server.endpoint.address;
    let streams = try_join_all((0..connections).map(|_| TcpStream::connect(address))).await?;
    let (done, begin, args) = (Cell::new(0_u32), Instant::now(), request::args());
    // Priority 0, no delay, and as long to work on it as our lease.
    let put = format!("put 0 0 300 {}\r\n{args}\r\n", args.len());
    let work = async |stream: TcpStream| {
        stream.set_nodelay(true)?;
        let mut stream = BufStream::new(stream);
        while begin.elapsed().as_secs_f64() < seconds {
            if !takes {
                talk(&mut stream, &put).await?;
            } else if let Some(id) = talk(&mut stream, "reserve-with-timeout 0\r\n").await? {
                talk(&mut stream, &format!("delete {id}\r\n")).await?;
            } else {
                break;
            }
            done.set(done.get() + 1);
        }
        io::Result::Ok(())
    };
    try_join_all(streams.into_iter().map(work)).await?;
    Ok(f64::from(done.get()) / begin.elapsed().as_secs_f64())
}

/// Sends a command to beanstalkd; the number of the task that it hands out, if any.
async fn talk(stream: &mut BufStream<TcpStream>, command: &str) -> io::Result<Option<u64>> {
    stream.write_all(command.as_bytes()).await?;
    stream.flush().await?;
    beanstalk_reply(stream).await
}

/// The number of the task in an answer of beanstalkd.
async fn beanstalk_reply(stream: &mut (impl AsyncBufRead + Unpin)) -> io::Result<Option<u64>> {
    let mut line = String::new();
    stream.read_line(&mut line).await?;
    let words: Vec<&str> = line.split_whitespace().collect();
    let number = |at: usize| words.get(at).and_then(|word| word.parse::<u64>().ok());
    match (words.first(), number(1), number(2)) {
        (Some(&("INSERTED" | "DELETED" | "TIMED_OUT")), ..) => Ok(None),
        (Some(&"RESERVED"), Some(id), Some(bytes)) => {
            // The body and the end of its line.
            stream.read_exact(&mut vec![0; bytes as usize + 2]).await?;
            Ok(Some(id))
        }
        _ => Err(io::Error::other(format!("beanstalkd answered: {line}"))),
    }
}

/// Runs a small script for a library of Node.js, which puts and takes tasks, with so many calls under way at once, and prints the figures
/// in its last line.
fn node(bench: &Bench, script: &str, server: &str, connections: usize, seconds: f64) -> Result<Rates> {
    let packages = fs::canonicalize(bench.args.peers_dir.join("node"))?;
    let mut command = Command::new("node");
    command.args(["--input-type=module", "--eval", script, "--"]).arg(packages).arg(server);
    command.args([connections.to_string(), seconds.to_string(), request::args()]);
    let stdout = printed(&mut command)?;
    Ok(rates(&stdout).ok_or(stdout)?)
}

fn rates(stdout: &str) -> Option<Rates> {
    let figures: serde_json::Value = serde_json::from_str(stdout.lines().last()?).ok()?;
    Some([figures["creations"].as_f64()?, figures["pairs"].as_f64()?])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn answers_of_beanstalkd_are_read_to_their_end() {
        let text = b"RESERVED 17 5\r\nhello\r\n";
        for end in 0..text.len() {
            assert!(beanstalk_reply(&mut &text[..end]).await.is_err(), "{end}");
        }
        let mut two = &b"RESERVED 17 5\r\nhello\r\nDELETED\r\n"[..];
        assert_eq!(beanstalk_reply(&mut two).await.unwrap(), Some(17));
        assert_eq!(beanstalk_reply(&mut two).await.unwrap(), None);
        for done in ["INSERTED 3\r\n", "TIMED_OUT\r\n"] {
            assert_eq!(beanstalk_reply(&mut done.as_bytes()).await.unwrap(), None);
        }
        for refused in ["NOT_FOUND\r\n", "OUT_OF_MEMORY\r\n", "RESERVED x 5\r\n", "RESERVED 5\r\n", "\r\n"] {
            assert!(beanstalk_reply(&mut refused.as_bytes()).await.is_err(), "{refused}");
        }
    }

    #[test]
    fn the_figures_of_a_script_stand_in_its_last_line() {
        assert_eq!(rates("a warning\n{\"creations\":12.5,\"pairs\":3}\n"), Some([12.5, 3.0]));
        assert_eq!((rates("Error: nothing"), rates("")), (None, None));
    }
}
