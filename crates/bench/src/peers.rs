//! The same work on what users would pick instead: tasks with 200 bytes of args are created for a while, then taken and completed one by
//! one. Each peer is used the way its own documentation shows, fresh each time, in turns; where it differs, its name says what a power
//! cut takes of what it acknowledged. `scripts/install-bench-peers` installs them; one that is missing is reported as not measured.

use std::cell::{Cell, RefCell};
use std::fs::{self, File};
use std::io;
use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Stdio};
use std::rc::Rc;
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

/// How tasks are put into something and taken out of it.
#[derive(Clone, Copy)]
enum Works {
    /// As with us: the load is that of the other measurements.
    Api,
    Beanstalk,
    /// By a library of Node.js, which this script uses.
    Node(&'static str),
}

/// Names, what starts the server behind which a port is put (a line for the shell), and how it works. Nothing starts us, and PostgreSQL.
const PEERS: [(&str, &str, Works); 6] = [
    ("taskqueue", "", Works::Api),
    ("beanstalkd -f 0", "beanstalkd -l 127.0.0.1 -b . -f 0 -p", Works::Beanstalk),
    ("beanstalkd -f 50 (loses 50 ms)", "beanstalkd -l 127.0.0.1 -b . -f 50 -p", Works::Beanstalk),
    ("labtasker-server", LABTASKER, Works::Api),
    ("BullMQ on Redis", REDIS, Works::Node(include_str!("peers/bullmq.mjs"))),
    ("graphile-worker", "", Works::Node(include_str!("peers/graphile_worker.mjs"))),
];
const LABTASKER: &str = "$PEERS/venv/bin/labtasker-server serve --connection http --host 127.0.0.1 --database bench.db --labtasker-root . --port";
const REDIS: &str = "redis-server --bind 127.0.0.1 --dir . --save '' --appendonly yes --appendfsync always --port";

/// How many per second: creations, and pairs of taking and completing.
type Rates = [f64; 2];

pub(crate) async fn run(bench: &mut Bench) -> Result<()> {
    for connections in bench.connections(&[64, 1]) {
        let mut measured = vec![Vec::<Rates>::new(); PEERS.len()];
        for round in 0..bench.args.rounds.unwrap_or(3) as usize {
            for ((name, command, works), so_far) in PEERS.iter().zip(&mut measured) {
                // What could not be measured once is not tried again.
                if so_far.len() == round {
                    progress(&format!("{name}, {connections} connections"));
                    let rates = measure(bench, command, *works, connections).await;
                    so_far.extend(rates.inspect_err(|failure| progress(&format!("not measured: {failure}"))));
                }
            }
        }
        for ((name, ..), rounds) in PEERS.iter().zip(&measured) {
            let mut add = |what, measured| bench.add(&format!("{connections}, {name}: {what}"), measured);
            add("creations/s", median(rounds.iter().map(|rates| rates[0])));
            add("pairs/s", median(rounds.iter().map(|rates| rates[1])));
            // One that is not measured has none: if it has a goal, it misses it.
            let both = rounds.iter().zip(&measured[0]);
            add("our pairs over its", median(both.map(|(theirs, ours)| ours[1] / theirs[1])));
        }
    }
    Ok(())
}

async fn measure(bench: &Bench, command: &str, works: Works, connections: usize) -> Result<Rates> {
    let seconds = bench.seconds(2.0);
    let peers = fs::canonicalize(&bench.args.peers_dir).unwrap_or_default();
    let server = match (command, works) {
        ("", Works::Api) => Some(bench.start(On::Disk).await?),
        ("", _) => None,
        _ => Some(start(command, &peers, scratch(&bench.args.database_dir)?).await?),
    };
    match (works, &server) {
        (Works::Api, Some(server)) => {
            server.client().await?.call("PUT", &format!("/api/v2/queues/{QUEUE}"), "").await?;
            let load = |cycle| Load::new(server, cycle, connections, seconds).run();
            let creations = load(&[Operation::Create]).await?.rate();
            // Pairs that are faster than creations end early, and are counted until then.
            Ok([creations, load(PAIRS).await?.rate() / 2.0])
        }
        (Works::Beanstalk, Some(server)) => {
            let creations = beanstalk(false, server, connections, seconds).await?;
            Ok([creations, beanstalk(true, server, connections, seconds).await?])
        }
        (_, None) => node(&peers, works, &bench.cluster().database().url(), connections, seconds),
        (_, Some(server)) => node(&peers, works, &server.endpoint.address.port().to_string(), connections, seconds),
    }
}

/// Starts a server in a folder, on a port that was free a moment ago, and waits until that port answers. Its output goes into a file.
async fn start(line: &str, peers: &Path, folder: TempDir) -> Result<Server> {
    let address = TcpListener::bind("127.0.0.1:0")?.local_addr()?;
    let (mut command, log) = (Command::new("sh"), folder.path().join("log"));
    command.args(["-c", &format!("exec {line} {}", address.port())]).current_dir(folder.path()).env("PEERS", peers);
    let file = File::create(&log)?;
    let mut process = Process(command.stdin(Stdio::null()).stdout(file.try_clone()?).stderr(file).spawn()?);
    let begin = Instant::now();
    while TcpStream::connect(address).await.is_err() {
        if process.0.try_wait()?.is_some() || begin.elapsed() > START_TIMEOUT {
            return Err(format!("{line} does not start: {}", fs::read_to_string(&log)?).into());
        }
        sleep(Duration::from_millis(20)).await;
    }
    Ok(Server::of(process, address.into(), Rc::new(RefCell::new(command)), Rc::new(folder)))
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
    match *line.split_whitespace().collect::<Vec<_>>() {
        ["INSERTED" | "DELETED" | "TIMED_OUT", ..] => return Ok(None),
        ["RESERVED", id, bytes] => {
            if let (Ok(id), Ok(bytes)) = (id.parse(), bytes.parse::<usize>()) {
                // The body and the end of its line.
                stream.read_exact(&mut vec![0; bytes + 2]).await?;
                return Ok(Some(id));
            }
        }
        _ => {}
    }
    Err(io::Error::other(format!("beanstalkd answered: {line}")))
}

/// Runs a small script, which puts and takes tasks, with so many calls under way at once, and prints the figures in its last line.
fn node(peers: &Path, works: Works, server: &str, connections: usize, seconds: f64) -> Result<Rates> {
    let Works::Node(script) = works else { return Err("it has no script".into()) };
    let mut command = Command::new("node");
    command.args(["--input-type=module", "--eval", script, "--"]).arg(peers.join("node")).arg(server);
    let stdout = printed(command.args([connections.to_string(), seconds.to_string(), request::args()]))?;
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
