//! The scatter: one number against another. Places are in percent, so that the chart fits every width. And the colours of points and
//! lines: a class for each of a few values, or five steps over many numbers.

use std::collections::HashMap;
use std::fmt::Write as _;

use taskqueue_core::status::Status;

use super::collection::{Collection, PathIndex, Row};
use super::columns::{Column, Columns};
use super::value::{Value, ValueKind};
use super::view::{ScaleChoice, View};
use crate::show;
use crate::show::scale::{Scale, without_zeros};

/// Points that are links of their own. More are drawn as one shape for each colour.
const LINKED_POINTS: usize = 2_000;
/// Characters of a name in the text of a point.
pub(super) const TITLE_CHARS: usize = 40;

/// A mark at an axis, in percent.
#[derive(Clone)]
pub(super) struct Mark {
    pub(super) at: String,
    pub(super) label: String,
}

pub(super) struct Point {
    pub(super) x: String,
    pub(super) y: String,
    pub(super) id: String,
    pub(super) title: String,
}

pub(super) struct Dots {
    pub(super) class: Class,
    pub(super) points: Vec<Point>,
    /// All points as one shape, in a box of 2000 by 1000; empty if they are links.
    pub(super) shape: String,
}

pub(super) struct Scatter {
    pub(super) x: Column,
    pub(super) y: Column,
    pub(super) x_is_log: bool,
    pub(super) y_is_log: bool,
    pub(super) x_marks: Vec<Mark>,
    pub(super) y_marks: Vec<Mark>,
    pub(super) dots: Vec<Dots>,
    /// The best point, with its value.
    pub(super) best: Option<(Point, String)>,
    pub(super) drawn: usize,
    pub(super) colored_by: Option<String>,
    /// What is not drawn, and why.
    pub(super) notes: Vec<String>,
}

/// The columns of the two axes, as far as there are some with numbers.
pub(super) fn axis_columns(columns: &Columns<'_>, view: &View) -> (Option<Column>, Option<Column>) {
    let y = columns.target.clone();
    let is_other = |column: &&Column| column.is_numeric && y.as_ref().is_none_or(|y| y.path != column.path);
    let x = match &view.x {
        Some(path) => columns.column(&path.text).filter(|column| column.is_numeric),
        None => columns.main_arg().or_else(|| columns.shown.iter().find(is_other)),
    };
    let x = x.cloned();
    (x, y)
}

impl Scatter {
    /// None without two columns of numbers.
    pub(super) fn new(columns: &Columns<'_>, view: &View) -> Option<Self> {
        let (Some(x), Some(y)) = axis_columns(columns, view) else { return None };
        let rows: Vec<&Row> = columns.collection.rows.iter().collect();
        let number = |row: &Row, column: &Column| columns.number(row, column.path).and_then(Value::approximate);
        let numbers = |column: &Column| rows.iter().filter_map(|row| number(row, column)).collect::<Vec<f64>>();
        let (x_is_log, y_is_log) = (is_log(view.x_scale, &numbers(&x)), is_log(view.y_scale, &numbers(&y)));
        let (x_scale, y_scale) =
            (Scale::over(numbers(&x).into_iter(), x_is_log), Scale::over(numbers(&y).into_iter(), y_is_log));
        let color = color_column(columns, view);
        let classes = color
            .as_ref()
            .map_or_else(|| Classes::one(rows.len()), |color| Classes::by(columns.collection, &rows, color.path));
        let mut placed = Vec::new();
        let (mut without, mut not_positive) = (0, 0);
        for (row, class) in rows.iter().zip(&classes.of) {
            let (Some(x_value), Some(y_value)) = (number(row, &x), number(row, &y)) else {
                without += 1;
                continue;
            };
            match (x_scale.and_then(|scale| scale.place(x_value)), y_scale.and_then(|scale| scale.place(y_value))) {
                (Some(x), Some(y)) => placed.push((*row, *class, x, 1.0 - y)),
                _ => not_positive += 1,
            }
        }
        let notes = scatter_notes(&x, &y, without, not_positive, placed.len());
        Some(Self {
            x_marks: axis_marks(x_scale, false),
            y_marks: axis_marks(y_scale, true),
            dots: dots(columns, &classes, &placed, &x, &y),
            best: best_point(columns, &placed, &x, &y),
            drawn: placed.len(),
            colored_by: color.map(|color| color.text),
            x,
            y,
            x_is_log,
            y_is_log,
            notes,
        })
    }
}

