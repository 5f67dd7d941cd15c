//! Parallel coordinates: an axis for each path, a line for each task, coloured by the number that the page is about.

use std::collections::HashMap;
use std::fmt::Write as _;

use super::collection::Row;
use super::columns::{Better, Column, Columns};
use super::scatter::{
    Class, Classes, LABEL_CHARS, Mark, STEP_COLORS, TITLE_CHARS, is_log, most_frequent, percent, short_value,
    value_counts,
};
use super::table::Sort;
use super::value::{Value, ValueKind};
use super::view::{AXES, ScaleChoice, View};
use crate::show;
use crate::show::scale::Scale;

/// Lines that are drawn.
const LINES: usize = 500;
/// Axes that appear without being asked for, with the target.
const USUAL_AXES: usize = 6;
/// So few different numbers are all marked.
const FEW_NUMBERS: usize = 6;
/// Values of an axis that is no number.
const CATEGORIES: usize = 12;

pub(super) struct Axis {
    pub(super) at: String,
    pub(super) label: String,
    pub(super) is_log: bool,
    pub(super) marks: Vec<Mark>,
    /// `start`, `middle` or `end`: the first and the last label stay within the chart.
    pub(super) anchor: &'static str,
}

pub(super) struct Line {
    pub(super) css: &'static str,
    /// In a box of 1000 by 1000.
    pub(super) shape: String,
    pub(super) id: String,
    pub(super) title: String,
}

pub(super) struct Parallel {
    pub(super) axes: Vec<Axis>,
    pub(super) lines: Vec<Line>,
    pub(super) legend: Vec<Class>,
    pub(super) target: Option<String>,
    /// How many tasks have a line, drawn or not.
    pub(super) total: usize,
    pub(super) paths: Vec<String>,
}

/// How the values of a path are placed.
enum Placing {
    /// With the marks, and whether it is logarithmic.
    Numbers(Scale, Vec<Mark>, bool),
    Categories(HashMap<(ValueKind, String), f64>, Vec<Mark>),
}

impl Parallel {
    /// None for fewer than three axes that were not asked for, or fewer than two that were.
    pub(super) fn new(columns: &Columns<'_>, view: &View) -> Option<Self> {
        let chosen = axes_of(columns, view);
        if chosen.len() < if view.axes.is_empty() { 3 } else { 2 } {
            return None;
        }
        let placings: Vec<Placing> = chosen.iter().map(|column| Placing::of(columns, column)).collect();
        let mut rows: Vec<(&Row, String)> = columns
            .collection
            .rows
            .iter()
            .filter_map(|row| Some((row, shape(columns, row, &chosen, &placings)?)))
            .collect();
        let total = rows.len();
        let target = columns.target.clone();
        if let Some(target) = &target {
            // The best ones are drawn last, above the others.
            let best_first = Sort { path: target.path, is_descending: target.better != Some(Better::Lower) };
            let number = |row: &Row| columns.number(row, target.path);
            rows.sort_by(|(a, _), (b, _)| best_first.compare(number(b), number(a)));
        }
        let rows = spread(rows, LINES);
        let values: Vec<Option<&Value>> =
            rows.iter().map(|(row, _)| columns.collection.value(row, target.as_ref()?.path)).collect();
        let mut classes = if target.is_some() { Classes::steps(&values) } else { Classes::one(rows.len()) };
        if target.as_ref().is_some_and(|target| target.better == Some(Better::Lower)) {
            strongest_is_lowest(&mut classes);
        }
        let lines = rows
            .into_iter()
            .zip(&classes.of)
            .map(|((row, shape), class)| line(columns, &classes.classes[*class], row, shape, target.as_ref()));
        let lines = lines.collect();
        classes.classes.retain(|class| class.count > 0);
        let last = chosen.len() - 1;
        let axis = |(number, (column, placing)): (usize, (&Column, &Placing))| axis(number, last, column, placing);
        let axes = chosen.iter().zip(&placings).enumerate().map(axis).collect();
        let paths = chosen.into_iter().map(|column| column.text).collect();
        Some(Self { axes, lines, legend: classes.classes, target: target.map(|target| target.text), total, paths })
    }
}

/// Returns what the address says; else the args that differ, without seeds, and the target.
fn axes_of(columns: &Columns<'_>, view: &View) -> Vec<Column> {
    if !view.axes.is_empty() {
        return view.axes.iter().filter_map(|path| columns.column(&path.text)).take(AXES).cloned().collect();
    }
    let target = columns.target.iter().filter(|target| !target.is_arg());
    columns.args_but_seed().take(USUAL_AXES).chain(target).cloned().collect()
}

