//! The machine: its processors, how busy they are, and its memory.

use std::fs;
use std::num::NonZero;
use std::thread::available_parallelism;

use taskqueue_core::json::ObjectWriter;

#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Host {
    cpus: usize,
    load1: Option<f64>,
    /// All of it, and what is not available to programs.
    memory: Option<(u64, u64)>,
}

impl Host {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_machine_is_read_from_proc() {
        let meminfo = "MemTotal:       1000 kB\nMemFree:         10 kB\nMemAvailable:    400 kB\n";
        assert_eq!(memory(meminfo), Some((1_024_000, 614_400)));
        assert_eq!((memory(""), memory("MemTotal: x kB\n")), (None, None));
        assert_eq!((load1("1.50 0.90 0.70 1/100 5\n"), load1("")), (Some(1.5), None));
        let mut out = Vec::new();
        Host { cpus: 8, load1: Some(1.5), memory: Some((1000, 400)) }.write(&mut out);
        let expected = r#"{"cpus":8,"load1":1.50,"memory_bytes":1000,"memory_used_bytes":400}"#;
        assert_eq!(String::from_utf8(out).unwrap(), expected);
        let here = Host::measure();
        assert!(here.cpus > 0 && here.memory.is_some_and(|(total, used)| used < total), "{here:?}");
    }
}
