//! The table: tasks as rows, sorted, one page of them, and a summary of all of them above. Or groups of tasks that have the same
//! args, as repetitions with other seeds have: mean, deviation, smallest and largest of each number. And tables as CSV: all of
//! their rows, with exact values.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::collections::HashMap;
use std::time::Duration;

use taskqueue_core::csv::{text, write_line};

use super::collection::{PathIndex, Row};
use super::columns::{Better, Column, Columns};
use super::value::{Summary, Value, ValueKind, is_time};
use super::view::{Grouping, View};
use crate::address::Query;
use crate::columns::is_for_filters;
use crate::show;
use crate::show::scale::rounded;

/// Rows of a page.
pub(super) const PAGE_ROWS: usize = 100;
/// Characters of a value that a cell shows.
const CELL_CHARS: usize = 40;
/// Digits of a computed number.
const DIGITS: usize = 5;

/// By what rows are sorted; as they were read without one.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sort {
    pub(super) path: PathIndex,
    pub(super) is_descending: bool,
}

impl Sort {
    /// Returns what the address says; else the best result first.
    pub(super) fn new(columns: &Columns<'_>, view: &View) -> Option<Self> {
        let column = match &view.sort {
            Some(path) => columns.column(&path.text)?,
            None => columns.target.filter(|target| target.better.is_some())?,
        };
        let is_descending = view.is_descending.unwrap_or(column.better == Some(Better::Higher));
        Some(Self { path: column.path, is_descending })
    }

    pub(super) fn compare(&self, a: Option<&Value>, b: Option<&Value>) -> Ordering {
        self.compare_by(a, b, |a, b| a.compare(b))
    }

    /// Orders what can be compared so; what is missing comes last in both directions.
    pub(super) fn compare_by<T>(&self, a: Option<T>, b: Option<T>, compare: impl Fn(&T, &T) -> Ordering) -> Ordering {
        match (&a, &b) {
            (Some(a), Some(b)) if self.is_descending => compare(b, a),
            (Some(a), Some(b)) => compare(a, b),
            (a, b) => b.is_some().cmp(&a.is_some()),
        }
    }
}

/// A heading.
pub(super) struct Head<'c> {
    pub(super) label: &'c str,
    pub(super) is_numeric: bool,
    /// `ascending` or `descending`, if rows are sorted by it.
    pub(super) sorted: Option<&'static str>,
    /// What the buttons change.
    pub(super) sort: String,
    pub(super) remove: String,
    /// What is good, and what makes it the other way round.
    pub(super) better: Option<&'static str>,
    pub(super) flip: Option<String>,
}

pub(super) struct Cell {
    pub(super) text: String,
    /// The exact value, where the text is not.
    pub(super) title: Option<String>,
    pub(super) is_best: bool,
    /// What this value adds to the filter.
    pub(super) and: Option<String>,
}

pub(super) struct Table<'c> {
    /// A word, and a text for each column.
    pub(super) summaries: Vec<(&'static str, Vec<String>)>,
    pub(super) rows: Vec<(&'c Row, Vec<Cell>)>,
}

/// All rows in the order of the view.
pub(super) fn sorted<'c>(columns: &Columns<'c>, sort: Option<Sort>) -> Vec<&'c Row> {
    let collection = columns.collection;
    let mut rows: Vec<&Row> = collection.rows.iter().collect();
    if let Some(sort) = sort {
        rows.sort_by(|a, b| sort.compare(collection.value(a, sort.path), collection.value(b, sort.path)));
    }
    rows
}

/// The rows of the page of the view.
pub(super) fn page_of<'r, T>(rows: &'r [T], view: &View) -> impl Iterator<Item = &'r T> {
    rows.iter().skip((view.page - 1).saturating_mul(PAGE_ROWS)).take(PAGE_ROWS)
}

impl<'c> Table<'c> {
    pub(super) fn new(columns: &Columns<'c>, view: &View, rows: &[&'c Row]) -> Self {
        let best: Vec<Option<&Value>> = columns.shown.iter().map(|column| columns.best(column)).collect();
        let cells = |row: &Row| {
            columns.shown.iter().zip(&best).map(|(column, best)| cell(columns, row, column, *best)).collect()
        };
        Self { summaries: summaries(columns), rows: page_of(rows, view).map(|row| (*row, cells(row))).collect() }
    }
}

/// Returns what sorts by a path that is no column.
pub(super) fn sort_by_path(columns: &Columns<'_>, path: &str, sort: Option<Sort>) -> String {
    let place = columns.collection.path(path);
    sort_by(path, sort.filter(|sort| Some(sort.path) == place), None)
}

