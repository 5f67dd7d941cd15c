//! The two charts. The scatter: one number against another; places are in percent, so that the chart fits every width. Parallel coordinates:
//! an axis for each path, a line for each task, coloured by the number that the page is about. And the colours of points and lines: a class
//! for each of a few values, or five steps over many numbers.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt::Write as _;

use taskqueue_core::Status;

use super::collection::{Collection, Row};
use super::columns::{Better, Column, Columns};
use super::table::{Sort, shown};
use super::value::{Value, ValueKind};
use super::view::{AXES, View};
use crate::show;
use crate::show::scale::{Scale, Tick, without_zeros};

/// Points that are links of their own. More are drawn as one shape for each colour.
pub(super) const LINKED_POINTS: usize = 2_000;
/// Characters of a name in the text of a point.
const TITLE_CHARS: usize = 40;

/// A task in its place, from 0 to 1 from the left and from above.
#[derive(Clone, Copy)]
pub(super) struct Point<'c> {
    pub(super) row: &'c Row,
    pub(super) x: f64,
    pub(super) y: f64,
}

/// The points of a colour.
pub(super) struct Dots<'c> {
    pub(super) class: Class,
    pub(super) points: Vec<Point<'c>>,
}

impl Dots<'_> {
    /// All points as one shape, in a box of 2000 by 1000.
    pub(super) fn shape(&self) -> String {
        self.points.iter().map(|point| format!("M{:.0} {:.0}h0", point.x * 2_000.0, point.y * 1_000.0)).collect()
    }
}

pub(super) struct Scatter<'c> {
    pub(super) x: Column<'c>,
    pub(super) y: Column<'c>,
    x_scale: Option<Scale>,
    y_scale: Option<Scale>,
    pub(super) dots: Vec<Dots<'c>>,
    /// The best point, with its value.
    pub(super) best: Option<(Point<'c>, String)>,
    pub(super) drawn: usize,
    pub(super) colored_by: Option<&'c str>,
    /// Tasks that are not drawn because one of the values is no number.
    pub(super) without: usize,
    /// Tasks that are not drawn because a logarithmic scale has no place for them.
    pub(super) not_positive: usize,
}

/// The columns of the two axes, as far as there are some with numbers.
pub(super) fn axis_columns<'c>(columns: &Columns<'c>, view: &View) -> (Option<Column<'c>>, Option<Column<'c>>) {
    let y = columns.target;
    let is_other = |column: &&Column<'_>| column.is_numeric() && y.is_none_or(|y| y.path != column.path);
    let x = match &view.x {
        Some(path) => columns.column(&path.text).filter(Column::is_numeric),
        None => columns.main_arg().or_else(|| columns.shown.iter().find(is_other).copied()),
    };
    (x, y)
}

impl<'c> Scatter<'c> {
    /// None without two columns of numbers.
    pub(super) fn new(columns: &Columns<'c>, view: &View) -> Option<Self> {
        let (Some(x), Some(y)) = axis_columns(columns, view) else { return None };
        let rows = &columns.collection.rows;
        let scale = |column: &Column<'_>, choice| {
            let numbers: Vec<f64> = columns.numbers(column).filter_map(Value::approximate).collect();
            Scale::over(numbers.iter().copied(), is_log(choice, &numbers))
        };
        let (x_scale, y_scale) = (scale(&x, view.x_scale), scale(&y, view.y_scale));
        let color = match &view.color {
            Some(path) => columns.column(&path.text),
            None => columns.column("status").filter(|column| column.differs),
        };
        let Classes { classes, of } =
            color.map_or_else(|| Classes::one(rows.len()), |color| Classes::by(columns.collection, color));
        let empty = |class| Dots { class: Class { count: 0, ..class }, points: Vec::new() };
        let mut dots: Vec<Dots<'_>> = classes.into_iter().map(empty).collect();
        let place = |scale: Option<Scale>, value: &Value| scale?.place(value.approximate()?);
        let (mut without, mut not_positive, mut best) = (0, 0, None::<(Point<'_>, &Value)>);
        for (row, class) in rows.iter().zip(of) {
            let (Some(x_value), Some(y_value)) = (columns.number(row, x.path), columns.number(row, y.path)) else {
                without += 1;
                continue;
            };
            let (Some(left), Some(height)) = (place(x_scale, x_value), place(y_scale, y_value)) else {
                not_positive += 1;
                continue;
            };
            let point = Point { row, x: left, y: 1.0 - height };
            dots[class].class.count += 1;
            dots[class].points.push(point);
            if y.better.is_some_and(|better| best.is_none_or(|(_, best)| better.prefers(y_value, best))) {
                best = Some((point, y_value));
            }
        }
        dots.retain(|dots| dots.class.count > 0);
        let drawn = dots.iter().map(|dots| dots.class.count).sum();
        let best = best.map(|(point, value)| (point, shown(&y, value).0));
        let colored_by = color.map(|color| color.text);
        Some(Self { x, y, x_scale, y_scale, dots, best, drawn, colored_by, without, not_positive })
    }

    /// The scale of an axis, `x` or `y`.
    fn scale(&self, axis: &str) -> Option<Scale> {
        if axis == "x" { self.x_scale } else { self.y_scale }
    }

    pub(super) fn is_log(&self, axis: &str) -> bool {
        self.scale(axis).is_some_and(|scale| scale.is_log)
    }

    /// The marks at an axis.
    pub(super) fn marks(&self, axis: &str) -> Vec<Tick> {
        self.scale(axis).map(|scale| scale.ticks()).unwrap_or_default()
    }

    /// The text of a point.
    pub(super) fn title(&self, columns: &Columns<'_>, row: &Row) -> String {
        let text =
            |column: &Column<'_>| columns.collection.value(row, column.path).map(short_value).unwrap_or_default();
        format!("{}: {}, {}", name(row), text(&self.x), text(&self.y))
    }
}

/// The name of a task in the text of a point or a line.
pub(super) fn name(row: &Row) -> Cow<'_, str> {
    show::cut(row.title(), TITLE_CHARS)
}

