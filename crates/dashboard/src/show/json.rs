//! A JSON object as people read it: indented, coloured, with parts that fold. Numbers are shown as they are stored. However large the
//! object, what is shown is bounded; the whole of it has an address of its own.

use std::borrow::Cow;

use taskqueue_core::json::{ParseError, Reader};
use taskqueue_core::terminal::is_bidi_control;
use taskqueue_core::words::{self, number};

use super::Html;

/// Values that are shown of an object, at most.
const NODES: usize = 2_000;
/// Entries that are shown of one container, so that a long list leaves room for what follows it.
const ENTRIES: usize = 500;
/// Bytes of HTML after which nothing more is shown.
const HTML_BYTES: usize = 256 * 1024;
/// Characters that are shown of a string.
const STRING_CHARS: usize = 500;
/// Characters that are shown of a key.
const KEY_CHARS: usize = 200;
/// A container whose text is not longer stands on one line.
const LINE_BYTES: usize = 60;
/// A container with more entries is folded at first.
const OPEN_ENTRIES: usize = 25;
/// Containers deeper than this are folded at first.
const OPEN_DEPTH: usize = 4;

/// An object to be shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct JsonView {
    pub(crate) html: Html,
    /// Whether something of it is not shown.
    pub(crate) is_cut: bool,
    pub(crate) is_empty: bool,
    /// The size of the whole.
    pub(crate) bytes: usize,
}

impl JsonView {
    /// The view of a canonical text.
    pub(crate) fn new(text: &str) -> Self {
        let mut writer = Writer { whole: text, nodes: NODES, bytes: HTML_BYTES, is_cut: false };
        let mut html = Html::default();
        let written = Reader::new(text.as_bytes()).and_then(|mut reader| writer.root(&mut reader, &mut html));
        if written.is_err() {
            // What is stored is JSON. If it ever is not, its text is better than nothing.
            html = Html::default();
            html.text(first_chars(text, STRING_CHARS));
        }
        Self { html, is_cut: writer.is_cut, is_empty: text == "{}", bytes: text.len() }
    }
}

struct Writer<'a> {
    whole: &'a str,
    /// How many values may still be shown.
    nodes: usize,
    /// How many bytes may still be written.
    bytes: usize,
    is_cut: bool,
}

type Written = Result<(), ParseError>;

impl<'a> Writer<'a> {
    fn root(&mut self, reader: &mut Reader<'_>, html: &mut Html) -> Written {
        let Some([open, close]) = brackets(reader) else {
            scalar(html, reader.skip()?, &mut self.is_cut);
            return Ok(());
        };
        let (inside, _) = self.entries(reader, 1)?;
        html.markup("<div>");
        html.markup(open);
        html.markup("</div><div class=\"in\">");
        html.append(&inside);
        html.markup("</div><div>");
        html.markup(close);
        html.markup("</div>");
        Ok(())
    }

    /// The entries of the container that begins here, and how many it has.
    fn entries(&mut self, reader: &mut Reader<'_>, depth: usize) -> Result<(Html, usize), ParseError> {
        let (mut html, mut count, mut shown) = (Html::default(), 0_usize, 0_usize);
        each_entry(reader, |reader, key| {
            count += 1;
            if self.nodes == 0 || self.bytes == 0 || shown == ENTRIES {
                return reader.skip().map(drop);
            }
            if shown > 0 {
                html.markup(",</div>");
            }
            shown += 1;
            html.markup("<div>");
            self.entry(reader, &mut html, (key, depth))
        })?;
        if shown > 0 {
            html.markup("</div>");
        }
        if shown < count {
            self.is_cut = true;
            html.markup("<div class=\"cut\">… ");
            html.text(&number((count - shown) as u64));
            html.markup(if count - shown == 1 { " more entry" } else { " more entries" });
            html.markup("</div>");
        }
        Ok((html, count))
    }

    /// One entry of a container: with its key, unless it is in an array, and how deep it is.
    fn entry(&mut self, reader: &mut Reader<'_>, html: &mut Html, (key, depth): (Option<&str>, usize)) -> Written {
        self.nodes = self.nodes.saturating_sub(1);
        let before = html.bytes();
        match (brackets(reader), short_container(&self.whole[reader.position()..])) {
            (Some(_), Some(text)) => {
                self.key(html, key);
                one_line(html, text)?;
                reader.skip()?;
            }
            (Some(brackets), None) => self.container(reader, html, (key, depth), brackets)?,
            (None, _) => {
                self.key(html, key);
                scalar(html, reader.skip()?, &mut self.is_cut);
            }
        }
        self.bytes = self.bytes.saturating_sub(html.bytes().saturating_sub(before));
        Ok(())
    }