/// Returns what sorts by a path: the other way round if it is sorted by it already, else the good values first.
fn sort_by(path: &str, current: Option<Sort>, better: Option<Better>) -> String {
    let is_descending = current.map_or(better == Some(Better::Higher), |current| !current.is_descending);
    let order = if is_descending { "descending" } else { "ascending" };
    Query::default().and("sort", path).and("order", order).to_string()
}

pub(super) fn head<'c>(columns: &Columns<'c>, column: &Column<'c>, view: &View, sort: Option<Sort>) -> Head<'c> {
    let current = sort.filter(|sort| sort.path == column.path);
    let others: Vec<&Column<'_>> = columns.shown.iter().filter(|other| other.path != column.path).collect();
    let remove = others.iter().fold(Query::default(), |query, other| query.and("column", other.text));
    Head {
        label: column.text,
        is_numeric: column.is_numeric(),
        sorted: current.map(|sort| if sort.is_descending { "descending" } else { "ascending" }),
        sort: sort_by(column.text, current, column.better),
        remove: if others.is_empty() { "column=".to_owned() } else { remove.to_string() },
        better: column.better.map(Better::words),
        flip: column.is_measured().then(|| flip(column, view)),
    }
}

/// Returns what makes the other values of a column the good ones.
fn flip(column: &Column<'_>, view: &View) -> String {
    let is_lower = column.better != Some(Better::Lower);
    let lists = [("lower", &view.lower, is_lower), ("higher", &view.higher, !is_lower)];
    let mut change = Query::default();
    for (name, paths, has_it) in lists {
        let others = paths.iter().map(|path| path.text.as_str()).filter(|text| *text != column.text);
        let mut all = others.chain(has_it.then_some(column.text)).peekable();
        change = if all.peek().is_none() { change.and(name, "") } else { change };
        change = all.fold(change, |change, text| change.and(name, text));
    }
    change.to_string()
}

fn cell(columns: &Columns<'_>, row: &Row, column: &Column<'_>, best: Option<&Value>) -> Cell {
    let value = columns.collection.value(row, column.path);
    let is_best = value.zip(best).is_some_and(|(value, best)| value.number.is_some() && value.compare(best).is_eq());
    let (text, title) = value.map_or_else(|| (String::new(), None), |value| shown(column, value));
    let literal = value.filter(|_| !is_time(column.text) && is_for_filters(column.text)).and_then(Value::literal);
    Cell {
        text,
        title,
        is_best,
        and: literal.filter(|_| !column.is_result()).map(|literal| format!("{} == {literal}", column.text)),
    }
}

/// A value as the table shows it, with the exact one where that is another.
pub(super) fn shown(column: &Column<'_>, value: &Value) -> (String, Option<String>) {
    let exact = value.shown();
    match value.approximate() {
        Some(seconds) if is_time(column.text) => {
            (show::duration(Duration::try_from_secs_f64(seconds).unwrap_or_default()), Some(format!("{exact} s")))
        }
        _ => match show::cut(&exact, CELL_CHARS) {
            Cow::Borrowed(_) => (exact, None),
            Cow::Owned(cut) => (cut, Some(exact)),
        },
    }
}

/// A value as the table shows it; nothing of a missing one.
pub(super) fn shown_or_empty(column: &Column<'_>, value: Option<&Value>) -> String {
    value.map(|value| shown(column, value).0).unwrap_or_default()
}

/// Best, median and mean of the columns of numbers, over all tasks.
fn summaries(columns: &Columns<'_>) -> Vec<(&'static str, Vec<String>)> {
    let of = |text: fn(&Columns<'_>, &Column<'_>) -> Option<String>| -> Vec<String> {
        let text = |column: &Column<'_>| {
            Some(column).filter(|column| column.is_measured()).and_then(|column| text(columns, column))
        };
        columns.shown.iter().map(|column| text(column).unwrap_or_default()).collect()
    };
    let rows = [("best", of(best)), ("median", of(median)), ("mean", of(mean))];
    rows.into_iter().filter(|(_, texts)| texts.iter().any(|text| !text.is_empty())).collect()
}

fn best(columns: &Columns<'_>, column: &Column<'_>) -> Option<String> {
    columns.best(column).map(|value| shown(column, value).0)
}

fn median(columns: &Columns<'_>, column: &Column<'_>) -> Option<String> {
    let mut values: Vec<&Value> = columns.numbers(column).collect();
    values.sort_by(|a, b| a.compare(b));
    let (lower, upper) = (values.get(values.len().checked_sub(1)? / 2)?, values.get(values.len() / 2)?);
    if lower.compare(upper).is_eq() {
        return Some(shown(column, lower).0);
    }
    Some(computed(column, lower.approximate()? / 2.0 + upper.approximate()? / 2.0))
}