pub(super) fn is_log(choice: ScaleChoice, numbers: &[f64]) -> bool {
    match choice {
        ScaleChoice::Log => true,
        ScaleChoice::Linear => false,
        ScaleChoice::Auto => Scale::suits_log(numbers.iter().copied()),
    }
}

/// Returns by what points are coloured: what the address says, else the state where there are several.
fn color_column(columns: &Columns<'_>, view: &View) -> Option<Column> {
    let column = match &view.color {
        Some(path) => columns.column(&path.text),
        None => columns.column("status").filter(|column| column.differs),
    };
    column.cloned()
}

type Placed<'p> = (&'p Row, usize, f64, f64);

fn dots(columns: &Columns<'_>, classes: &Classes, placed: &[Placed<'_>], x: &Column, y: &Column) -> Vec<Dots> {
    let is_linked = placed.len() <= LINKED_POINTS;
    let mut all: Vec<Dots> = classes
        .classes
        .iter()
        .map(|class| Dots { class: Class { count: 0, ..class.clone() }, points: Vec::new(), shape: String::new() })
        .collect();
    for (row, class, at_x, at_y) in placed {
        let dots = &mut all[*class];
        dots.class.count += 1;
        if is_linked {
            dots.points.push(point(columns, row, x, y, (*at_x, *at_y)));
        } else {
            let _ = write!(dots.shape, "M{:.0} {:.0}h0", at_x * 2_000.0, at_y * 1_000.0);
        }
    }
    all.retain(|dots| dots.class.count > 0);
    all
}

fn point(columns: &Columns<'_>, row: &Row, x: &Column, y: &Column, (at_x, at_y): (f64, f64)) -> Point {
    let text = |column: &Column| columns.collection.value(row, column.path).map(short_value).unwrap_or_default();
    let name = show::cut(row.title(), TITLE_CHARS);
    Point {
        x: percent(at_x),
        y: percent(at_y),
        id: row.id.to_string(),
        title: format!("{name}: {}, {}", text(x), text(y)),
    }
}

fn best_point(columns: &Columns<'_>, placed: &[Placed<'_>], x: &Column, y: &Column) -> Option<(Point, String)> {
    let better = y.better?;
    let with_value = placed.iter().filter_map(|placed| Some((placed, columns.number(placed.0, y.path)?)));
    let (placed, value) =
        with_value.reduce(|best, other| if better.prefers(other.1, best.1) { other } else { best })?;
    let point = point(columns, placed.0, x, y, (placed.2, placed.3));
    let title = show::cut(placed.0.title(), TITLE_CHARS).into_owned();
    Some((Point { title, ..point }, super::table::shown(y, value).0))
}

fn scatter_notes(x: &Column, y: &Column, without: usize, not_positive: usize, drawn: usize) -> Vec<String> {
    let tasks = |count: usize| show::count(count as u64, "task");
    let mut notes = Vec::new();
    if without > 0 {
        notes.push(format!("{} without a number at {} or {}: not drawn.", tasks(without), x.text, y.text));
    }
    if not_positive > 0 {
        notes.push(format!("{} at zero or below: a logarithmic scale has no place for them.", tasks(not_positive)));
    }
    if drawn > LINKED_POINTS {
        notes.push(format!(
            "More than {} points: these are no links. The table has them all.",
            show::number(LINKED_POINTS as u64)
        ));
    }
    notes
}

fn axis_marks(scale: Option<Scale>, is_upwards: bool) -> Vec<Mark> {
    let ticks = scale.map(|scale| scale.ticks()).unwrap_or_default();
    let at = |at: f64| percent(if is_upwards { 1.0 - at } else { at });
    ticks.into_iter().map(|tick| Mark { at: at(tick.at), label: tick.label }).collect()
}

pub(super) fn percent(place: f64) -> String {
    without_zeros(&format!("{:.2}", place * 100.0))
}

