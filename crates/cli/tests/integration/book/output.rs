//! Comparing what a page shows with what a command printed. A line `...` stands for any lines and `...` in a line for any text.
//! Ids, times and durations need not be the same; an id that a page shows is bound to the one that came, for the commands
//! behind it.

use std::collections::{BTreeMap, BTreeSet};

/// The ids of the page, each with the real one.
pub(crate) type Ids = BTreeMap<String, String>;

/// What came on standard output and on standard error: which of two lines came first is not known.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Printed<'a> {
    pub(crate) out: &'a str,
    pub(crate) err: &'a str,
}

/// Whether the shown lines are what was printed; with `is_prefix` more may follow. Binds ids if so.
pub(crate) fn matches(shown: &[&str], printed: Printed<'_>, is_prefix: bool, ids: &mut Ids) -> bool {
    let lines = |text: &'_ str| text.trim_end().lines().map(str::to_owned).collect();
    let mut search =
        Search { shown, out: lines(printed.out), err: lines(printed.err), is_prefix, hopeless: BTreeSet::new() };
    let found = search.from(Place::default(), &with_derived_ids(shown, printed, ids));
    if let Some(bound) = found {
        *ids = bound;
        return true;
    }
    false
}

/// Ids that are derived from the values of a task are the same each time: what is printed as it is shown stands for itself.
fn with_derived_ids(shown: &[&str], printed: Printed<'_>, ids: &Ids) -> Ids {
    let derived = shown.iter().flat_map(|line| Shape::of(line).ids);
    let derived = derived.filter(|id| !ids.contains_key(id) && (printed.out.contains(id) || printed.err.contains(id)));
    derived.map(|id| (id.clone(), id)).chain(ids.clone()).collect()
}

/// How many lines of each are used up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    shown: usize,
    out: usize,
    err: usize,
}

impl Place {
    fn next_out(self) -> Self {
        Self { out: self.out + 1, ..self }
    }

    fn next_err(self) -> Self {
        Self { err: self.err + 1, ..self }
    }

    fn next_shown(self) -> Self {
        Self { shown: self.shown + 1, ..self }
    }
}

struct Search<'a> {
    shown: &'a [&'a str],
    out: Vec<String>,
    err: Vec<String>,
    is_prefix: bool,
    hopeless: BTreeSet<Place>,
}

impl Search<'_> {
    fn from(&mut self, place: Place, ids: &Ids) -> Option<Ids> {
        if self.hopeless.contains(&place) {
            return None;
        }
        let found = match self.shown.get(place.shown).map(|line| line.trim()) {
            None => {
                let is_end = place.out == self.out.len() && place.err == self.err.len();
                (is_end || self.is_prefix).then(|| ids.clone())
            }
            Some("...") => {
                let more_out = (place.out < self.out.len()).then(|| place.next_out());
                let more_err = (place.err < self.err.len()).then(|| place.next_err());
                let ways = [Some(place.next_shown()), more_out, more_err];
                ways.into_iter().flatten().find_map(|next| self.from(next, ids))
            }
            Some(line) => {
                let out = self.out.get(place.out).and_then(|printed| line_matches(line, printed, ids));
                let err = self.err.get(place.err).and_then(|printed| line_matches(line, printed, ids));
                let out = out.and_then(|bound| self.from(place.next_shown().next_out(), &bound));
                out.or_else(|| self.from(place.next_shown().next_err(), &err?))
            }
        };
        if found.is_none() {
            self.hopeless.insert(place);
        }
        found
    }
}

/// The ids with those of the line, if it is the one that is shown.
fn line_matches(shown: &str, printed: &str, ids: &Ids) -> Option<Ids> {
    let (shown, printed) = (Shape::of(shown), Shape::of(printed));
    if !is_glob_match(&shown.text, &printed.text) {
        return None;
    }
    // Behind a gap nobody knows which id is which.
    let before_gap = shown.text.split("...").next().unwrap_or_default().matches(ID).count();
    let mut bound = ids.clone();
    let mut pairs = shown.ids.into_iter().zip(printed.ids).take(before_gap);
    pairs.all(|(shown, real)| *bound.entry(shown).or_insert_with(|| real.clone()) == real).then_some(bound)
}

fn is_glob_match(pattern: &str, text: &str) -> bool {
    match pattern.split_once("...") {
        None => pattern == text,
        Some((before, behind)) => text.strip_prefix(before).is_some_and(|rest| {
            let ends = rest.char_indices().map(|(at, _)| at).chain([rest.len()]);
            ends.into_iter().any(|at| is_glob_match(behind, &rest[at..]))
        }),
    }
}

/// Puts the real ids into a command.
pub(crate) fn with_real_ids(command: &str, ids: &Ids) -> String {
    ids.iter().fold(command.to_owned(), |command, (shown, real)| command.replace(shown, real))
}

const ID: &str = "<id>";

/// A line without what differs each time.
#[derive(Debug, Default)]
struct Shape {
    text: String,
    ids: Vec<String>,
}

impl Shape {
    fn of(line: &str) -> Self {
        let mut shape = Self::default();
        let words: Vec<&str> = line.split_whitespace().collect();
        let mut at = 0;
        while at < words.len() {
            let used = duration_words(&words[at..]);
            let is_repeated = shape.text.ends_with("<time> ") && used > 0;
            if used > 0 && !is_repeated {
                shape.text.push_str("<time> ");
            } else if used == 0 {
                shape.word(words[at]);
                shape.text.push(' ');
            }
            at += used.max(1);
        }
        shape.text.truncate(shape.text.trim_end().len());
        shape
    }

