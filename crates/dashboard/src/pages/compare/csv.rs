//! The table as CSV: all of its rows, with exact values.

use taskqueue_core::csv::{text, write_line};

use super::collection::Row;
use super::columns::Columns;
use super::groups::Groups;
use super::value::Value;

/// Tasks as lines.
pub(super) fn tasks(columns: &Columns<'_>, rows: &[&Row]) -> Vec<u8> {
    let mut out = Vec::new();
    let paths = columns.shown.iter().map(|column| column.text.as_str());
    write_line(&mut out, ["id", "name", "status"].into_iter().chain(paths));
    for row in rows {
        let known = [row.id.as_str(), row.name.as_deref().unwrap_or_default(), row.status.as_str()];
        let known = known.map(|field| text(field).into_owned());
        let values = columns.shown.iter().map(|column| field(columns.collection.value(row, column.path)));
        write_line(&mut out, known.into_iter().chain(values));
    }
    out
}

/// Groups as lines: what they have in common, how many tasks they are, and five columns for each number.
pub(super) fn groups(groups: &Groups<'_>) -> Vec<u8> {
    let mut out = Vec::new();
    let keys = groups.by.iter().map(|column| column.text.clone());
    let measured = groups
        .measured
        .iter()
        .flat_map(|column| ["mean", "std", "min", "max", "n"].map(|word| format!("{} {word}", column.text)));
    write_line(&mut out, keys.chain(["tasks".to_owned()]).chain(measured));
    for group in &groups.groups {
        let key = group.key.iter().map(|value| field(*value));
        let measures = group.measures.iter().flat_map(|measure| {
            let number = |value: Option<f64>| value.map(|value| value.to_string()).unwrap_or_default();
            let (mean, deviation) = (number(measure.mean()), number(measure.summary.deviation()));
            [mean, deviation, field(measure.low), field(measure.high), measure.summary.count.to_string()]
        });
        write_line(&mut out, key.chain([group.tasks.to_string()]).chain(measures));
    }
    out
}

/// The exact value; one that was cut says so.
fn field(value: Option<&Value>) -> String {
    match value {
        None => String::new(),
        Some(value) if value.number.is_some() => value.text.to_string(),
        Some(value) => text(&value.shown()).into_owned(),
    }
}
