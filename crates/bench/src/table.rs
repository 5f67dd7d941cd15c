//! Aligned columns of text. What stands in them is decided in `report.rs` and `backlog.rs`.

/// Renders rows below a heading: the first columns to the left, numbers to the right.
pub(crate) fn render(heading: &[&str], rows: &[Vec<String>], left: usize) -> String {
    let heading: Vec<String> = heading.iter().map(|text| (*text).to_owned()).collect();
    let rows: Vec<&Vec<String>> = std::iter::once(&heading).chain(rows).collect();
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..heading.len()).map(width).collect();
    let cell = |column: usize, text: &String| match column < left {
        true => format!("{text:<width$}", width = widths[column]),
        false => format!("{text:>width$}", width = widths[column]),
    };
    let line = |row: &Vec<String>| {
        let cells: Vec<String> = row.iter().enumerate().map(|(column, text)| cell(column, text)).collect();
        cells.join("  ").trim_end().to_owned()
    };
    rows.into_iter().map(line).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned() {
        let rows = [vec!["create".to_owned(), "7".to_owned()], vec!["get".to_owned(), "1234".to_owned()]];
        assert_eq!(render(&["phase", "n"], &rows, 1), "phase      n\ncreate     7\nget     1234");
    }
}
