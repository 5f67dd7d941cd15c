//! What both kinds of plots share: a frame with a title and axes, and the few SVG elements in it. No plotting library:
//! a plot is some thirty lines of text. Colours are readable on white and differ without red and green.

use std::fmt::Write;

/// The size of every plot, and the frame inside it in which values stand.
pub(super) const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 400.0;
pub(super) const LEFT: f64 = 80.0;
pub(super) const RIGHT: f64 = 520.0;
pub(super) const TOP: f64 = 50.0;
pub(super) const BOTTOM: f64 = 340.0;

/// Blue, orange, green, purple, sky and grey of the palette by Okabe and Ito.
const COLOURS: [&str; 6] = ["#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#777777"];

/// The colour of the series or part with this number.
pub(super) fn colour(index: usize) -> &'static str {
    COLOURS[index % COLOURS.len()]
}

/// An SVG document under construction.
pub(super) struct Canvas(String);

impl Canvas {
    /// A white page with a title and the names of both axes.
    pub(super) fn new(title: &str, x_name: &str, y_name: &str) -> Self {
        let mut canvas = Self(format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" font-family=\"sans-serif\" font-size=\"12\">\n\
             <rect width=\"{WIDTH}\" height=\"{HEIGHT}\" fill=\"white\"/>\n"
        ));
        let title = escape(title);
        canvas.push(format_args!("<text x=\"{LEFT}\" y=\"22\" font-size=\"15\" font-weight=\"bold\">{title}</text>"));
        canvas.text((f64::midpoint(LEFT, RIGHT), BOTTOM + 42.0), "middle", x_name);
        canvas.text((LEFT, TOP - 10.0), "middle", y_name);
        canvas
    }

    /// The frame: its left and lower edge.
    pub(super) fn edges(&mut self) {
        self.push(format_args!(
            "<path d=\"M{LEFT} {TOP}V{BOTTOM}H{RIGHT}\" fill=\"none\" stroke=\"black\" stroke-width=\"1\"/>"
        ));
    }

    /// A line of the grid at a height, with its value on the left.
    pub(super) fn grid(&mut self, y: f64, value: f64) {
        self.push(format_args!("<path d=\"M{LEFT} {y:.1}H{RIGHT}\" stroke=\"#dddddd\" stroke-width=\"1\"/>"));
        self.text((LEFT - 8.0, y + 4.0), "end", &number(value));
    }

    /// A line through points, with a dot on each.
    pub(super) fn line(&mut self, points: &[(f64, f64)], colour: &str) {
        let path: Vec<String> = points.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
        let path = path.join(" ");
        self.push(format_args!("<polyline points=\"{path}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"/>"));
        for (x, y) in points {
            self.push(format_args!("<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3.5\" fill=\"{colour}\"/>"));
        }
    }

    pub(super) fn rectangle(&mut self, (x, y): (f64, f64), (width, height): (f64, f64), colour: &str) {
        self.push(format_args!(
            "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" fill=\"{colour}\"/>"
        ));
    }

    /// A line of the legend, on the right of the frame.
    pub(super) fn legend(&mut self, index: usize, name: &str) {
        let y = TOP + 20.0 * index as f64;
        self.rectangle((RIGHT + 16.0, y - 9.0), (12.0, 12.0), colour(index));
        self.text((RIGHT + 34.0, y + 1.0), "start", name);
    }

    pub(super) fn text(&mut self, (x, y): (f64, f64), anchor: &str, text: &str) {
        let text = escape(text);
        self.push(format_args!("<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{text}</text>"));
    }

    /// A small text in the middle of its place, for names that stand close to each other.
    pub(super) fn small_text(&mut self, (x, y): (f64, f64), text: &str) {
        let text = escape(text);
        self.push(format_args!(
            "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"middle\" font-size=\"10\">{text}</text>"
        ));
    }

    pub(super) fn finish(mut self) -> String {
        self.0.push_str("</svg>\n");
        self.0
    }

    fn push(&mut self, element: std::fmt::Arguments<'_>) {
        // Writing to a string does not fail.
        let _ = writeln!(self.0, "{element}");
    }
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// A short text: 1,000 as 1k, a million as 1M.
pub(super) fn number(value: f64) -> String {
    let (value, unit) = match value.abs() {
        size if size >= 1e6 => (value / 1e6, "M"),
        size if size >= 1e3 => (value / 1e3, "k"),
        _ => (value, ""),
    };
    let digits = format!("{value:.3}");
    format!("{}{unit}", digits.trim_end_matches('0').trim_end_matches('.'))
}

/// Round values from 0 to above the largest, at which the grid has its lines: four to eight of them.
pub(super) fn ticks(largest: f64) -> Vec<f64> {
    let largest = if largest > 0.0 && largest.is_finite() { largest } else { 1.0 };
    let power = 10_f64.powf(largest.log10().floor());
    let step = [0.2, 0.25, 0.5, 1.0, 2.0].map(|step| step * power).into_iter().find(|step| largest / step <= 7.0);
    let step = step.unwrap_or(power);
    let lines = (largest / step).ceil() as u32;
    (0..=lines).map(|line| f64::from(line) * step).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short() {
        let cases =
            [(0.0, "0"), (0.25, "0.25"), (16.0, "16"), (1000.0, "1k"), (12_500.0, "12.5k"), (1_000_000.0, "1M")];
        for (value, text) in cases {
            assert_eq!(number(value), text);
        }
    }

    #[test]
    fn the_grid_begins_at_zero_and_covers_the_largest_value() {
        for largest in [0.0, 0.03, 0.7, 1.0, 6.9, 64_000.0, 130_000.0, 1e6] {
            let ticks = ticks(largest);
            assert!(ticks.first() == Some(&0.0) && ticks.last().unwrap() >= &largest, "{largest}: {ticks:?}");
            assert!((4..=9).contains(&ticks.len()), "{largest}: {ticks:?}");
        }
    }

    #[test]
    fn texts_cannot_break_the_document() {
        let mut canvas = Canvas::new("a < b & c", "", "");
        canvas.text((1.0, 2.0), "end", "<script>");
        let document = canvas.finish();
        assert!(document.contains("a &lt; b &amp; c") && !document.contains("<script>"), "{document}");
        assert!(document.starts_with("<svg ") && document.ends_with("</svg>\n"));
    }
}
