//! A plot of lines over a logarithmic axis: connections or pending tasks, each with its own mark where a value was
//! measured. The other axis begins at 0, so that a slope is not mistaken for a wall.

use super::canvas::{BOTTOM, Canvas, LEFT, RIGHT, TOP, colour, number, ticks};

/// A line: its name, and values by number of connections or tasks.
pub(crate) struct Series {
    pub(crate) name: String,
    pub(crate) points: Vec<(f64, f64)>,
}

pub(crate) fn render(title: &str, x_name: &str, y_name: &str, series: &[Series]) -> String {
    let points = || series.iter().flat_map(|series| &series.points);
    let largest = points().map(|(_, y)| *y).fold(0.0, f64::max);
    let marks = ticks(largest);
    let top = marks.last().copied().unwrap_or(1.0);
    let mut places: Vec<f64> = points().map(|(x, _)| *x).collect();
    places.sort_by(f64::total_cmp);
    places.dedup();
    let (first, last) = (places.first().copied().unwrap_or(1.0), places.last().copied().unwrap_or(10.0));
    let x_of = |x: f64| match first < last {
        true => LEFT + (RIGHT - LEFT) * (0.04 + 0.92 * (x / first).ln() / (last / first).ln()),
        false => f64::midpoint(LEFT, RIGHT),
    };
    let y_of = |y: f64| BOTTOM - (BOTTOM - TOP) * y / top;

    let mut canvas = Canvas::new(title, x_name, y_name);
    marks.iter().for_each(|mark| canvas.grid(y_of(*mark), *mark));
    canvas.edges();
    for place in places {
        canvas.text((x_of(place), BOTTOM + 20.0), "middle", &number(place));
    }
    for (index, Series { name, points }) in series.iter().enumerate() {
        let points: Vec<(f64, f64)> = points.iter().map(|(x, y)| (x_of(*x), y_of(*y))).collect();
        canvas.line(&points, colour(index));
        canvas.legend(index, name);
    }
    canvas.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tenfold_steps_are_equally_wide() {
        let points = vec![(1.0, 0.0), (10.0, 5.0), (100.0, 10.0)];
        let plot = render("t", "x", "y", &[Series { name: "ours".into(), points }]);
        // The middle of the axis, and the middle of the height below the uppermost line of the grid at 10.
        assert!(plot.contains("cx=\"300.0\" cy=\"195.0\""), "{plot}");
        assert!(plot.contains(">1</text>") && plot.contains(">100</text>") && plot.contains(">ours</text>"), "{plot}");
    }

    #[test]
    fn a_single_point_stands_in_the_middle() {
        let plot = render("t", "x", "y", &[Series { name: "one".into(), points: vec![(7.0, 1.0)] }]);
        assert!(plot.contains("cx=\"300.0\""), "{plot}");
        assert!(!render("t", "x", "y", &[]).contains("NaN"));
    }
}
