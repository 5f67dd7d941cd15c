//! What the telemetry of a worker says to people: processor and memory of its run, load and memory of its host, GPUs. Workers report
//! what they like; what does not look like ours is shown as it is. Pure.

use taskqueue_core::json::{Found, elements, lookup};

use crate::show::{self, Meter};

/// GPUs of a host that are shown.
const GPUS: usize = 16;
/// The members that a worker of ours reports.
const KNOWN: [&str; 5] = ["cpu_percent", "memory_bytes", "processes", "host", "gpus"];

/// A number with its unit, and how much of the whole it is where there is a whole.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Measure {
    pub(crate) text: String,
    pub(crate) meter: Option<Meter>,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Gpu {
    pub(crate) index: String,
    pub(crate) used: Option<Measure>,
    pub(crate) memory: Option<Measure>,
    pub(crate) temperature: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Telemetry {
    /// Of the run, in percent of one core, as a part of all cores.
    pub(crate) cpu: Option<Measure>,
    pub(crate) memory: Option<Measure>,
    pub(crate) load: Option<Measure>,
    pub(crate) host_memory: Option<Measure>,
    pub(crate) gpus: Vec<Gpu>,
    /// Everything, if nothing of it is known.
    pub(crate) other: Option<String>,
}

impl Telemetry {
    /// What a canonical text says.
    pub(crate) fn of(telemetry: &str) -> Self {
        let of_host = |name| number(telemetry, &["host", name]);
        let (cpus, host_bytes) = (of_host("cpus"), of_host("memory_bytes"));
        let is_known = KNOWN.iter().any(|name| lookup(telemetry, &[*name]).is_some());
        Self {
            cpu: number(telemetry, &["cpu_percent"]).map(|percent| Measure {
                text: format!("{percent:.0} %"),
                meter: cpus.and_then(|cpus| Meter::new(percent, cpus * 100.0)),
            }),
            memory: number(telemetry, &["memory_bytes"]).map(|bytes| Measure {
                text: size(bytes),
                meter: host_bytes.and_then(|whole| Meter::of_limit(bytes, whole)),
            }),
            load: of_host("load1").map(|load| Measure {
                text: cpus.map_or(format!("load {load:.1}"), |cpus| format!("load {load:.1} of {cpus:.0} cores")),
                meter: cpus.and_then(|cpus| Meter::new(load, cpus)),
            }),
            host_memory: of_host("memory_used_bytes").map(|used| part(used, host_bytes)),
            gpus: gpus(telemetry),
            other: (!is_known && telemetry != "{}").then(|| telemetry.to_owned()),
        }
    }
}

fn gpus(telemetry: &str) -> Vec<Gpu> {
    let Some(Found::Array(gpus)) = lookup(telemetry, &["gpus"]) else { return Vec::new() };
    let gpu = |(place, gpu)| if let Found::Object(text) = gpu { self::gpu(place, text) } else { None };
    elements(gpus).take(GPUS).enumerate().filter_map(gpu).collect()
}

/// What is known of one GPU; nothing if that is nothing.
fn gpu(place: usize, gpu: &str) -> Option<Gpu> {
    let of = |name| number(gpu, &[name]);
    let used = of("utilization_percent")
        .map(|percent| Measure { text: format!("{percent:.0} %"), meter: Meter::new(percent, 100.0) });
    let memory = of("memory_used_bytes").map(|used| part(used, of("memory_total_bytes")));
    let temperature = of("temperature_celsius").map(|degrees| format!("{degrees:.0} °C"));
    let is_known = used.is_some() || memory.is_some() || temperature.is_some();
    let index = format!("{:.0}", of("index").unwrap_or(place as f64));
    is_known.then_some(Gpu { index, used, memory, temperature })
}

/// A part of a whole, if that is known.
fn part(used: f64, whole: Option<f64>) -> Measure {
    let text = whole.map_or_else(|| size(used), |whole| format!("{} of {}", size(used), size(whole)));
    Measure { text, meter: whole.and_then(|whole| Meter::of_limit(used, whole)) }
}

/// A number that can be: finite, not negative, and not larger than anything that is measured.
fn number(object: &str, path: &[&str]) -> Option<f64> {
    let number = match lookup(object, path)? {
        Found::Int(int) => int as f64,
        Found::Float(float) => float,
        _ => return None,
    };
    (0.0..1e18).contains(&number).then_some(number)
}

fn size(bytes: f64) -> String {
    show::bytes(bytes as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(measure: Option<Measure>) -> Option<(String, Option<Meter>)> {
        measure.map(|measure| (measure.text, measure.meter))
    }

    #[test]
    fn what_our_workers_measure_is_short_and_a_part_of_its_whole() {
        let seen = Telemetry::of(
            r#"{"cpu_percent":312.4,"gpus":[{"index":0,"memory_total_bytes":25769803776,"memory_used_bytes":21582210662,"name":"RTX","temperature_celsius":71,"utilization_percent":97},{"index":3,"memory_used_bytes":3145728}],"host":{"cpus":16,"load1":4.0,"memory_bytes":68719476736,"memory_used_bytes":17179869184},"memory_bytes":5583457485,"processes":4}"#,
        );
        assert_eq!(text(seen.cpu), Some(("312 %".to_owned(), Meter::new(312.4, 1_600.0))));
        assert_eq!(text(seen.memory), Some(("5.2 GiB".to_owned(), Meter::of_limit(5_583_457_485.0, 68_719_476_736.0))));
        assert_eq!(text(seen.load), Some(("load 4.0 of 16 cores".to_owned(), Meter::new(1.0, 4.0))));
        assert_eq!(text(seen.host_memory), Some(("16 GiB of 64 GiB".to_owned(), Meter::of_limit(1.0, 4.0))));
        let gpus: Vec<_> = seen.gpus.into_iter().map(|gpu| (gpu.index, text(gpu.used), text(gpu.memory))).collect();
        assert_eq!(gpus[0].1, Some(("97 %".to_owned(), Meter::new(97.0, 100.0))));
        assert_eq!(gpus[0].2.as_ref().map(|memory| memory.0.as_str()), Some("20.1 GiB of 24 GiB"));
        assert_eq!((gpus[1].0.as_str(), &gpus[1].1), ("3", &None));
        assert_eq!(seen.other, None);
    }

    #[test]
    fn what_others_report_is_shown_as_it_is_and_never_wrong() {
        let strange = r#"{"note":"hot"}"#;
        assert_eq!(Telemetry::of(strange).other.as_deref(), Some(strange));
        for odd in [
            "{}",
            r#"{"cpu_percent":"much","gpus":"none","memory_bytes":-1}"#,
            r#"{"cpu_percent":1e300,"gpus":[1,null,"x",[],{},{"index":0}],"host":7}"#,
            r#"{"gpus":{},"host":{"load1":"x"}}"#,
        ] {
            assert_eq!(Telemetry::of(odd), Telemetry::default(), "{odd}");
        }
    }
}
