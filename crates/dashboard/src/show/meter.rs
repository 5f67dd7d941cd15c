//! How much of something is used: a small bar. Drawn here, as SVG that holds numbers only; the text beside it says the same.

use std::fmt;

use askama::filters::HtmlSafe;
use taskqueue_core::words::telemetry::Measure;

const WIDTH: f64 = 100.0;
/// From this part on a limit is near.
const NEAR: f64 = 0.9;

/// A used part, from 0 to 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Meter {
    part: f64,
    /// Whether it is bad if everything is used. It is not of processors and workers.
    is_limit: bool,
}

impl Meter {
    /// A part of what may well be used as a whole. Nothing if there is no whole that something could be a part of.
    pub(crate) fn new(used: f64, whole: f64) -> Option<Self> {
        let part = used / whole;
        (whole > 0.0 && part.is_finite() && part >= 0.0).then_some(Self { part: part.min(1.0), is_limit: false })
    }

    /// A part of what must not be used as a whole.
    pub(crate) fn of_limit(used: f64, whole: f64) -> Option<Self> {
        Self::new(used, whole).map(|meter| Self { is_limit: true, ..meter })
    }
}

/// What a meter can be drawn of.
pub(crate) trait Metered {
    fn meter(&self) -> Option<Meter>;
}

impl Metered for Measure {
    fn meter(&self) -> Option<Meter> {
        let meter = Meter::new(self.used, self.whole?);
        meter.map(|meter| Meter { is_limit: self.is_limit, ..meter })
    }
}

impl HtmlSafe for Meter {}

impl fmt::Display for Meter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let class = if self.is_limit && self.part >= NEAR { "used full" } else { "used" };
        let width = (self.part * WIDTH).round();
        write!(
            f,
            r#"<svg class="meter" viewBox="0 0 {WIDTH} 6" preserveAspectRatio="none" aria-hidden="true"><rect class="{class}" width="{width}" height="6"/></svg>"#,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_meter_shows_a_part_of_a_whole_and_nothing_else() {
        let cases =
            [(1.0, 4.0, Some(0.25)), (8.0, 4.0, Some(1.0)), (0.0, 4.0, Some(0.0)), (1.0, 0.0, None), (-1.0, 4.0, None)];
        for (used, whole, part) in cases {
            assert_eq!(Meter::new(used, whole).map(|meter| meter.part), part, "{used} {whole}");
        }
        assert_eq!((Meter::new(f64::NAN, 1.0), Meter::new(f64::INFINITY, 1.0)), (None, None));
        let class = |meter: Option<Meter>| meter.map(|meter| meter.to_string().contains("full"));
        assert!(Meter::new(1.0, 4.0).is_some_and(|meter| meter.to_string().contains(r#"class="used" width="25""#)));
        assert_eq!((class(Meter::new(95.0, 100.0)), class(Meter::of_limit(95.0, 100.0))), (Some(false), Some(true)));
        assert_eq!(class(Meter::of_limit(89.0, 100.0)), Some(false));
        let measure = |is_limit| Measure { text: String::new(), used: 95.0, whole: Some(100.0), is_limit };
        assert_eq!([false, true].map(|is_limit| class(measure(is_limit).meter())), [Some(false), Some(true)]);
    }
}
