//! A plot of stacked bars: what a whole is made of, part by part.

use super::canvas::{BOTTOM, Canvas, LEFT, RIGHT, TOP, colour, number, ticks};

/// One bar: its name, and the size of each part from the bottom up.
pub(crate) struct Bar {
    /// Below the bar, line by line.
    pub(crate) name: [String; 2],
    /// In the order of the legend; what is below 0 (noise) takes no room.
    pub(crate) parts: Vec<f64>,
}

/// Renders a plot; `parts` are the names of the parts.
pub(crate) fn render(title: &str, y_name: &str, parts: &[&str], bars: &[Bar]) -> String {
    let whole = |bar: &Bar| bar.parts.iter().map(|part| part.max(0.0)).sum::<f64>();
    let marks = ticks(bars.iter().map(whole).fold(0.0, f64::max));
    let top = marks.last().copied().unwrap_or(1.0);
    let y_of = |y: f64| BOTTOM - (BOTTOM - TOP) * y / top;

    let mut canvas = Canvas::new(title, "", y_name);
    marks.iter().for_each(|mark| canvas.grid(y_of(*mark), *mark));
    let step = (RIGHT - LEFT) / bars.len().max(1) as f64;
    let width = (step * 0.6).min(90.0);
    for (index, bar) in bars.iter().enumerate() {
        let middle = LEFT + step * (index as f64 + 0.5);
        let mut below = 0.0;
        for (part, size) in bar.parts.iter().enumerate() {
            let above = below + size.max(0.0);
            canvas.rectangle((middle - width / 2.0, y_of(above)), (width, y_of(below) - y_of(above)), colour(part));
            below = above;
        }
        canvas.text((middle, y_of(below) - 6.0), "middle", &number((below * 10.0).round() / 10.0));
        let [first, second] = &bar.name;
        canvas.small_text((middle, BOTTOM + 18.0), first);
        canvas.small_text((middle, BOTTOM + 32.0), second);
    }
    canvas.edges();
    parts.iter().enumerate().for_each(|(index, name)| canvas.legend(index, name));
    canvas.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_stand_on_each_other() {
        let bars = [Bar { name: ["one".into(), "two".into()], parts: vec![4.0, -0.1, 6.0] }];
        let plot = render("t", "us", &["http", "noise", "disk"], &bars);
        // 290 units are 10: the first part is 116 high and ends where the last begins.
        assert!(plot.contains("y=\"224.0\" width=\"90.0\" height=\"116.0\" fill=\"#0072b2\""), "{plot}");
        assert!(plot.contains("y=\"50.0\" width=\"90.0\" height=\"174.0\" fill=\"#009e73\""), "{plot}");
        assert!(plot.contains(">10</text>") && plot.contains(">disk</text>"), "{plot}");
    }
}
