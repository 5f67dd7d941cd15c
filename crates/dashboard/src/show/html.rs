//! HTML that is written piece by piece where a template would be too slow or too clumsy. Markup is only what stands in our own code,
//! which the types hold to: texts that come from anywhere else are escaped.

use std::fmt;

use askama::filters::HtmlSafe;

/// A finished piece of HTML, which templates write as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Html(String);

impl Html {
    pub(crate) const fn new() -> Self {
        Self(String::new())
    }

    /// Markup of ours.
    pub(crate) fn markup(&mut self, markup: &'static str) {
        self.0.push_str(markup);
    }

    /// A text, with what HTML would read as markup escaped.
    pub(crate) fn text(&mut self, text: &str) {
        let mut rest = text;
        while let Some(place) = rest.find(['<', '>', '&', '"', '\'']) {
            self.0.push_str(&rest[..place]);
            self.0.push_str(match rest.as_bytes()[place] {
                b'<' => "&lt;",
                b'>' => "&gt;",
                b'&' => "&amp;",
                b'"' => "&quot;",
                _ => "&#39;",
            });
            rest = &rest[place + 1..];
        }
        self.0.push_str(rest);
    }

    pub(crate) fn append(&mut self, other: &Self) {
        self.0.push_str(&other.0);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn bytes(&self) -> usize {
        self.0.len()
    }
}

impl fmt::Display for Html {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Everything in it is ours or was escaped.
impl HtmlSafe for Html {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_cannot_become_markup() {
        let mut html = Html::new();
        html.markup("<b title=\"");
        html.text("\"><script>alert('1 & 2')</script>ü");
        html.markup("\">");
        assert_eq!(
            html.to_string(),
            "<b title=\"&quot;&gt;&lt;script&gt;alert(&#39;1 &amp; 2&#39;)&lt;/script&gt;ü\">"
        );
    }
}
