//! What the telemetry of a worker says: processor and memory of its run, load and memory of its host, GPUs. Workers report what they
//! like; what does not look like ours is shown as it is.

use super::{bytes, bytes_of};
use crate::json::{Found, elements, lookup};

/// GPUs of a host that are shown.
const GPUS: usize = 16;
/// The members that a worker of ours reports.
const KNOWN: [&str; 5] = ["cpu_percent", "memory_bytes", "processes", "host", "gpus"];

/// A measured value with its unit, and how much of what it is, where there is a whole.
#[derive(Clone, Debug, PartialEq)]
pub struct Measure {
    pub text: String,
    pub used: f64,
    pub whole: Option<f64>,
    /// True if it is bad if all of it is used: of memory it is, of processors not.
    pub is_limit: bool,
}

/// The measurements of a worker.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Telemetry {
    /// Of the run, in percent of one core: `312 %`.
    pub cpu: Option<Measure>,
    /// Of the run: `5.2 GiB`.
    pub memory: Option<Measure>,
    /// `load 4.0 of 16 cores`.
    pub load: Option<Measure>,
    /// `16 of 64 GiB`.
    pub host_memory: Option<Measure>,
    pub gpus: Vec<Gpu>,
    /// Everything, if nothing of it is known.
    pub other: Option<String>,
}

/// The measurements of one GPU.
#[derive(Clone, Debug, PartialEq)]
pub struct Gpu {
    pub index: String,
    /// `97 %`.
    pub used: Option<Measure>,
    /// `20.1 of 24 GiB`.
    pub memory: Option<Measure>,
    /// `71 °C`.
    pub temperature: Option<String>,
}

impl Telemetry {
    /// Reads a canonical text.
    pub fn of(telemetry: &str) -> Self {
        let of_host = |name| number(telemetry, &["host", name]);
        let (cpus, host_bytes) = (of_host("cpus"), of_host("memory_bytes"));
        let is_known = KNOWN.iter().any(|name| lookup(telemetry, &[*name]).is_some());
        Self {
            cpu: number(telemetry, &["cpu_percent"]).map(|used| percent(used, cpus.map(|cpus| cpus * 100.0))),
            memory: number(telemetry, &["memory_bytes"]).map(|used| Measure {
                text: bytes(used as u64),
                used,
                whole: host_bytes,
                is_limit: true,
            }),
            load: of_host("load1").map(|load| Measure {
                text: cpus.map_or(format!("load {load:.1}"), |cpus| format!("load {load:.1} of {cpus:.0} cores")),
                used: load,
                whole: cpus,
                is_limit: false,
            }),
            host_memory: of_host("memory_used_bytes").map(|used| memory(used, host_bytes)),
            gpus: gpus(telemetry),
            other: (!is_known && telemetry != "{}").then(|| telemetry.to_owned()),
        }
    }
}

impl Gpu {
    /// Its measures, as far as they are known, with a mark between them: `97 % · 20.1 of 24 GiB · 71 °C`.
    pub fn words(&self, between: &str) -> String {
        let Self { used, memory, temperature, .. } = self;
        let measures = [used, memory].into_iter().flatten().map(|measure| measure.text.as_str());
        measures.chain(temperature.as_deref()).collect::<Vec<_>>().join(between)
    }
}

fn gpus(telemetry: &str) -> Vec<Gpu> {
    let Some(Found::Array(gpus)) = lookup(telemetry, &["gpus"]) else { return Vec::new() };
    let gpu = |(place, gpu)| if let Found::Object(text) = gpu { self::gpu(place, text) } else { None };
    elements(gpus).take(GPUS).enumerate().filter_map(gpu).collect()
}

/// Returns what is known of one GPU; nothing if that is nothing.
fn gpu(place: usize, gpu: &str) -> Option<Gpu> {
    let of = |name| number(gpu, &[name]);
    let used = of("utilization_percent").map(|used| percent(used, Some(100.0)));
    let memory = of("memory_used_bytes").map(|used| memory(used, of("memory_total_bytes")));
    let temperature = of("temperature_celsius").map(|degrees| format!("{degrees:.0} °C"));
    let is_known = used.is_some() || memory.is_some() || temperature.is_some();
    let index = format!("{:.0}", of("index").unwrap_or(place as f64));
    is_known.then_some(Gpu { index, used, memory, temperature })
}

