//! The machine of a worker and its GPUs, as telemetry shows them.

use std::ffi::OsStr;
use std::fs;
use std::num::NonZero;
use std::path::Path;
use std::thread::available_parallelism;
use std::time::Duration;

use taskqueue_core::json::ObjectWriter;

use crate::process::start::{capture_output, find_program};

#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct HostUsage {
    cpus: usize,
    load1: Option<f64>,
    /// All of it, and what is not available to programs.
    memory: Option<(u64, u64)>,
}

impl HostUsage {
    /// Blocks, but not for long.
    pub(super) fn measure() -> Self {
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
        Self {
            cpus: available_parallelism().map_or(1, NonZero::get),
            load1: load1(&read("/proc/loadavg")),
            memory: memory(&read("/proc/meminfo")),
        }
    }

    pub(super) fn write(&self, out: &mut Vec<u8>) {
        let mut object = ObjectWriter::append_to(out).integer("cpus", i64::try_from(self.cpus).unwrap_or(0));
        if let Some(load1) = self.load1 {
            object = object.json("load1", &format!("{load1:.2}"));
        }
        if let Some((total, used)) = self.memory {
            object = object.integer("memory_bytes", total).integer("memory_used_bytes", used);
        }
        object.end();
    }
}

fn load1(loadavg: &str) -> Option<f64> {
    loadavg.split(' ').next()?.parse().ok().filter(|load: &f64| load.is_finite())
}

fn memory(meminfo: &str) -> Option<(u64, u64)> {
    let bytes = |name: &str| {
        let line = meminfo.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
        line.trim().strip_suffix(" kB")?.parse::<u64>().ok()?.checked_mul(1024)
    };
    let total = bytes("MemTotal")?;
    Some((total, total.saturating_sub(bytes("MemAvailable")?)))
}

const PROGRAM: &str = "nvidia-smi";
const ARGUMENTS: [&str; 2] = [
    "--query-gpu=index,name,utilization.gpu,memory.used,memory.total,temperature.gpu",
    "--format=csv,noheader,nounits",
];
/// It takes half a second on a healthy machine, and hangs on one with a broken driver.
const TIMEOUT: Duration = Duration::from_secs(5);
/// More than any machine has GPUs: a line is about 60 bytes.
const MOST_BYTES: u64 = 16 * 1024;
const MOST_GPUS: usize = 64;
const MIB: i64 = 1024 * 1024;

/// A GPU as JSON.
pub(super) type Gpu = Vec<u8>;

/// The GPUs, or none if there is no `nvidia-smi`.
///
/// # Errors
///
/// There is one, but it does not work.
pub(super) async fn query_gpus() -> Result<Vec<Gpu>, String> {
    match find_program(OsStr::new(PROGRAM)) {
        Ok(program) => query(&program).await,
        Err(_) => Ok(Vec::new()),
    }
}

async fn query(program: &Path) -> Result<Vec<Gpu>, String> {
    let printed = capture_output(program, &ARGUMENTS, TIMEOUT, MOST_BYTES).await?;
    Ok(parse(&String::from_utf8_lossy(&printed)))
}

/// Lines that are not those of a GPU are left out, and so are values such as `[N/A]`.
fn parse(text: &str) -> Vec<Gpu> {
    text.lines().filter_map(parse_line).take(MOST_GPUS).collect()
}