    fn container(
        &mut self,
        reader: &mut Reader<'_>,
        html: &mut Html,
        (key, depth): (Option<&str>, usize),
        [open, close]: [&'static str; 2],
    ) -> Written {
        let (inside, count) = self.entries(reader, depth + 1)?;
        let is_open = count <= OPEN_ENTRIES && depth < OPEN_DEPTH;
        html.markup(if is_open { "<details open><summary data-count=\"" } else { "<details><summary data-count=\"" });
        html.text(&number(count as u64));
        html.markup("\">");
        self.key(html, key);
        html.markup(open);
        html.markup("</summary><div class=\"in\">");
        html.append(&inside);
        html.markup("</div></details>");
        html.markup(close);
        Ok(())
    }

    fn key(&mut self, html: &mut Html, key: Option<&str>) {
        let Some(key) = key else { return };
        let shown = first_chars(key, KEY_CHARS);
        self.is_cut |= shown.len() < key.len();
        write_key(html, shown, shown.len() < key.len());
    }
}

/// The signs around the container that begins here; none if it is no container.
fn brackets(reader: &mut Reader<'_>) -> Option<[&'static str; 2]> {
    match reader.skip_space()? {
        b'{' => Some(["{", "}"]),
        b'[' => Some(["[", "]"]),
        _ => None,
    }
}

/// Reads the entries of the container that begins here, those of an object with their keys.
fn each_entry(reader: &mut Reader<'_>, mut entry: impl FnMut(&mut Reader<'_>, Option<&str>) -> Written) -> Written {
    if reader.skip_space() == Some(b'{') {
        reader.members(|reader, key| entry(reader, Some(key.as_deref().unwrap_or_default())))
    } else {
        reader.items(|reader| entry(reader, None))
    }
}

fn write_key(html: &mut Html, key: &str, is_cut: bool) {
    let mut quoted = Vec::with_capacity(key.len() + 2);
    taskqueue_core::json::write_string(&mut quoted, key);
    html.markup("<span class=\"key\">");
    html.text(&escape_bidi(std::str::from_utf8(&quoted).unwrap_or_default()));
    html.markup(if is_cut { "…</span>: " } else { "</span>: " });
}

/// The container that a text begins with, if it fits on a line and holds no other container.
fn short_container(text: &str) -> Option<&str> {
    // A look at a few bytes, so that a large container is not read twice.
    let line = &text[..text.floor_char_boundary(LINE_BYTES)];
    let end = line.find(['}', ']'])?;
    let value = Reader::new(line.as_bytes()).and_then(|mut reader| reader.skip()).ok()?;
    (value.len() == end + 1).then_some(value)
}

/// A container without containers in it, as `{ "a": 1, "b": 2 }`.
fn one_line(html: &mut Html, text: &str) -> Written {
    let [open, close] = match text.as_bytes() {
        b"{}" => ["{", "}"],
        [b'{', ..] => ["{ ", " }"],
        _ => ["[", "]"],
    };
    html.markup(open);
    let mut separator = "";
    each_entry(&mut Reader::new(text.as_bytes())?, |reader, key| {
        html.markup(std::mem::replace(&mut separator, ", "));
        if let Some(key) = key {
            write_key(html, key, false);
        }
        scalar(html, reader.skip()?, &mut false);
        Ok(())
    })?;
    html.markup(close);
    Ok(())
}

/// A string, number or literal, as it is stored.
fn scalar(html: &mut Html, text: &str, is_cut: &mut bool) {
    let class = match text.as_bytes().first() {
        Some(b'"') => "str",
        Some(b'-' | b'0'..=b'9') => "int",
        _ => "lit",
    };
    let shown = first_chars(text, STRING_CHARS);
    html.span(class, &escape_bidi(shown));
    if shown.len() < text.len() {
        *is_cut = true;
        let more = text[shown.len()..].chars().count() as u64;
        html.span("cut", &format!("… {}", words::count(more, "more character")));
    }
}