fn is_log(choice: Option<bool>, numbers: &[f64]) -> bool {
    choice.unwrap_or_else(|| Scale::suits_log(numbers.iter().copied()))
}

pub(super) fn percent(place: f64) -> String {
    without_zeros(&format!("{:.2}", place * 100.0))
}

/// Colours for values that have no order, and the one for all others.
const VALUE_COLORS: [&str; 7] = ["c0", "c1", "c2", "c3", "c4", "c5", "c6"];
const OTHER_COLOR: &str = "cx";
/// Colours for numbers, from the smallest to the largest.
const STEP_COLORS: [&str; 5] = ["s0", "s1", "s2", "s3", "s4"];
/// Characters of a label.
pub(super) const LABEL_CHARS: usize = 24;

/// A colour with its meaning.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Class {
    pub(super) css: &'static str,
    pub(super) label: String,
    pub(super) count: usize,
}

/// The classes, and the class of each task by its place.
pub(super) struct Classes {
    pub(super) classes: Vec<Class>,
    pub(super) of: Vec<usize>,
}

impl Classes {
    /// Everything in one colour.
    pub(super) fn one(rows: usize) -> Self {
        Self { classes: vec![Class { css: VALUE_COLORS[0], label: String::new(), count: rows }], of: vec![0; rows] }
    }

    /// By the values in a column.
    fn by(collection: &Collection, column: Column<'_>) -> Self {
        let values: Vec<Option<&Value>> =
            collection.rows.iter().map(|row| collection.value(row, column.path)).collect();
        let counts = value_counts(values.iter().flatten().copied());
        if counts.len() > VALUE_COLORS.len() && column.is_numeric() {
            return Self::steps(&values, false);
        }
        Self::few(&values, counts, column.text == "status")
    }

    /// A class for each of the most frequent values.
    fn few(values: &[Option<&Value>], counts: Vec<(usize, &Value)>, is_status: bool) -> Self {
        let counts = most_frequent(counts, VALUE_COLORS.len());
        let css = |number: usize, value: &Value| match Status::parse(&value.text) {
            _ if !is_status => VALUE_COLORS[number],
            status => status.map_or(OTHER_COLOR, Status::as_str),
        };
        let (mut classes, mut places) = (Vec::new(), HashMap::new());
        for (number, (count, value)) in counts.iter().enumerate() {
            classes.push(Class { css: css(number, value), label: short_value(value), count: *count });
            places.insert(value.key(), number);
        }
        let rest = classes.len();
        let class = |value: &Option<&Value>| value.and_then(|value| places.get(&value.key()).copied()).unwrap_or(rest);
        let of: Vec<usize> = values.iter().map(class).collect();
        let others = of.iter().filter(|class| **class == rest).count();
        if others > 0 {
            let is_missing = values.iter().any(Option::is_none) && rest < VALUE_COLORS.len();
            let label = if is_missing { "no value" } else { "others" };
            classes.push(Class { css: OTHER_COLOR, label: label.to_owned(), count: others });
        }
        Self { classes, of }
    }