fn parse_line(line: &str) -> Option<Gpu> {
    // A name may contain a comma.
    let (index, rest) = line.split_once(',')?;
    let mut fields = rest.rsplitn(5, ',').map(str::trim);
    let mut number = || fields.next().map(|field| field.parse::<f64>().ok().filter(|number| number.is_finite()));
    let [temperature, total, used, utilization] = [number()?, number()?, number()?, number()?];
    let whole = |number: f64| number.round() as i64;
    let bytes = |mib: f64| whole(mib).saturating_mul(MIB);
    let name: String = fields.next()?.chars().filter(|character| !character.is_control()).take(100).collect();
    let gpu = ObjectWriter::new().integer("index", index.trim().parse::<i64>().ok()?).text("name", &name);
    let figures = [
        ("utilization_percent", utilization.map(whole)),
        ("memory_used_bytes", used.map(bytes)),
        ("memory_total_bytes", total.map(bytes)),
        ("temperature_celsius", temperature.map(whole)),
    ];
    let known = figures.into_iter().filter_map(|(name, value)| Some((name, value?)));
    Some(known.fold(gpu, |gpu, (name, value)| gpu.integer(name, value)).end())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;
    use std::time::Instant;

    use super::*;

    #[test]
    fn the_machine_is_read_from_proc() {
        let meminfo = "MemTotal:       1000 kB\nMemFree:         10 kB\nMemAvailable:    400 kB\n";
        assert_eq!(memory(meminfo), Some((1_024_000, 614_400)));
        assert_eq!((memory(""), memory("MemTotal: x kB\n")), (None, None));
        assert_eq!((load1("1.50 0.90 0.70 1/100 5\n"), load1("")), (Some(1.5), None));
        let mut out = Vec::new();
        HostUsage { cpus: 8, load1: Some(1.5), memory: Some((1000, 400)) }.write(&mut out);
        let expected = r#"{"cpus":8,"load1":1.50,"memory_bytes":1000,"memory_used_bytes":400}"#;
        assert_eq!(String::from_utf8(out).unwrap(), expected);
        let here = HostUsage::measure();
        assert!(here.cpus > 0 && here.memory.is_some_and(|(total, used)| used < total), "{here:?}");
    }

    fn text(gpus: &[Gpu]) -> Vec<String> {
        gpus.iter().map(|gpu| String::from_utf8(gpu.clone()).unwrap()).collect()
    }

    #[test]
    fn each_line_is_a_gpu() {
        let two = "0, NVIDIA A100-SXM4-80GB, 97, 40536, 81920, 71\n1, Tesla T4, 0, 2, 15360, 35\n";
        assert_eq!(
            text(&parse(two)),
            [
                r#"{"index":0,"name":"NVIDIA A100-SXM4-80GB","utilization_percent":97,"memory_used_bytes":42505076736,"memory_total_bytes":85899345920,"temperature_celsius":71}"#,
                r#"{"index":1,"name":"Tesla T4","utilization_percent":0,"memory_used_bytes":2097152,"memory_total_bytes":16106127360,"temperature_celsius":35}"#,
            ]
        );
    }

    #[test]
    fn values_that_a_gpu_does_not_have_are_left_out() {
        let line = "3, NVIDIA, GB10, [N/A], [Not Supported], 100, \n";
        assert_eq!(text(&parse(line)), [r#"{"index":3,"name":"NVIDIA, GB10","memory_total_bytes":104857600}"#]);
    }

    #[test]
    fn what_is_no_gpu_is_none() {
        for garbage in ["", "\n\n", "No devices were found\n", "a,b,c,d,e,f\n", "0, x, 1\n", "\0\u{1b}[31m,,,,,,,\n"] {
            assert!(parse(garbage).is_empty(), "{garbage:?}");
        }
        let many: String = (0..1000).map(|index| format!("{index}, x, 1, 2, 3, 4\n")).collect();
        assert_eq!(parse(&many).len(), MOST_GPUS);
        let huge = text(&parse("0, x, 1e300, 1e300, nan, inf\n"))[0].clone();
        assert!(huge.contains("utilization_percent") && !huge.contains("memory_total"), "{huge}");
    }

    /// Asks a program that does this instead of `nvidia-smi`.
    async fn stand_in(script: &str) -> Result<Vec<Gpu>, String> {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join(PROGRAM);
        fs::write(&program, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o700)).unwrap();
        query(&program).await
    }

    #[tokio::test]
    async fn the_program_is_asked_for_exactly_this() {
        let script = r#"[ "$1 $2" = "--query-gpu=index,name,utilization.gpu,memory.used,memory.total,temperature.gpu --format=csv,noheader,nounits" ] && echo "0, x, 1, 2, 3, 4""#;
        assert_eq!(stand_in(script).await.unwrap().len(), 1);
    }

    #[tokio::test]
    async fn a_program_that_fails_or_prints_without_end_says_so() {
        assert!(stand_in("echo oops >&2; exit 1").await.unwrap_err().contains("exit status: 1"));
        let said = stand_in("exec yes").await.unwrap_err();
        assert!(said.contains("signal: 13"), "{said}");
        assert!(query(Path::new("/no/such/program")).await.is_err());
    }

    #[tokio::test]
    async fn a_program_that_hangs_is_killed() {
        let begin = Instant::now();
        let said = stand_in("trap '' TERM; sleep 1000 & wait").await.unwrap_err();
        assert!(said.contains("did not end within 5 s") && begin.elapsed() < Duration::from_secs(20), "{said}");
    }
}
