//! The table as CSV (RFC 4180): all of its rows, with exact values.

use super::collection::Row;
use super::columns::Columns;
use super::groups::Groups;
use super::value::Value;

/// Tasks as lines.
pub(super) fn tasks(columns: &Columns<'_>, rows: &[&Row]) -> String {
    let mut out = String::new();
    let paths = columns.shown.iter().map(|column| column.text.as_str());
    line(&mut out, ["id", "name", "status"].into_iter().chain(paths).map(text));
    for row in rows {
        let known = [row.id.as_str(), row.name.as_deref().unwrap_or_default(), row.status.as_str()].map(text);
        let values = columns.shown.iter().map(|column| field(columns.collection.value(row, column.path)));
        line(&mut out, known.into_iter().chain(values));
    }
    out
}

/// Groups as lines: what they have in common, how many tasks they are, and five columns for each number.
pub(super) fn groups(groups: &Groups<'_>) -> String {
    let mut out = String::new();
    let keys = groups.by.iter().map(|column| text(&column.text));
    let measured = groups
        .measured
        .iter()
        .flat_map(|column| ["mean", "std", "min", "max", "n"].map(|word| text(&format!("{} {word}", column.text))));
    line(&mut out, keys.chain([text("tasks")]).chain(measured));
    for group in &groups.groups {
        let key = group.key.iter().map(|value| field(*value));
        let measures = group.measures.iter().flat_map(|measure| {
            let number = |value: Option<f64>| value.map(|value| value.to_string()).unwrap_or_default();
            let (mean, deviation) = (number(measure.mean()), number(measure.summary.deviation()));
            [mean, deviation, field(measure.low), field(measure.high), measure.summary.count.to_string()]
        });
        line(&mut out, key.chain([group.tasks.to_string()]).chain(measures));
    }
    out
}

fn line(out: &mut String, fields: impl Iterator<Item = String>) {
    for (number, field) in fields.enumerate() {
        if number > 0 {
            out.push(',');
        }
        out.push_str(&field);
    }
    out.push_str("\r\n");
}

fn field(value: Option<&Value>) -> String {
    match value {
        None => String::new(),
        // A number is never a formula.
        Some(value) if value.number.is_some() => value.text.to_string(),
        Some(value) => text(&value.shown()),
    }
}

/// A text in quotes if it needs them. One that a spreadsheet would compute begins with an apostrophe, which makes it a text there.
fn text(text: &str) -> String {
    let is_formula = text.starts_with(['=', '+', '-', '@', '\t', '\r']);
    let text = if is_formula { format!("'{text}") } else { text.to_owned() };
    if text.contains([',', '"', '\n', '\r']) { format!("\"{}\"", text.replace('"', "\"\"")) } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_quoted_where_they_must_and_are_never_formulas() {
        let cases = [
            ("a", "a"),
            ("a,b", "\"a,b\""),
            ("a\"b", "\"a\"\"b\""),
            ("=1+1", "'=1+1"),
            ("@x,\n", "\"'@x,\n\""),
            ("", ""),
        ];
        for (from, to) in cases {
            assert_eq!(text(from), to);
        }
    }
}