    /// A word with its ids and timestamps replaced.
    fn word(&mut self, word: &str) {
        let mut rest = word;
        while let Some(first) = rest.chars().next() {
            let is_inside = self.text.ends_with(|c: char| c.is_ascii_alphanumeric());
            if let Some(id) = rest.get(..14).filter(|text| !is_inside && is_id(text)) {
                self.ids.push(id.to_owned());
                self.text.push_str(ID);
                rest = &rest[14..];
            } else if let Some(end) = timestamp_end(rest).filter(|_| !is_inside) {
                self.text.push_str("<time>");
                rest = &rest[end..];
            } else {
                self.text.push(first);
                rest = &rest[first.len_utf8()..];
            }
        }
    }
}

fn is_id(text: &str) -> bool {
    let (kind, rest) = text.split_at(2);
    ["t_", "r_", "w_"].contains(&kind) && rest.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte))
}

/// `2026-01-02T03:04:05.678901Z`, with any number of digits behind the second.
fn timestamp_end(text: &str) -> Option<usize> {
    let (date, time) = (text.get(..11)?, text.get(11..)?);
    let is_date = date.bytes().enumerate().all(|(at, byte)| match at {
        4 | 7 => byte == b'-',
        10 => byte == b'T',
        _ => byte.is_ascii_digit(),
    });
    let end =
        time.find('Z').filter(|end| time[..*end].bytes().all(|byte| byte.is_ascii_digit() || b":.".contains(&byte)))?;
    is_date.then_some(11 + end + 1)
}

/// How many of the first words say how long something took or when it was: `now`, `1s ago`, `12 min`, `0.02 s`.
fn duration_words(words: &[&str]) -> usize {
    const UNITS: &[&str] = &["ms", "s", "m", "min", "h", "d"];
    let bare = |word: &str| word.trim_matches(['(', ')', ',', ':', ';', '.']).to_owned();
    let Some(first) = words.first().map(|word| bare(word)) else { return 0 };
    let number = first.trim_end_matches(|c: char| c.is_ascii_lowercase());
    let is_number = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    let (unit, second) = (&first[number.len()..], words.get(1).map(|word| bare(word)));
    let is_unit = |word: &str| UNITS.contains(&word);
    match (is_number, unit) {
        (false, "now") => 1,
        (true, unit) if is_unit(unit) => 1 + usize::from(second.as_deref() == Some("ago")),
        (true, "") if second.as_deref().is_some_and(is_unit) => 2,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn compare(shown: &str, printed: &str, is_prefix: bool) -> Option<Ids> {
        let mut ids = Ids::new();
        let (out, err) = printed.split_once('|').unwrap_or((printed, ""));
        let shown: Vec<&str> = shown.lines().collect();
        matches(&shown, Printed { out, err }, is_prefix, &mut ids).then_some(ids)
    }

    #[test]
    fn times_ids_and_gaps_may_differ_and_nothing_else() {
        let table: [(&[(&str, &str)], bool); 9] = [
            (&[("a b", "a   b"), ("...\nb\n...", "a\nb\nc"), ("after 12 min 4 s", "after 0.02 s")], true),
            (&[("x  now  end", "x  3s ago  end"), ("t_aaaaaaaaaaaa created", "t_bbbbbbbbbbb- created")], true),
            (&[("at 2026-01-02T03:04:05Z", "at 2026-02-02T03:04:05.123456Z")], true),
            (&[("\"id\":\"r_aaaaaaaaaaaa\"}", "\"id\":\"r_bbbbbbbbbbbb\"}")], true),
            (&[("folder ... end", "folder a b c end"), ("e1\no1\ne2\no2", "o1\no2|e1\ne2")], true),
            (&[("o1\n...\ne2", "o1\no2|e1\ne2")], true),
            (&[("a b", "a c"), ("a", "a\nb"), ("...\nd", "a\nb"), ("3 tasks", "4 tasks")], false),
            (&[("t_aaaaaaaaaaaa created", "t_short created"), ("folder ... end", "folder a b c")], false),
            (&[("e1\no2\no1\ne2", "o1\no2|e1\ne2")], false),
        ];
        for (pairs, expected) in table {
            for (shown, printed) in pairs {
                assert_eq!(compare(shown, printed, false).is_some(), expected, "{shown:?} and {printed:?}");
            }
        }
        assert!(compare("a", "a\nb", true).is_some());
        assert!(compare("a\nb", "a", true).is_none());
    }

    #[test]
    fn an_id_stands_for_the_same_one_everywhere() {
        let ids = compare("t_aaaaaaaaaaaa x\nt_cccccccccccc", "t_bbbbbbbbbbbb x\nt_dddddddddddd", false).unwrap();
        assert_eq!(with_real_ids("get t_aaaaaaaaaaaa", &ids), "get t_bbbbbbbbbbbb");
        assert!(compare("t_aaaaaaaaaaaa\nt_aaaaaaaaaaaa", "t_bbbbbbbbbbbb\nt_dddddddddddd", false).is_none());
    }
}
