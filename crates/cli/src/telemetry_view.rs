//! What the telemetry of a worker says to people: processor, memory and GPUs. Workers report what they like; what does not
//! look like ours is shown as it is. Pure.

use taskqueue_client::JsonObject;
use taskqueue_core::json::{Found, elements, lookup};

/// The members that a worker of ours reports.
const KNOWN: [&str; 5] = ["cpu_percent", "memory_bytes", "processes", "host", "gpus"];

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct TelemetryView {
    /// `312 %`: of one core.
    pub(crate) cpu: Option<String>,
    /// `5.2 GiB`.
    pub(crate) memory: Option<String>,
    /// `0: 97 % 20.1/24.0 GiB 71 °C`, for each GPU.
    pub(crate) gpus: Option<String>,
    /// Everything, if nothing of it is known.
    pub(crate) other: Option<String>,
}

impl TelemetryView {
    pub(crate) fn of(telemetry: &JsonObject) -> Self {
        let text = telemetry.as_str();
        let view = Self {
            cpu: number(text, "cpu_percent").map(percent),
            memory: number(text, "memory_bytes").map(size),
            gpus: gpus(text),
            other: None,
        };
        let is_known = KNOWN.iter().any(|name| lookup(text, &[name]).is_some());
        let other = (!is_known && !telemetry.is_empty_object()).then(|| text.to_owned());
        Self { other, ..view }
    }
}

fn gpus(telemetry: &str) -> Option<String> {
    let Some(Found::Array(gpus)) = lookup(telemetry, &["gpus"]) else { return None };
    let texts: Vec<String> = elements(gpus)
        .enumerate()
        .filter_map(|(place, gpu)| if let Found::Object(gpu) = gpu { gpu_text(place, gpu) } else { None })
        .collect();
    (!texts.is_empty()).then(|| texts.join(", "))
}

/// What is known of one GPU; nothing if that is nothing.
fn gpu_text(place: usize, gpu: &str) -> Option<String> {
    let used = number(gpu, "memory_used_bytes").map(size);
    let total = number(gpu, "memory_total_bytes").map(size);
    let memory = match (used, total) {
        (Some(used), Some(total)) => Some(format!("{}/{total}", used.trim_end_matches(" GiB"))),
        (used, _) => used,
    };
    let temperature = number(gpu, "temperature_celsius").map(|degrees| format!("{degrees:.0} °C"));
    let parts = [number(gpu, "utilization_percent").map(percent), memory, temperature];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    let index = number(gpu, "index").unwrap_or(place as f64);
    (!parts.is_empty()).then(|| format!("{index:.0}: {}", parts.join(" ")))
}

/// A number that can be: finite and not negative.
fn number(object: &str, name: &str) -> Option<f64> {
    let number = match lookup(object, &[name])? {
        Found::Int(int) => int as f64,
        Found::Float(float) => float,
        _ => return None,
    };
    (number.is_finite() && number >= 0.0).then_some(number)
}

fn percent(number: f64) -> String {
    format!("{number:.0} %")
}

/// `5.2 GiB`, or `512 MiB` where that is less than one.
fn size(bytes: f64) -> String {
    let gibibytes = bytes / f64::from(1 << 30);
    if gibibytes < 1.0 { format!("{:.0} MiB", gibibytes * 1024.0) } else { format!("{gibibytes:.1} GiB") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn view(telemetry: &str) -> TelemetryView {
        TelemetryView::of(&JsonObject::from_canonical(telemetry))
    }

    #[test]
    fn what_our_workers_measure_is_short() {
        let seen = view(
            r#"{"cpu_percent":312.4,"gpus":[{"index":0,"memory_total_bytes":25769803776,"memory_used_bytes":21582210662,"name":"RTX","temperature_celsius":71,"utilization_percent":97},{"index":3,"memory_total_bytes":25769803776,"memory_used_bytes":3145728,"utilization_percent":0}],"host":{},"memory_bytes":5583457485,"processes":4}"#,
        );
        assert_eq!((seen.cpu.as_deref(), seen.memory.as_deref()), (Some("312 %"), Some("5.2 GiB")));
        assert_eq!(seen.gpus.as_deref(), Some("0: 97 % 20.1/24.0 GiB 71 °C, 3: 0 % 3 MiB/24.0 GiB"));
        assert_eq!(seen.other, None);
    }

    #[test]
    fn what_others_report_is_shown_as_it_is_and_never_wrong() {
        let strange = r#"{"load":[0.5,0.7],"note":"hot"}"#;
        assert_eq!(view(strange).other.as_deref(), Some(strange));
        assert_eq!(view("{}"), TelemetryView::default());
        for odd in [
            r#"{"cpu_percent":"much","gpus":"none","memory_bytes":-1}"#,
            r#"{"cpu_percent":-1,"gpus":[1,null,"x",[],{},{"index":0},{"utilization_percent":"x"}]}"#,
            r#"{"gpus":{}}"#,
            r#"{"gpus":[]}"#,
        ] {
            assert_eq!(view(odd), TelemetryView::default(), "{odd}");
        }
        assert_eq!(view(r#"{"gpus":[{"memory_used_bytes":0}]}"#).gpus.as_deref(), Some("0: 0 MiB"));
        assert!(view(r#"{"memory_bytes":1.7976931348623157e308}"#).memory.is_some());
    }
}