/// A JSON text in which characters that change the order of others are written as escapes: it is the same JSON.
pub(crate) fn escape_bidi(text: &str) -> Cow<'_, str> {
    if !text.contains(is_bidi_control) {
        return Cow::Borrowed(text);
    }
    let escaped = |c: char| if is_bidi_control(c) { format!("\\u{:04x}", u32::from(c)) } else { c.to_string() };
    Cow::Owned(text.chars().map(escaped).collect())
}

fn first_chars(text: &str, count: usize) -> &str {
    text.char_indices().nth(count).map_or(text, |(end, _)| &text[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn html(text: &str) -> String {
        JsonView::new(text).html.to_string()
    }

    /// Returns what a reader sees: without the markup.
    fn seen(text: &str) -> String {
        let html = html(text).replace("<div>", "\n");
        let mut out = String::new();
        for piece in html.split('<') {
            out.push_str(piece.split_once('>').map_or(piece, |(_, text)| text));
        }
        out.replace("&quot;", "\"").trim().to_owned()
    }

    #[test]
    fn numbers_are_shown_exactly_as_they_are_stored() {
        let text = r#"{"a":9007199254740993,"b":0.1,"c":1e+300,"d":-0.0,"e":1.0}"#;
        let shown = seen(text);
        for number in ["9007199254740993", "0.1", "1e+300", "-0.0", "1.0"] {
            assert!(shown.contains(&format!(": {number}")), "{shown}");
        }
    }

    #[test]
    fn small_containers_stand_on_one_line_and_large_ones_fold() {
        let shown = html(r#"{"model":{"layers":24,"name":"vit"},"none":{},"some":[1,2]}"#);
        assert!(!shown.contains("details"), "{shown}");
        assert!(seen(r#"{"a":{"b":1}}"#).contains("\"a\": { \"b\": 1 }"));
        let many = format!(r#"{{"list":[{}]}}"#, vec!["100"; 26].join(","));
        assert!(html(&many).contains("<details><summary data-count=\"26\">"), "folded");
        let few = format!(r#"{{"list":[{}]}}"#, vec!["\"a longer one\""; 25].join(","));
        assert!(html(&few).contains("<details open><summary data-count=\"25\">"));
    }

    #[test]
    fn hostile_texts_are_neither_markup_nor_change_the_order_of_others() {
        let text = "{\"<script>\":\"</span><script>alert(1)</script>\",\"rtl\u{202e}\":\"a\u{2066}b\"}";
        let shown = html(text);
        assert!(!shown.contains("<script") && !shown.contains('\u{202e}') && !shown.contains('\u{2066}'), "{shown}");
        assert!(shown.contains("rtl\\u202e") && shown.contains("a\\u2066b"), "{shown}");
    }

    #[test]
    fn however_large_an_object_is_what_is_shown_of_it_is_bounded_and_says_so() {
        let long = format!(r#"{{"a":"{}"}}"#, "x".repeat(1_000_000));
        let view = JsonView::new(&long);
        assert!(view.is_cut && view.html.bytes() < 2_000 && view.bytes == long.len());
        assert!(view.html.to_string().contains("more characters"));
        let many = format!("{{\"a\":[{}]}}", vec!["1"; 500_000].join(","));
        let view = JsonView::new(&many);
        assert!(view.is_cut && view.html.bytes() < HTML_BYTES, "{}", view.html.bytes());
        assert!(view.html.to_string().contains("… 499,500 more entries"));
        let followed = format!("{{\"a\":[{}],\"b\":7}}", vec!["1"; 100_000].join(","));
        assert!(seen(&followed).contains("\"b\": 7"), "a long list leaves room for what follows it");
        let lists = format!("{{\"a\":[{}]}}", vec![format!("[{}]", vec!["100"; 400].join(",")); 100].join(","));
        assert_eq!(html(&lists).matches(">100</span>").count(), NODES - 6, "of all values together no more than this");
        let wide = format!("{{\"a\":[{}]}}", vec![format!("\"{}\"", "é".repeat(499)); 1_000].join(","));
        let view = JsonView::new(&wide);
        assert!(view.is_cut && view.html.bytes() < HTML_BYTES + 10_000, "{}", view.html.bytes());
        let deep = format!("{}1{}", "{\"a\":".repeat(64), "}".repeat(64));
        assert!(!JsonView::new(&deep).is_cut);
    }
}