fn mean(columns: &Columns<'_>, column: &Column<'_>) -> Option<String> {
    let summary: Summary = columns.numbers(column).filter_map(Value::approximate).collect();
    (summary.count > 0).then(|| computed(column, summary.mean))
}

/// A computed number, in the unit of its column.
pub(super) fn computed(column: &Column<'_>, value: f64) -> String {
    if is_time(column.text) {
        return show::duration(Duration::try_from_secs_f64(value).unwrap_or_default());
    }
    rounded(value, DIGITS)
}

/// Args that tasks are grouped by at most.
pub(super) const KEYS_MAX: usize = 30;

/// Numbers of one column in one group.
#[derive(Clone, Debug, Default)]
pub(super) struct Measure<'c> {
    pub(super) summary: Summary,
    pub(super) low: Option<&'c Value>,
    pub(super) high: Option<&'c Value>,
}

/// Tasks with the same values.
pub(super) struct Group<'c> {
    pub(super) key: Vec<Option<&'c Value>>,
    pub(super) tasks: usize,
    pub(super) measures: Vec<Measure<'c>>,
}

/// All groups, in the order of the view.
pub(super) struct Groups<'c> {
    pub(super) by: Vec<Column<'c>>,
    pub(super) measured: Vec<Column<'c>>,
    /// The best mean of each that is measured, if it is known what is good.
    best: Vec<Option<f64>>,
    pub(super) groups: Vec<Group<'c>>,
}

impl<'c> Groups<'c> {
    /// None if the view groups by nothing.
    pub(super) fn new(columns: &Columns<'c>, view: &View, sort: Option<Sort>) -> Option<Self> {
        let by: Vec<Column<'_>> = match view.grouping.as_ref()? {
            Grouping::ArgsButSeed => columns.args_but_seed().take(KEYS_MAX).collect(),
            Grouping::By(paths) => paths.iter().filter_map(|path| columns.column(&path.text)).collect(),
        };
        let is_key = |column: &Column<'_>| by.iter().any(|key| key.path == column.path);
        let is_measured = |column: &&Column<'_>| column.is_measured() && !is_key(column);
        let measured: Vec<Column<'_>> = columns.shown.iter().filter(is_measured).copied().collect();
        let mut groups = collect_groups(columns, &by, &measured);
        sort_groups(&mut groups, &by, &measured, sort);
        let best = measured.iter().enumerate().map(|(place, column)| best_mean(&groups, place, column)).collect();
        Some(Self { by, measured, best, groups })
    }

    /// The groups of the page of the view.
    pub(super) fn page(&self, view: &View) -> impl Iterator<Item = &Group<'c>> {
        page_of(&self.groups, view)
    }

    /// What the tasks of a group have in common, in the order of the columns.
    pub(super) fn key<'g>(&'g self, group: &'g Group<'c>) -> impl Iterator<Item = (String, &'g Column<'c>)> {
        group.key.iter().zip(&self.by).map(|(value, column)| (shown_or_empty(column, *value), column))
    }

    /// What was measured of a group, in the order of the columns.
    pub(super) fn means<'g>(&'g self, group: &'g Group<'c>) -> impl Iterator<Item = MeanCell> {
        let columns = self.measured.iter().zip(&self.best);
        group.measures.iter().zip(columns).map(|(measure, (column, best))| MeanCell::of(measure, column, *best))
    }
}

fn collect_groups<'c>(columns: &Columns<'c>, by: &[Column<'_>], measured: &[Column<'_>]) -> Vec<Group<'c>> {
    let collection = columns.collection;
    let mut places: HashMap<Vec<Option<(ValueKind, String)>>, usize> = HashMap::new();
    let mut groups: Vec<Group<'c>> = Vec::new();
    for row in &collection.rows {
        let key: Vec<Option<&Value>> = by.iter().map(|column| collection.value(row, column.path)).collect();
        let known = key.iter().map(|value| value.map(Value::key)).collect();
        let place = *places.entry(known).or_insert(groups.len());
        if place == groups.len() {
            groups.push(Group { key, tasks: 0, measures: vec![Measure::default(); measured.len()] });
        }
        let group = &mut groups[place];
        group.tasks += 1;
        group.measures.iter_mut().zip(measured).for_each(|(measure, column)| measure.add(columns, row, column));
    }
    groups
}

