//! Parallel coordinates: an axis for each path, a line for each task, coloured by the number that the page is about.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt::Write as _;

use super::collection::Row;
use super::columns::{Better, Column, Columns};
use super::scatter::{Class, Classes, LABEL_CHARS, is_log, most_frequent, percent, short_value, value_counts};
use super::table::Sort;
use super::value::{Value, ValueKind};
use super::view::{AXES, ScaleChoice, View};
use crate::show;
use crate::show::scale::{Scale, Tick};

/// Lines that are drawn.
const LINES: usize = 500;
/// Axes that appear without being asked for, with the target.
const USUAL_AXES: usize = 6;
/// So few different numbers are all marked.
const FEW_NUMBERS: usize = 6;
/// Values of an axis that is no number.
const CATEGORIES: usize = 12;

/// An axis, and how the values of its path are placed, from 0 to 1 from below.
pub(super) struct Axis<'c> {
    pub(super) column: Column<'c>,
    pub(super) marks: Vec<Tick>,
    placing: Placing,
}

enum Placing {
    Numbers(Scale),
    Categories(HashMap<(ValueKind, String), f64>),
}

pub(super) struct Line<'c> {
    pub(super) css: &'static str,
    /// In a box of 1000 by 1000.
    pub(super) shape: String,
    pub(super) row: &'c Row,
    /// What its colour is for.
    pub(super) value: Option<&'c Value>,
}

pub(super) struct Parallel<'c> {
    pub(super) axes: Vec<Axis<'c>>,
    pub(super) lines: Vec<Line<'c>>,
    pub(super) legend: Vec<Class>,
    pub(super) target: Option<&'c str>,
    /// How many tasks have a line, drawn or not.
    pub(super) total: usize,
}

impl<'c> Parallel<'c> {
    /// None for fewer than three axes that were not asked for, or fewer than two that were.
    pub(super) fn new(columns: &Columns<'c>, view: &View) -> Option<Self> {
        let chosen = axes_of(columns, view);
        if chosen.len() < if view.axes.is_empty() { 3 } else { 2 } {
            return None;
        }
        let axes: Vec<Axis<'_>> = chosen.into_iter().map(|column| Axis::of(columns, column)).collect();
        let shape = |row| Some((row, shape(columns, row, &axes)?));
        let mut rows: Vec<(&Row, String)> = columns.collection.rows.iter().filter_map(shape).collect();
        let (total, target) = (rows.len(), columns.target);
        let is_lower = target.is_some_and(|target| target.better == Some(Better::Lower));
        if let Some(target) = target {
            // The best ones are drawn last, above the others.
            let best_first = Sort { path: target.path, is_descending: !is_lower };
            let number = |row: &Row| columns.number(row, target.path);
            rows.sort_by(|(a, _), (b, _)| best_first.compare(number(b), number(a)));
        }
        let rows = spread(rows, LINES);
        let value = |row: &Row| columns.collection.value(row, target?.path);
        let values: Vec<Option<&Value>> = rows.iter().map(|(row, _)| value(row)).collect();
        let Classes { mut classes, of } =
            if target.is_some() { Classes::steps(&values, is_lower) } else { Classes::one(rows.len()) };
        let line = |((row, shape), (class, value)): ((&'c Row, String), (usize, Option<&'c Value>))| Line {
            css: classes[class].css,
            shape,
            row,
            value,
        };
        let lines = rows.into_iter().zip(of.into_iter().zip(values)).map(line).collect();
        classes.retain(|class| class.count > 0);
        Some(Self { axes, lines, legend: classes, target: target.map(|target| target.text), total })
    }