fn percent(used: f64, whole: Option<f64>) -> Measure {
    Measure { text: format!("{used:.0} %"), used, whole, is_limit: false }
}

fn memory(used: f64, whole: Option<f64>) -> Measure {
    let text = whole.map_or_else(|| bytes(used as u64), |whole| bytes_of(used as u64, whole as u64));
    Measure { text, used, whole, is_limit: true }
}

/// A number that can be: finite, not negative, and not larger than anything that is measured.
fn number(object: &str, path: &[&str]) -> Option<f64> {
    let number = lookup(object, path)?.as_f64()?;
    (0.0..1e18).contains(&number).then_some(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    type Seen<'m> = Option<(&'m str, f64, Option<f64>)>;

    fn seen(measure: &Option<Measure>) -> Seen<'_> {
        measure.as_ref().map(|measure| (measure.text.as_str(), measure.used, measure.whole))
    }

    #[test]
    fn what_our_workers_measure_is_short_and_a_part_of_its_whole() {
        let telemetry = Telemetry::of(
            r#"{"cpu_percent":312.4,"gpus":[{"index":0,"memory_total_bytes":25769803776,"memory_used_bytes":21582210662,"name":"RTX","temperature_celsius":71,"utilization_percent":97},{"index":3,"memory_used_bytes":3145728}],"host":{"cpus":16,"load1":4.0,"memory_bytes":68719476736,"memory_used_bytes":17179869184},"memory_bytes":5583457485,"processes":4}"#,
        );
        let whole = Some(68_719_476_736.0);
        assert_eq!(seen(&telemetry.cpu), Some(("312 %", 312.4, Some(1_600.0))));
        assert_eq!(seen(&telemetry.memory), Some(("5.2 GiB", 5_583_457_485.0, whole)));
        assert_eq!(seen(&telemetry.load), Some(("load 4.0 of 16 cores", 4.0, Some(16.0))));
        assert_eq!(seen(&telemetry.host_memory), Some(("16 of 64 GiB", 17_179_869_184.0, whole)));
        let gpus: Vec<_> = telemetry.gpus.iter().map(|gpu| (gpu.index.as_str(), gpu.words(", "))).collect();
        let expected = [("0", "97 %, 20.1 of 24 GiB, 71 °C"), ("3", "3 MiB")];
        assert_eq!(gpus, expected.map(|(index, words)| (index, words.to_owned())));
        assert_eq!(seen(&telemetry.gpus[0].used), Some(("97 %", 97.0, Some(100.0))));
        assert_eq!(telemetry.other, None);
        let gpu = &telemetry.gpus[0];
        let all = [&telemetry.cpu, &telemetry.memory, &telemetry.load, &telemetry.host_memory, &gpu.used, &gpu.memory];
        let limits = all.map(|measure| measure.as_ref().unwrap().is_limit);
        assert_eq!(limits, [false, true, false, true, false, true]);
    }

    #[test]
    fn what_others_report_is_shown_as_it_is_and_never_wrong() {
        let strange = r#"{"load":[0.5,0.7],"note":"hot"}"#;
        assert_eq!(Telemetry::of(strange).other.as_deref(), Some(strange));
        for odd in [
            "{}",
            r#"{"cpu_percent":"much","gpus":"none","memory_bytes":-1}"#,
            r#"{"cpu_percent":1e300,"gpus":[1,null,"x",[],{},{"index":0},{"utilization_percent":"x"}],"host":7}"#,
            r#"{"cpu_percent":-1,"gpus":{},"host":{"load1":"x"}}"#,
            r#"{"gpus":[],"memory_bytes":1.7976931348623157e308}"#,
        ] {
            assert_eq!(Telemetry::of(odd), Telemetry::default(), "{odd}");
        }
        assert_eq!(Telemetry::of(r#"{"gpus":[{"memory_used_bytes":0}]}"#).gpus[0].words(" "), "0 B");
    }
}
