//! Groups of tasks that have the same args, as repetitions with other seeds have: mean, deviation, smallest and largest of each number.
//! And tables as CSV: all of their rows, with exact values.

use std::collections::HashMap;

use taskqueue_core::csv::{text, write_line};

use super::collection::Row;
use super::columns::{Better, Column, Columns};
use super::table::{Sort, computed, page_of, shown_or_empty};
use super::value::{Summary, Value, ValueKind, is_time};
use super::view::{Grouping, View};
use crate::show::scale::rounded;

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
    match column.better? {
        Better::Lower => means.reduce(f64::min),
        Better::Higher => means.reduce(f64::max),
    }
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
        let deviation = measure.summary.deviation().map(|deviation| format!("± {}", deviation_text(column, deviation)));
        Self {
            mean: computed(column, mean),
            deviation: deviation.unwrap_or_default(),
            // Of a single number it would say the same again.
            range: if measure.summary.count < 2 { String::new() } else { format!("{low} to {high}") },
            is_best: best == Some(mean),
        }
    }
}

/// Two digits say all that a deviation knows.
fn deviation_text(column: &Column<'_>, deviation: f64) -> String {
    if is_time(column.text) { computed(column, deviation) } else { rounded(deviation, 2) }
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
    let measured = groups
        .measured
        .iter()
        .flat_map(|column| ["mean", "std", "min", "max", "n"].map(|word| format!("{} {word}", column.text)));
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