impl<'c> Measure<'c> {
    fn add(&mut self, columns: &Columns<'c>, row: &Row, column: &Column<'_>) {
        let Some(value) = columns.number(row, column.path) else { return };
        self.summary.add(value.approximate().unwrap_or_default());
        self.low = Some(self.low.filter(|low| low.compare(value).is_le()).unwrap_or(value));
        self.high = Some(self.high.filter(|high| high.compare(value).is_ge()).unwrap_or(value));
    }

    /// The mean, if there are numbers.
    pub(super) fn mean(&self) -> Option<f64> {
        (self.summary.count > 0).then_some(self.summary.mean)
    }
}

/// By a value that groups have in common, or by a mean; those without one come last.
fn sort_groups(groups: &mut [Group<'_>], by: &[Column<'_>], measured: &[Column<'_>], sort: Option<Sort>) {
    let Some(sort) = sort else { return };
    if let Some(place) = by.iter().position(|column| column.path == sort.path) {
        groups.sort_by(|a, b| sort.compare(a.key[place], b.key[place]));
    } else if let Some(place) = measured.iter().position(|column| column.path == sort.path) {
        let mean = |group: &Group<'_>| group.measures[place].mean();
        groups.sort_by(|a, b| sort.compare_by(mean(a), mean(b), f64::total_cmp));
    }
}

fn best_mean(groups: &[Group<'_>], place: usize, column: &Column<'_>) -> Option<f64> {
    let means = groups.iter().filter_map(|group| group.measures[place].mean());
    means.reduce(if column.better? == Better::Lower { f64::min } else { f64::max })
}

/// One mean as the table shows it.
#[derive(Default)]
pub(super) struct MeanCell {
    pub(super) mean: String,
    /// With its sign; empty of a single number.
    pub(super) deviation: String,
    pub(super) range: String,
    pub(super) is_best: bool,
}

impl MeanCell {
    fn of(measure: &Measure<'_>, column: &Column<'_>, best: Option<f64>) -> Self {
        let Some(mean) = measure.mean() else { return Self::default() };
        let [low, high] = [measure.low, measure.high].map(|value| shown_or_empty(column, value));
        // Two digits say all that a deviation knows.
        let deviation_text = |value| if is_time(column.text) { computed(column, value) } else { rounded(value, 2) };
        let deviation = measure.summary.deviation().map(|deviation| format!("± {}", deviation_text(deviation)));
        Self {
            mean: computed(column, mean),
            deviation: deviation.unwrap_or_default(),
            // Of a single number it would say the same again.
            range: if measure.summary.count < 2 { String::new() } else { format!("{low} to {high}") },
            is_best: best == Some(mean),
        }
    }
}

/// Tasks as lines.
pub(super) fn tasks_csv(columns: &Columns<'_>, rows: &[&Row]) -> Vec<u8> {
    let mut out = Vec::new();
    let paths = columns.shown.iter().map(|column| column.text);
    write_line(&mut out, ["id", "name", "status"].into_iter().chain(paths));
    for row in rows {
        let known = [row.id.as_str(), row.name.as_deref().unwrap_or_default(), row.status.as_str()];
        let known = known.map(|field| text(field).into_owned());
        let values = columns.shown.iter().map(|column| csv_field(columns.collection.value(row, column.path)));
        write_line(&mut out, known.into_iter().chain(values));
    }
    out
}

/// Groups as lines: what they have in common, how many tasks they are, and five columns for each number.
pub(super) fn groups_csv(groups: &Groups<'_>) -> Vec<u8> {
    let mut out = Vec::new();
    let keys = groups.by.iter().map(|column| column.text.to_owned());
    let figures =
        |column: &Column<'_>| ["mean", "std", "min", "max", "n"].map(|word| format!("{} {word}", column.text));
    let measured = groups.measured.iter().flat_map(figures);
    write_line(&mut out, keys.chain(["tasks".to_owned()]).chain(measured));
    for group in &groups.groups {
        let key = group.key.iter().map(|value| csv_field(*value));
        let measures = group.measures.iter().flat_map(|measure| {
            let number = |value: Option<f64>| value.map(|value| value.to_string()).unwrap_or_default();
            let (mean, deviation) = (number(measure.mean()), number(measure.summary.deviation()));
            [mean, deviation, csv_field(measure.low), csv_field(measure.high), measure.summary.count.to_string()]
        });
        write_line(&mut out, key.chain([group.tasks.to_string()]).chain(measures));
    }
    out
}

/// The exact value; one that was cut says so.
fn csv_field(value: Option<&Value>) -> String {
    match value {
        None => String::new(),
        Some(value) if value.number.is_some() => value.text.to_string(),
        Some(value) => text(&value.shown()).into_owned(),
    }
}
