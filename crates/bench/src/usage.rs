//! What a process uses: CPU time and memory, by /proc. And the instructions that a server runs for one request, counted by callgrind: CPU
//! time differs by some percents from one turn to the next; these differ by far less, so that a change of 2 % is seen.

use std::cell::Cell;
use std::path::Path;
use std::process::{Command, Stdio};
use std::{fs, io};

use crate::Result;
use crate::figures::progress;
use crate::load::Load;
use crate::request::{Operation, PAIRS};
use crate::server::{Bench, On, scratch};

/// Ticks per second in /proc/PID/stat (USER_HZ, 100 on every Linux that we run on).
const TICKS_PER_SECOND: f64 = 100.0;

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Usage {
    /// User and system time of all its threads.
    pub(crate) cpu_seconds: f64,
    pub(crate) rss_bytes: u64,
}

impl Usage {
    pub(crate) fn of(pid: u32) -> io::Result<Self> {
        let mut of_the_living = 0.0;
        for entry in fs::read_dir(format!("/proc/{pid}/task"))? {
            // A thread may end meanwhile; it used next to nothing then.
            of_the_living += exact_seconds(&fs::read_to_string(entry?.path().join("schedstat")).unwrap_or_default());
        }
        // In ticks, which are rounded down, but with what threads used that have ended.
        let of_all = ticked_seconds(&fs::read_to_string(format!("/proc/{pid}/stat"))?).unwrap_or(0.0);
        Ok(Self { cpu_seconds: f64::max(of_the_living, of_all), rss_bytes: status_bytes(pid, "VmRSS:")? })
    }

    /// What it used since then, and its memory now.
    pub(crate) fn since(self, before: Self) -> Self {
        Self { cpu_seconds: self.cpu_seconds - before.cpu_seconds, ..self }
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

/// The scheduler's own account in nanoseconds, where the kernel keeps one, else 0: a server that answers a thousand polls in a second has
/// used a few ticks.
fn exact_seconds(schedstat: &str) -> f64 {
    schedstat.split(' ').next().and_then(|nanoseconds| nanoseconds.parse::<f64>().ok()).unwrap_or(0.0) / 1e9
}

/// Fields 14 and 15. The second field is a name in parentheses that may contain anything, so counting begins behind it.
fn ticked_seconds(stat: &str) -> Option<f64> {
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace().skip(11);
    let (user, system): (f64, f64) = (fields.next()?.parse().ok()?, fields.next()?.parse().ok()?);
    Some((user + system) / TICKS_PER_SECOND)
}

/// Lets a command neither read nor say anything.
pub(crate) fn quiet(command: &mut Command) -> &mut Command {
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null())
}

/// What a command prints; fails with all that it says.
pub(crate) fn printed(command: &mut Command) -> Result<String> {
    let output = command.output().map_err(|error| format!("{}: {error}", command.get_program().display()))?;
    let [stdout, stderr] = [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
    if output.status.success() { Ok(stdout) } else { Err(format!("{stdout}{stderr}").into()) }
}

/// The figures: their names, and what is sent for each.
const COUNTED: [(&str, &[Operation]); 3] =
    [("claim and completion", PAIRS), ("creation", &[Operation::Create]), ("get", &[Operation::Get])];

/// How often it is sent: few and many times, so that the difference is free of what counting itself costs. Each is counted several times,
/// and the least of them is taken: what the server does beside it, such as upkeep, only adds to it.
const FEW: u64 = 100;
const MANY: u64 = 300;
const ROUNDS: usize = 4;
/// More than are claimed.
const TASKS: u64 = 2_000;
/// Within so many seconds all are sent.
const LONGEST: f64 = 3_600.0;

/// Counts them for this build and, if there is one, for the other.
pub(crate) async fn instructions(bench: &mut Bench) -> Result<()> {
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
    let control = |command: &str| printed(Command::new("callgrind_control").args([command, &server.pid().to_string()]));
    // The last one is pending all the while, so every read finds the same.
    let known = server.fill(TASKS).await?.end - 1;
    let mut counted = Vec::new();
    for (_, cycle) in COUNTED {
        let mut least = [f64::INFINITY; 2];
        for place in (0..ROUNDS).flat_map(|_| 0..2) {
            control("--instr=on")?;
            let mut load = Load::new(&server, cycle, 1, LONGEST);
            (load.left, load.known) = (Cell::new([FEW, MANY][place]), known..known + 1);
            load.run().await?;
            control("--instr=off")?;
            // What was counted goes into the next file, and counting begins at zero again.
            control("--dump")?;
            dumps += 1;
            least[place] = least[place].min(total(&file.with_extension(format!("out.{dumps}")))?);
        }
        counted.push((least[1] - least[0]) / (MANY - FEW) as f64);
    }
    // It removes the pipes by which it is controlled.
    server.stop()?;
    Ok(counted)
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
        assert_eq!((ticked_seconds(stat), ticked_seconds("")), (Some(3.0), None));
        let exact = ["2500000000 17 9\n", "0 0 0", ""].map(|text| exact_seconds(text).to_bits());
        assert_eq!(exact, [2.5, 0.0, 0.0].map(f64::to_bits));
    }
}
