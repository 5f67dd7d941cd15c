//! Figures and verdicts as a table for people or as JSON for machines.

use serde_json::{Value, json};

use crate::figure::Figure;
use crate::goals::{Judged, Verdict};
use crate::table;

/// Percentiles that are shown, with their names.
const PERCENTILES: [(&str, f64); 4] = [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p999", 0.999)];

/// A table of figures, and a line for each kind of error.
pub(crate) fn text(figures: &[Figure]) -> String {
    let heading = [
        "phase",
        "on",
        "conn",
        "req/s",
        "reference",
        "ratio",
        "p50 ms",
        "p90",
        "p99",
        "p999",
        "max",
        "CPU us/req",
        "over ref",
        "req/sync",
        "RSS MiB",
        "syncs/s",
    ];
    let rows: Vec<Vec<String>> = figures.iter().map(figure_row).collect();
    let mut text = table::render(&heading, &rows, 2);
    for figure in figures {
        for (code, count) in figure.errors() {
            text.push_str(&format!(
                "\nerrors in {}, {} connections: {code} x {count}",
                figure.phase.name(),
                figure.connections
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

pub(crate) fn json(figures: &[Figure]) -> Value {
    figures.iter().map(figure_json).collect::<Vec<_>>().into()
}

pub(crate) fn goals_json(judged: &[Judged]) -> Value {
    judged.iter().map(judged_json).collect::<Vec<_>>().into()
}

fn figure_row(figure: &Figure) -> Vec<String> {
    let latency = figure.latency();
    let mut row = vec![figure.phase.name(), figure.storage.name().to_owned(), figure.connections.to_string()];
    row.extend([format!("{:.0}", figure.rate()), format!("{:.0}", figure.reference_rate())]);
    row.push(format!("{:.2}", figure.ratio()));
    row.extend(PERCENTILES.map(|(_, share)| milliseconds(latency.quantile_nanos(share))));
    row.push(milliseconds(latency.max_nanos()));
    row.extend([format!("{:.1}", figure.cpu_micros()), format!("{:.2}", figure.cpu_ratio())]);
    row.push(figure.requests_per_sync.map_or_else(|| "-".to_owned(), |requests| format!("{requests:.1}")));
    row.extend([mebibytes_text(figure.rss_bytes()), format!("{:.0}", figure.syncs_per_second)]);
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

fn figure_json(figure: &Figure) -> Value {
    let latency = figure.latency();
    let mut nanoseconds: serde_json::Map<String, Value> =
        PERCENTILES.iter().map(|(name, share)| ((*name).to_owned(), latency.quantile_nanos(*share).into())).collect();
    nanoseconds.insert("max".to_owned(), latency.max_nanos().into());
    json!({
        "phase": figure.phase.name(),
        "on": figure.storage.name(),
        "connections": figure.connections,
        "requests_per_second": figure.rate(),
        "reference_requests_per_second": figure.reference_rate(),
        "ratio": figure.ratio(),
        "ratios": figure.rounds.iter().map(|round| round.server.rate() / round.reference.rate()).collect::<Vec<_>>(),
        "latency_nanoseconds": nanoseconds,
        "claim_p99_over_p50": figure.claim_tail(),
        "cpu_microseconds_per_request": figure.cpu_micros(),
        "cpu_over_reference": figure.cpu_ratio(),
        "reference_body_bytes_over_server": figure.body_ratio(),
        "rss_bytes": figure.rss_bytes(),
        "syncs_per_second": figure.syncs_per_second,
        "errors": figure.errors(),
        "requests_per_sync": figure.requests_per_sync,
        "requests_per_second_wanted": figure.rate_wanted,
        "core_share": figure.core_share(),
        "handed_out_twice": figure.twice,
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