impl Placing {
    fn of(columns: &Columns<'_>, column: &Column) -> Self {
        let values = || columns.collection.rows.iter().filter_map(|row| columns.collection.value(row, column.path));
        let numbers: Vec<f64> = values().filter_map(Value::approximate).collect();
        let log = is_log(ScaleChoice::Auto, &numbers);
        let Some(scale) = Scale::over(numbers.into_iter(), log).filter(|_| column.is_numeric) else {
            return Self::categories(values());
        };
        let ticks =
            || scale.ticks().into_iter().map(|tick| Mark { at: percent(1.0 - tick.at), label: tick.label }).collect();
        let marks = if columns.collection.different(column.path) <= FEW_NUMBERS {
            value_marks(values(), scale)
        } else {
            ticks()
        };
        Self::Numbers(scale, marks, log)
    }

    /// The most frequent values, in order, with the same distance between all.
    fn categories<'v>(values: impl Iterator<Item = &'v Value>) -> Self {
        let counts = most_frequent(value_counts(values), CATEGORIES);
        let place = |number: usize| 1.0 - (number as f64 + 0.5) / counts.len() as f64;
        let places = counts.iter().enumerate().map(|(number, (_, value))| (value.key(), place(number))).collect();
        let marks = counts
            .iter()
            .enumerate()
            .map(|(number, (_, value))| Mark { at: percent(place(number)), label: short_value(value) });
        Self::Categories(places, marks.collect())
    }

    fn place(&self, value: &Value) -> Option<f64> {
        match self {
            Self::Numbers(scale, ..) => scale.place(value.approximate()?).map(|place| 1.0 - place),
            Self::Categories(places, _) => places.get(&value.key()).copied(),
        }
    }
}

/// The values themselves: few numbers need no others at their axis.
fn value_marks<'v>(values: impl Iterator<Item = &'v Value>, scale: Scale) -> Vec<Mark> {
    let mut values: Vec<&Value> = values.filter(|value| value.number.is_some()).collect();
    values.sort_by(|a, b| a.compare(b));
    values.dedup_by(|a, b| a.compare(b).is_eq());
    let mark =
        |value: &Value| Some(Mark { at: percent(1.0 - scale.place(value.approximate()?)?), label: short_value(value) });
    values.into_iter().filter_map(mark).collect()
}

fn axis(number: usize, last: usize, column: &Column, placing: &Placing) -> Axis {
    let (is_log, marks) = match placing {
        Placing::Numbers(_, marks, is_log) => (*is_log, marks),
        Placing::Categories(_, marks) => (false, marks),
    };
    Axis {
        at: percent(number as f64 / last.max(1) as f64),
        label: show::cut(&column.text, LABEL_CHARS).into_owned(),
        is_log,
        marks: marks.clone(),
        anchor: match number {
            0 => "start",
            number if number == last => "end",
            _ => "middle",
        },
    }
}

/// The line of a task: with a gap where it has no value. None if there is nothing to connect.
fn shape(columns: &Columns<'_>, row: &Row, chosen: &[Column], placings: &[Placing]) -> Option<String> {
    let (mut shape, mut segments, mut was_there) = (String::new(), 0, false);
    for (number, (column, placing)) in chosen.iter().zip(placings).enumerate() {
        let place = columns.collection.value(row, column.path).and_then(|value| placing.place(value));
        let at = number * 1_000 / (chosen.len() - 1).max(1);
        if let Some(place) = place {
            let _ = write!(shape, "{}{at} {:.0}", if was_there { "L" } else { "M" }, place * 1_000.0);
            segments += usize::from(was_there);
        }
        was_there = place.is_some();
    }
    (segments > 0).then_some(shape)
}

/// So many of them, spread evenly, with the first and the last.
fn spread<T>(items: Vec<T>, most: usize) -> Vec<T> {
    let length = items.len();
    if length <= most {
        return items;
    }
    let mut taken = (0..most).map(|number| number * (length - 1) / (most - 1).max(1)).peekable();
    items.into_iter().enumerate().filter(|(place, _)| taken.next_if_eq(place).is_some()).map(|(_, item)| item).collect()
}

/// The strongest colour is for the best.
fn strongest_is_lowest(classes: &mut Classes) {
    for class in &mut classes.classes {
        if let Some(step) = STEP_COLORS.iter().position(|css| *css == class.css) {
            class.css = STEP_COLORS[STEP_COLORS.len() - 1 - step];
        }
    }
}

fn line(columns: &Columns<'_>, class: &Class, row: &Row, shape: String, target: Option<&Column>) -> Line {
    let value =
        target.and_then(|target| columns.collection.value(row, target.path)).map(short_value).unwrap_or_default();
    let name = show::cut(row.title(), TITLE_CHARS);
    Line { css: class.css, shape, id: row.id.to_string(), title: format!("{name}: {value}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_spread_evenly_and_keep_both_ends() {
        for (length, most) in [(500, 500), (501, 500), (5_000, 500), (1_234, 500), (3, 2)] {
            let kept = spread((0..length).collect(), most);
            assert_eq!(kept.len(), most, "{length}");
            assert_eq!((kept.first(), kept.last()), (Some(&0), Some(&(length - 1))), "{length}");
        }
    }
}
