//! What a process uses: CPU time and memory, by /proc; and, by `perf` where that is installed and allowed, how often it syncs a file. `perf`
//! slows the process a little, so it runs in turns of its own that are not timed.
//!
//! And the instructions that a server runs for one request, counted by callgrind. CPU time differs by some percents from one turn to the
//! next; these differ by far less, so that a change of 2 % is seen.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use std::{fs, io, thread};

use crate::Result;
use crate::client::Client;
use crate::figures::progress;
use crate::request::{Operation, PAIRS, QUEUE};
use crate::server::{Bench, On, Server, scratch};

/// Ticks per second in /proc/PID/stat (USER_HZ, 100 on every Linux that we run on).
const TICKS_PER_SECOND: f64 = 100.0;

/// The threads of the SQLite store (`crates/store-sqlite`); all others belong to the HTTP server.
const STORAGE: [&str; 6] = ["writer", "reader", "short-reader", "long-reader", "checkpointer", "run-filters"];

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Usage {
    /// User and system time of all its threads.
    pub(crate) cpu_seconds: f64,
    /// Of this, that of the threads of the storage.
    pub(crate) storage_seconds: f64,
    pub(crate) rss_bytes: u64,
}

impl Usage {
    pub(crate) fn of(pid: u32) -> io::Result<Self> {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
        // In ticks, which are rounded down, but with what threads used that have ended.
        let of_all = ticked_seconds(&stat).unwrap_or(0.0);
        let (mut of_the_living, mut storage_seconds) = (0.0, 0.0);
        for entry in fs::read_dir(format!("/proc/{pid}/task"))? {
            let folder = entry?.path();
            // A thread may end meanwhile; it used next to nothing then.
            let read = |file: &str| fs::read_to_string(folder.join(file)).unwrap_or_default();
            let seconds = exact_seconds(&read("schedstat")).or_else(|| ticked_seconds(&read("stat"))).unwrap_or(0.0);
            of_the_living += seconds;
            storage_seconds += if STORAGE.contains(&read("comm").trim()) { seconds } else { 0.0 };
        }
        let cpu_seconds = f64::max(of_the_living, of_all);
        Ok(Self { cpu_seconds, storage_seconds, rss_bytes: status_bytes(pid, "VmRSS:")? })
    }

    /// What it used since then, and its memory now.
    pub(crate) fn since(self, before: Self) -> Self {
        let cpu_seconds = self.cpu_seconds - before.cpu_seconds;
        Self { cpu_seconds, storage_seconds: self.storage_seconds - before.storage_seconds, ..self }
    }

    pub(crate) fn rss_mebibytes(self) -> f64 {
        self.rss_bytes as f64 / f64::from(1 << 20)
    }
}

/// A figure of the memory of a process, by its name in /proc/PID/status.
pub(crate) fn status_bytes(pid: u32, name: &str) -> io::Result<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    named_bytes(&status, name).ok_or_else(|| io::Error::other("/proc has an unknown form"))
}

fn named_bytes(status: &str, name: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kibibytes * 1024)
}

/// The scheduler's own account in nanoseconds, where the kernel keeps one: a server that answers a thousand polls in a
/// second has used a few ticks.
fn exact_seconds(schedstat: &str) -> Option<f64> {
    let nanoseconds: f64 = schedstat.split_whitespace().next()?.parse().ok()?;
    // A kernel that keeps no account says 0.
    (nanoseconds > 0.0).then_some(nanoseconds / 1e9)
}

/// Fields 14 and 15. The second field is a name in parentheses that may contain anything, so counting begins behind it.
fn ticked_seconds(stat: &str) -> Option<f64> {
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace().skip(11);
    let (user, system): (f64, f64) = (fields.next()?.parse().ok()?, fields.next()?.parse().ok()?);
    Some((user + system) / TICKS_PER_SECOND)
}

const SYNCS: &str = "syscalls:sys_enter_fdatasync,syscalls:sys_enter_fsync";
/// How long perf may take to attach itself. It does not say when it has.
const ATTACHING: Duration = Duration::from_millis(600);

/// Lets a command neither read nor say anything.
pub(crate) fn quiet(command: &mut Command) -> &mut Command {
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null())
}