    /// Five steps with as many tasks each, as far as equal values let them; the strongest colour is for the largest or the smallest.
    pub(super) fn steps(values: &[Option<&Value>], is_smallest_strong: bool) -> Self {
        let mut numbers: Vec<&Value> =
            values.iter().flatten().copied().filter(|value| value.number.is_some()).collect();
        numbers.sort_by(|a, b| a.compare(b));
        let limit_before = |step: usize| numbers.get(numbers.len() * step / STEP_COLORS.len()).copied();
        let mut limits: Vec<&Value> = (1..STEP_COLORS.len()).filter_map(limit_before).collect();
        limits.dedup_by(|a, b| a.compare(b).is_eq());
        limits.retain(|limit| numbers.first().is_some_and(|first| limit.compare(first).is_gt()));
        let none = limits.len() + 1;
        let step = |value: &Value| limits.iter().filter(|limit| value.compare(limit).is_ge()).count();
        let of: Vec<usize> =
            values.iter().map(|value| value.filter(|value| value.number.is_some()).map_or(none, step)).collect();
        let css = |step| STEP_COLORS[step_color(step, none, is_smallest_strong)];
        let mut classes: Vec<Class> =
            (0..none).map(|step| Class { css: css(step), label: step_label(&limits, step), count: 0 }).collect();
        classes.push(Class { css: OTHER_COLOR, label: "no number".to_owned(), count: 0 });
        of.iter().for_each(|class| classes[*class].count += 1);
        Self { classes, of }
    }
}

/// Returns how often each value occurs.
pub(super) fn value_counts<'v>(values: impl Iterator<Item = &'v Value>) -> Vec<(usize, &'v Value)> {
    let mut counts: HashMap<(ValueKind, String), (usize, &Value)> = HashMap::new();
    for value in values {
        counts.entry(value.key()).or_insert((0, value)).0 += 1;
    }
    counts.into_values().collect()
}

/// The values that occur most often, by value.
pub(super) fn most_frequent(mut counts: Vec<(usize, &Value)>, most: usize) -> Vec<(usize, &Value)> {
    counts.sort_by(|a, b| b.0.cmp(&a.0).then_with(|| a.1.compare(b.1)));
    counts.truncate(most);
    counts.sort_by(|a, b| a.1.compare(b.1));
    counts
}

/// The colour of a step among fewer than five.
fn step_color(step: usize, steps: usize, is_smallest_strong: bool) -> usize {
    let last = STEP_COLORS.len() - 1;
    let color = if steps <= 1 { last } else { step * last / (steps - 1) };
    if is_smallest_strong { last - color } else { color }
}

fn step_label(limits: &[&Value], step: usize) -> String {
    match (step.checked_sub(1).and_then(|before| limits.get(before)), limits.get(step)) {
        (None, Some(high)) => format!("below {}", short_value(high)),
        (Some(low), Some(high)) => format!("{} to {}", short_value(low), short_value(high)),
        (Some(low), None) => format!("from {}", short_value(low)),
        (None, None) => "all".to_owned(),
    }
}

/// A value in a legend, at an axis, in the text of a point.
pub(super) fn short_value(value: &Value) -> String {
    show::cut(&value.shown(), LABEL_CHARS).into_owned()
}

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
        let line = |((row, shape), (class, value)): ((&'c Row, String), (usize, Option<&'c Value>))| {
            let css = classes[class].css;
            Line { css, shape, row, value }
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
        let log = is_log(None, &numbers);
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

    fn values(texts: &[&str]) -> Vec<Value> {
        texts.iter().map(|text| Value::new(ValueKind::Number, text, false)).collect()
    }

    #[test]
    fn steps_have_as_many_numbers_each() {
        let numbers: Vec<String> = (0..100).map(|number| number.to_string()).collect();
        let numbers = values(&numbers.iter().map(String::as_str).collect::<Vec<_>>());
        let mut all: Vec<Option<&Value>> = numbers.iter().map(Some).collect();
        all.push(None);
        let classes = Classes::steps(&all, false);
        assert_eq!(classes.classes.iter().map(|class| class.count).collect::<Vec<_>>(), [20, 20, 20, 20, 20, 1]);
        assert_eq!((classes.of[0], classes.of[99], classes.of[100]), (0, 4, 5));
        assert_eq!(classes.classes[1].label, "20 to 40");
    }

    #[test]
    fn equal_numbers_are_one_step() {
        let numbers = values(&["7"; 9]);
        let classes = Classes::steps(&numbers.iter().map(Some).collect::<Vec<_>>(), false);
        assert_eq!((classes.classes[0].count, classes.classes[0].label.as_str()), (9, "all"));
    }
}

#[cfg(test)]
mod parallel_tests {
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
