//! Measurements and verdicts as a table for people or as JSON for machines.

use serde_json::{Value, json};

use crate::goals::{Judged, Verdict};
use crate::measurement::Measurement;
use crate::table;

/// Percentiles that are shown, with their names.
const PERCENTILES: [(&str, f64); 4] = [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p999", 0.999)];

/// A table of measurements, and a line for each kind of error.
pub(crate) fn text(measurements: &[Measurement]) -> String {
    let heading = [
        "phase",
        "on",
        "conn",
        "items/s",
        "reference",
        "ratio",
        "p50 ms",
        "p90",
        "p99",
        "p999",
        "max",
        "CPU us/item",
        "over ref",
        "items/sync",
        "RSS MiB",
        "syncs/s",
    ];
    let rows: Vec<Vec<String>> = measurements.iter().map(measurement_row).collect();
    let mut text = table::render(&heading, &rows, 2);
    for measurement in measurements {
        for (code, count) in measurement.errors() {
            text.push_str(&format!(
                "\nerrors in {}, {} connections: {code} x {count}",
                measurement.phase.name(),
                measurement.connections
            ));
        }
    }
    text
}

/// A table of verdicts.
pub(crate) fn goals(judged: &[Judged]) -> String {
    let rows: Vec<Vec<String>> = judged.iter().map(judged_row).collect();
    table::render(&["row", "goal", "must", "aim", "measured", "verdict"], &rows, 2)
}

/// One line for each must that is missed.
pub(crate) fn missed(judged: &[Judged]) -> Vec<String> {
    let missed = judged.iter().filter(|judged| judged.verdict == Verdict::Missed);
    missed
        .map(|judged| format!("row {}: {}: must {}, is {:.3}", judged.row, judged.what, judged.must, judged.measured))
        .collect()
}

pub(crate) fn json(measurements: &[Measurement]) -> Value {
    measurements.iter().map(measurement_json).collect::<Vec<_>>().into()
}

pub(crate) fn goals_json(judged: &[Judged]) -> Value {
    judged.iter().map(judged_json).collect::<Vec<_>>().into()
}

fn measurement_row(measurement: &Measurement) -> Vec<String> {
    let latency = measurement.latency();
    let mut row =
        vec![measurement.phase.name(), measurement.storage.name().to_owned(), measurement.connections.to_string()];
    row.extend([format!("{:.0}", measurement.rate()), format!("{:.0}", measurement.reference_rate())]);
    row.push(format!("{:.2}", measurement.ratio()));
    row.extend(PERCENTILES.map(|(_, share)| milliseconds(latency.quantile_nanos(share))));
    row.push(milliseconds(latency.max_nanos()));
    row.extend([format!("{:.1}", measurement.cpu_micros()), format!("{:.2}", measurement.cpu_ratio())]);
    row.push(measurement.requests_per_sync.map_or_else(|| "-".to_owned(), |requests| format!("{requests:.1}")));
    row.extend([mebibytes_text(measurement.rss_bytes()), format!("{:.0}", measurement.syncs_per_second)]);
    row
}

fn judged_row(judged: &Judged) -> Vec<String> {
    vec![
        judged.row.to_string(),
        judged.what.clone(),
        judged.must.to_string(),
        judged.aim.to_string(),
        format!("{:.2}", judged.measured),
        judged.verdict.name().to_owned(),
    ]
}

fn measurement_json(measurement: &Measurement) -> Value {
    let latency = measurement.latency();
    let mut nanoseconds: serde_json::Map<String, Value> =
        PERCENTILES.iter().map(|(name, share)| ((*name).to_owned(), latency.quantile_nanos(*share).into())).collect();
    nanoseconds.insert("max".to_owned(), latency.max_nanos().into());
    json!({
        "phase": measurement.phase.name(),
        "on": measurement.storage.name(),
        "connections": measurement.connections,
        "requests_per_second": measurement.rate(),
        "reference_requests_per_second": measurement.reference_rate(),
        "ratio": measurement.ratio(),
        "ratios": measurement.rounds.iter().map(|round| round.server.rate() / round.reference.rate()).collect::<Vec<_>>(),
        "latency_nanoseconds": nanoseconds,
        "claim_p99_over_p50": measurement.claim_tail(),
        "cpu_microseconds_per_request": measurement.cpu_micros(),
        "cpu_over_reference": measurement.cpu_ratio(),
        "reference_body_bytes_over_server": measurement.body_ratio(),
        "rss_bytes": measurement.rss_bytes(),
        "syncs_per_second": measurement.syncs_per_second,
        "errors": measurement.errors(),
        "requests_per_sync": measurement.requests_per_sync,
        "requests_per_second_wanted": measurement.rate_wanted,
        "core_share": measurement.core_share(),
        "handed_out_twice": measurement.double_claims,
    })
}

fn judged_json(judged: &Judged) -> Value {
    json!({
        "row": judged.row,
        "what": judged.what,
        "must": judged.must,
        "aim": judged.aim,
        "measured": judged.measured,
        "verdict": judged.verdict.name(),
    })
}

/// Nanoseconds as milliseconds, as exact as a reader can use.
pub(crate) fn milliseconds(nanoseconds: u64) -> String {
    format!("{:.3}", nanoseconds as f64 / 1e6)
}

pub(crate) fn mebibytes(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

/// Rounded down.
pub(crate) fn mebibytes_text(bytes: u64) -> String {
    (bytes >> 20).to_string()
}