/// What a command prints; fails with all that it says.
pub(crate) fn printed(command: &mut Command) -> Result<String> {
    let output = command.output()?;
    let [stdout, stderr] = [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
    if output.status.success() { Ok(stdout) } else { Err(format!("{stdout}{stderr}").into()) }
}

/// A running perf that counts the syncs of a process, and the file it writes.
pub(crate) struct Perf {
    child: Child,
    file: PathBuf,
}

impl Perf {
    /// Begins to count; none where that is not possible.
    pub(crate) fn start(pid: u32, folder: &Path) -> Option<Self> {
        let (mut command, file) = (Command::new("perf"), folder.join("syncs.csv"));
        command.args(["stat", "-x,", "-e", SYNCS, "-p", &pid.to_string(), "-o"]).arg(&file);
        let child = quiet(&mut command).spawn().ok()?;
        thread::sleep(ATTACHING);
        Some(Self { child, file })
    }

    /// The number of syncs. On an interrupt perf writes its file and ends.
    pub(crate) fn syncs(mut self) -> Option<u64> {
        Command::new("kill").args(["-INT", &self.child.id().to_string()]).stderr(Stdio::null()).status().ok()?;
        self.child.wait().ok()?;
        sum_of_events(&fs::read_to_string(self.file).ok()?)
    }
}

/// The sum of all events; none when one of them could not be counted.
fn sum_of_events(report: &str) -> Option<u64> {
    let lines: Vec<&str> = report.lines().filter(|line| line.contains("sys_enter_")).collect();
    let count = |line: &&str| line.split(',').next()?.parse::<u64>().ok();
    if lines.is_empty() { None } else { lines.iter().map(count).sum() }
}

/// The figures: their names, and what is sent for each.
const COUNTED: [(&str, &[Operation]); 3] =
    [("claim and completion", PAIRS), ("creation", &[Operation::Create]), ("get", &[Operation::Get])];

/// How often it is sent: few and many times, so that the difference is free of what counting itself costs. Each is counted several times,
/// and the least of them is taken: what the server does beside it, such as upkeep, only adds to it.
const FEW: u32 = 100;
const MANY: u32 = 300;
const ROUNDS: usize = 4;
/// More than are claimed.
const TASKS: u64 = 2_000;

/// Counts them for this build and, if there is one, for the other.
pub(crate) async fn instructions(bench: &mut Bench) -> Result<()> {
    if !succeeds(Command::new("valgrind").arg("--version"))? {
        bench.add("not counted: valgrind is not installed", f64::NAN);
        return Ok(());
    }
    let ours = count(bench, On::Disk).await?;
    COUNTED.iter().zip(&ours).for_each(|((name, _), ours)| bench.add(name, *ours));
    if bench.args.baseline.is_some() {
        for (((name, _), ours), theirs) in COUNTED.iter().zip(ours).zip(count(bench, On::Baseline).await?) {
            bench.add(&format!("{name}, baseline"), theirs);
            bench.add(&format!("{name}, ratio"), ours / theirs);
        }
    }
    Ok(())
}

/// The instructions of each row, on one connection to a server of this kind.
async fn count(bench: &Bench, on: On) -> Result<Vec<f64>> {
    let (folder, mut dumps) = (scratch(&bench.args.database_dir)?, 0);
    let file = folder.path().join("callgrind.out");
    let out = format!("--callgrind-out-file={}", file.display());
    progress(&format!("{on:?} under callgrind, which is some fifty times as slow"));
    let mut server =
        bench.start_under(&["valgrind", "--quiet", "--tool=callgrind", "--instr-atstart=no", &out], on).await?;
    // The last one is pending all the while, so every read finds the same.
    let known = server.fill(TASKS).await?.end - 1;
    let (mut client, mut counted) = (server.client().await?, Vec::new());
    for (_, cycle) in COUNTED {
        let mut least = [f64::INFINITY; 2];
        for place in (0..ROUNDS).flat_map(|_| 0..2) {
            control(&server, "--instr=on")?;
            send(&server, &mut client, cycle, [FEW, MANY][place], known).await?;
            control(&server, "--instr=off")?;
            // What was counted goes into the next file, and counting begins at zero again.
            control(&server, "--dump")?;
            dumps += 1;
            least[place] = least[place].min(total(&file.with_extension(format!("out.{dumps}")))?);
        }
        counted.push((least[1] - least[0]) / f64::from(MANY - FEW));
    }
    // It removes the pipes by which it is controlled.
    server.stop()?;
    Ok(counted)
}

/// Sends the requests of a row so many times, one after the other.
async fn send(server: &Server, client: &mut Client, cycle: &[Operation], times: u32, known: u64) -> Result<()> {
    for _ in 0..times {
        let run = server.numbers.next_run();
        let mut task = if *cycle == [Operation::Create] { server.numbers.next_task() } else { known };
        for operation in cycle {
            let answer = client.operate(*operation, QUEUE, (task, run)).await?;
            task = answer.claimed_task().unwrap_or(task);
        }
    }
    Ok(())
}

fn control(server: &Server, command: &str) -> Result<()> {
    match succeeds(Command::new("callgrind_control").args([command, &server.pid().to_string()]))? {
        true => Ok(()),
        false => Err(format!("callgrind_control {command} failed").into()),
    }
}

/// Runs a command in silence; returns false if it fails or is not installed.
fn succeeds(command: &mut Command) -> Result<bool> {
    match quiet(command).status() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        status => Ok(status?.success()),
    }
}

/// The sum of all instructions in a file of callgrind.
fn total(file: &Path) -> Result<f64> {
    let text = fs::read_to_string(file)?;
    let total = text.lines().find_map(|line| line.strip_prefix("totals: ")?.parse().ok());
    Ok(total.ok_or_else(|| format!("{} has no totals", file.display()))?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resident_memory_is_told_in_kibibytes() {
        assert_eq!(named_bytes("VmHWM:\t 9 kB\nVmRSS:\t    2048 kB\n", "VmRSS:"), Some(2 << 20));
    }

    #[test]
    fn our_own_process_uses_memory() {
        assert!(Usage::of(std::process::id()).unwrap().rss_bytes > 100_000);
    }

    #[test]
    fn times_are_found_behind_any_name() {
        let stat = "1 (a ) b) S 1 1 1 0 -1 4194560 1 2 3 4 250 50 0 0 20 0 1 0";
        assert_eq!(ticked_seconds(stat), Some(3.0));
        assert_eq!(exact_seconds("2500000000 17 9\n"), Some(2.5));
        assert_eq!((exact_seconds(""), exact_seconds("0 0 0"), ticked_seconds("")), (None, None, None));
    }

    #[test]
    fn all_events_are_added() {
        let report =
            "# started\n\n40,,syscalls:sys_enter_fdatasync,1,100.00,,\n2,,syscalls:sys_enter_fsync,1,100.00,,\n";
        assert_eq!(sum_of_events(report), Some(42));
        assert_eq!(sum_of_events("<not supported>,,syscalls:sys_enter_fsync,0,0.00,,\n"), None);
        assert_eq!(sum_of_events(""), None);
    }
}
