//! The scatter: one number against another. Places are in percent, so that the chart fits every width.

use std::fmt::Write as _;

use super::classes::{Class, Classes};
use super::collection::Row;
use super::columns::{Better, Column, Columns, numeric_args};
use super::value::Value;
use super::view::{ScaleChoice, View};
use crate::show::{self, chart::Scale};

/// Points that are links of their own. More are drawn as one shape for each colour.
const LINKED_POINTS: usize = 2_000;
/// Characters of a name in the text of a point.
pub(super) const TITLE_CHARS: usize = 40;

/// A mark at an axis, in percent.
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
    pub(super) best: Option<Point>,
    /// The name and the value of the best point.
    pub(super) best_text: Option<(String, String)>,
    pub(super) drawn: usize,
    pub(super) colored_by: Option<String>,
    /// What is not drawn, and why.
    pub(super) notes: Vec<String>,
}

/// The columns of the two axes, as far as there are some with numbers.
pub(super) fn axes(columns: &Columns<'_>, view: &View) -> (Option<Column>, Option<Column>) {
    let y = columns.target.clone();
    let named = view.x.as_ref().and_then(|path| columns.column(path, view)).filter(|column| column.is_numeric);
    let first_arg = || numeric_args(columns).first().map(|path| columns.column_at(*path, view));
    let others = || {
        columns
            .shown
            .iter()
            .find(|column| column.is_numeric && y.as_ref().is_none_or(|y| y.path != column.path))
            .cloned()
    };
    let x = if view.x.is_some() { named } else { first_arg().or_else(others) };
    (x, y)
}

impl Scatter {
    /// None without two columns of numbers.
    pub(super) fn new(columns: &Columns<'_>, view: &View) -> Option<Self> {
        let (Some(x), Some(y)) = axes(columns, view) else { return None };
        let rows: Vec<&Row> = columns.collection.rows.iter().collect();
        let number = |row: &Row, column: &Column| columns.number(row, column.path).and_then(Value::approximate);
        let numbers = |column: &Column| rows.iter().filter_map(|row| number(row, column)).collect::<Vec<f64>>();
        let (x_is_log, y_is_log) = (is_log(view.x_scale, &numbers(&x)), is_log(view.y_scale, &numbers(&y)));
        let (x_scale, y_scale) =
            (Scale::over(numbers(&x).into_iter(), x_is_log), Scale::over(numbers(&y).into_iter(), y_is_log));
        let color = color(columns, view);
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
        let best = best(columns, &placed, &x, &y);
        let notes = notes(&x, &y, without, not_positive, placed.len());
        Some(Self {
            x_marks: marks(x_scale, false),
            y_marks: marks(y_scale, true),
            dots: dots(columns, &classes, &placed, &x, &y),
            best_text: best.as_ref().map(|(point, value)| (point.title.clone(), value.clone())),
            best: best.map(|(point, _)| point),
            drawn: placed.len(),
            colored_by: color.map(|color| color.text),
            x,
            y,
            x_is_log,
            y_is_log,
            notes,
        })
    }

    pub(super) fn better(&self) -> Option<&'static str> {
        self.y.better.map(Better::words)
    }

    pub(super) fn label(&self) -> String {
        format!("Scatter of {} against {}, {}", self.y.text, self.x.text, show::count(self.drawn as u64, "task"))
    }
}

pub(super) fn is_log(choice: ScaleChoice, numbers: &[f64]) -> bool {
    match choice {
        ScaleChoice::Log => true,
        ScaleChoice::Linear => false,
        ScaleChoice::Auto => Scale::suits_log(numbers.iter().copied()),
    }
}

/// By what points are coloured: what the address says, else the state where there are several.
fn color(columns: &Columns<'_>, view: &View) -> Option<Column> {
    match &view.color {
        Some(path) => columns.column(path, view),
        None => {
            let status = columns.collection.path("status")?;
            Some(columns.column_at(status, view)).filter(|column| column.differs)
        }
    }
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
    let text =
        |column: &Column| columns.collection.value(row, column.path).map(super::classes::short).unwrap_or_default();
    let name = show::cut(row.title(), TITLE_CHARS);
    Point {
        x: percent(at_x),
        y: percent(at_y),
        id: row.id.to_string(),
        title: format!("{name}: {}, {}", text(x), text(y)),
    }
}

fn best(columns: &Columns<'_>, placed: &[Placed<'_>], x: &Column, y: &Column) -> Option<(Point, String)> {
    let better = y.better?;
    let with_value = placed.iter().filter_map(|placed| Some((placed, columns.number(placed.0, y.path)?)));
    let (placed, value) =
        with_value.reduce(|best, other| if better.prefers(other.1, best.1) { other } else { best })?;
    let point = point(columns, placed.0, x, y, (placed.2, placed.3));
    let title = show::cut(placed.0.title(), TITLE_CHARS).into_owned();
    Some((Point { title, ..point }, super::table::shown(y, value).0))
}

fn notes(x: &Column, y: &Column, without: usize, not_positive: usize, drawn: usize) -> Vec<String> {
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

fn marks(scale: Option<Scale>, is_upwards: bool) -> Vec<Mark> {
    let ticks = scale.map(|scale| scale.ticks()).unwrap_or_default();
    let at = |at: f64| percent(if is_upwards { 1.0 - at } else { at });
    ticks.into_iter().map(|tick| Mark { at: at(tick.at), label: tick.label }).collect()
}

pub(super) fn percent(place: f64) -> String {
    let text = format!("{:.2}", place * 100.0);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}