    /// The paths of the axes.
    pub(super) fn paths(&self) -> Vec<&'c str> {
        self.axes.iter().map(|axis| axis.column.text).collect()
    }

    /// Where an axis is from left to right, and whether its label begins, is centred or ends there, so that it stays within the chart.
    pub(super) fn place(&self, number: usize) -> (String, &'static str) {
        let last = self.axes.len() - 1;
        let anchor = match number {
            0 => "start",
            number if number == last => "end",
            _ => "middle",
        };
        (percent(number as f64 / last.max(1) as f64), anchor)
    }
}

/// Returns what the address says; else the args that differ, without seeds, and the target.
fn axes_of<'c>(columns: &Columns<'c>, view: &View) -> Vec<Column<'c>> {
    if !view.axes.is_empty() {
        return view.axes.iter().filter_map(|path| columns.column(&path.text)).take(AXES).collect();
    }
    let target = columns.target.filter(|target| !target.is_arg());
    columns.args_but_seed().take(USUAL_AXES).chain(target).collect()
}

impl<'c> Axis<'c> {
    fn of(columns: &Columns<'c>, column: Column<'c>) -> Self {
        let values = || columns.collection.rows.iter().filter_map(|row| columns.collection.value(row, column.path));
        let numbers: Vec<f64> = values().filter_map(Value::approximate).collect();
        let log = is_log(ScaleChoice::Auto, &numbers);
        let scale = Scale::over(numbers.into_iter(), log).filter(|_| column.is_numeric());
        let Some(scale) = scale else { return Self::of_categories(column, values()) };
        let is_marked = columns.collection.different(column.path) <= FEW_NUMBERS;
        let marks = if is_marked { value_marks(values(), scale) } else { scale.ticks() };
        Self { column, marks, placing: Placing::Numbers(scale) }
    }

    /// The most frequent values, in order, with the same distance between all.
    fn of_categories<'v>(column: Column<'c>, values: impl Iterator<Item = &'v Value>) -> Self {
        let counts = most_frequent(value_counts(values), CATEGORIES);
        let (mut marks, mut places) = (Vec::new(), HashMap::new());
        for (number, (_, value)) in counts.iter().enumerate() {
            let at = (number as f64 + 0.5) / counts.len() as f64;
            marks.push(Tick { at, label: short_value(value) });
            places.insert(value.key(), at);
        }
        Self { column, marks, placing: Placing::Categories(places) }
    }

    fn place(&self, value: &Value) -> Option<f64> {
        match &self.placing {
            Placing::Numbers(scale) => scale.place(value.approximate()?),
            Placing::Categories(places) => places.get(&value.key()).copied(),
        }
    }

    pub(super) fn is_log(&self) -> bool {
        matches!(self.placing, Placing::Numbers(Scale { is_log: true, .. }))
    }

    pub(super) fn label(&self) -> Cow<'c, str> {
        show::cut(self.column.text, LABEL_CHARS)
    }
}

/// The values themselves: few numbers need no others at their axis.
fn value_marks<'v>(values: impl Iterator<Item = &'v Value>, scale: Scale) -> Vec<Tick> {
    let mut values: Vec<&Value> = values.filter(|value| value.number.is_some()).collect();
    values.sort_by(|a, b| a.compare(b));
    values.dedup_by(|a, b| a.compare(b).is_eq());
    let mark = |value: &Value| Some(Tick { at: scale.place(value.approximate()?)?, label: short_value(value) });
    values.into_iter().filter_map(mark).collect()
}

/// The line of a task: with a gap where it has no value. None if there is nothing to connect.
fn shape(columns: &Columns<'_>, row: &Row, axes: &[Axis<'_>]) -> Option<String> {
    let (mut shape, mut segments, mut was_there) = (String::new(), 0, false);
    for (number, axis) in axes.iter().enumerate() {
        let place = columns.collection.value(row, axis.column.path).and_then(|value| axis.place(value));
        let at = number * 1_000 / (axes.len() - 1).max(1);
        if let Some(place) = place {
            let _ = write!(shape, "{}{at} {:.0}", if was_there { "L" } else { "M" }, (1.0 - place) * 1_000.0);
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