/// Colours for values that have no order, and the one for all others.
const VALUE_COLORS: [&str; 7] = ["c0", "c1", "c2", "c3", "c4", "c5", "c6"];
const OTHER_COLOR: &str = "cx";
/// Colours for numbers, from the smallest to the largest.
pub(super) const STEP_COLORS: [&str; 5] = ["s0", "s1", "s2", "s3", "s4"];
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

    /// By the values at a path.
    pub(super) fn by(collection: &Collection, rows: &[&Row], path: PathIndex) -> Self {
        let values: Vec<Option<&Value>> = rows.iter().map(|row| collection.value(row, path)).collect();
        let is_status = collection.paths[path as usize] == "status";
        let counts = value_counts(values.iter().flatten().copied());
        let numbers = values.iter().flatten().filter(|value| value.number.is_some()).count();
        if counts.len() > VALUE_COLORS.len() && numbers * 2 > values.iter().flatten().count() {
            return Self::steps(&values);
        }
        Self::few(&values, counts, is_status)
    }

    /// A class for each of the most frequent values.
    fn few(values: &[Option<&Value>], counts: Vec<(usize, &Value)>, is_status: bool) -> Self {
        let counts = most_frequent(counts, VALUE_COLORS.len());
        let css = |number: usize, value: &Value| match Status::parse(&value.text) {
            _ if !is_status => VALUE_COLORS[number],
            status => status.map_or(OTHER_COLOR, Status::as_str),
        };
        let mut classes: Vec<Class> = counts
            .iter()
            .enumerate()
            .map(|(number, (count, value))| Class { css: css(number, value), label: short_value(value), count: *count })
            .collect();
        let places: HashMap<(ValueKind, String), usize> =
            counts.iter().enumerate().map(|(place, (_, value))| (value.key(), place)).collect();
        let rest = classes.len();
        let of: Vec<usize> = values
            .iter()
            .map(|value| value.and_then(|value| places.get(&value.key()).copied()).unwrap_or(rest))
            .collect();
        let others = of.iter().filter(|class| **class == rest).count();
        if others > 0 {
            let label = if values.iter().any(Option::is_none) && counts.len() < VALUE_COLORS.len() {
                "no value"
            } else {
                "others"
            };
            classes.push(Class { css: OTHER_COLOR, label: label.to_owned(), count: others });
        }
        Self { classes, of }
    }

    /// Five steps with as many tasks each, as far as equal values let them.
    pub(super) fn steps(values: &[Option<&Value>]) -> Self {
        let mut numbers: Vec<&Value> =
            values.iter().flatten().copied().filter(|value| value.number.is_some()).collect();
        numbers.sort_by(|a, b| a.compare(b));
        let mut limits: Vec<&Value> = (1..STEP_COLORS.len())
            .filter_map(|step| numbers.get(numbers.len() * step / STEP_COLORS.len()).copied())
            .collect();
        limits.dedup_by(|a, b| a.compare(b).is_eq());
        limits.retain(|limit| numbers.first().is_some_and(|first| limit.compare(first).is_gt()));
        let none = limits.len() + 1;
        let step = |value: &&Value| limits.iter().filter(|limit| value.compare(limit).is_ge()).count();
        let number = |value: &Value| value.number.is_some();
        let of: Vec<usize> =
            values.iter().map(|value| value.filter(|value| number(value)).map_or(none, |value| step(&value))).collect();
        let mut classes: Vec<Class> = (0..none)
            .map(|step| Class { css: step_color(step, none), label: step_label(&limits, step), count: 0 })
            .collect();
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
fn step_color(step: usize, steps: usize) -> &'static str {
    let last = STEP_COLORS.len() - 1;
    STEP_COLORS[if steps <= 1 { last } else { step * last / (steps - 1) }]
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
        let classes = Classes::steps(&all);
        assert_eq!(classes.classes.iter().map(|class| class.count).collect::<Vec<_>>(), [20, 20, 20, 20, 20, 1]);
        assert_eq!((classes.of[0], classes.of[99], classes.of[100]), (0, 4, 5));
        assert_eq!(classes.classes[1].label, "20 to 40");
    }

    #[test]
    fn equal_numbers_are_one_step() {
        let numbers = values(&["7"; 9]);
        let classes = Classes::steps(&numbers.iter().map(Some).collect::<Vec<_>>());
        assert_eq!((classes.classes[0].count, classes.classes[0].label.as_str()), (9, "all"));
    }
}
