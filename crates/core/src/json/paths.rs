//! Finds many paths in one canonical text in one pass, for filters with many predicates. The pass reads only as far as
//! needed, and never back, so that any number of paths costs one scan of the text.

use std::cmp::Ordering;

use super::lookup::{Found, Scanner};
use super::strings::JsonStr;

/// A set of paths, in the order in which canonical text holds them: every object before its members, members by key.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Paths {
    steps: Vec<PathKey>,
    /// The steps that paths begin with, by key.
    first: Vec<usize>,
}

/// The last key of a path. The paths that lead through it follow directly after it.
#[derive(Clone, Debug, PartialEq)]
struct PathKey {
    key: String,
    /// The first step after it that does not lead through it.
    end: usize,
    /// The steps directly below it, by key.
    next: Vec<usize>,
}

impl Paths {
    /// These paths, and every path on the way to them. The empty path is the text itself and no part of the set.
    pub fn new<'p>(paths: impl IntoIterator<Item = &'p [String]>) -> Self {
        let on_the_way = |path: &'p [String]| (1..=path.len()).map(move |length| &path[..length]);
        let mut all: Vec<&[String]> = paths.into_iter().flat_map(on_the_way).collect();
        // Keys compare as bytes of UTF-8, which is how canonical text sorts them.
        all.sort_unstable();
        all.dedup();
        let step = |(at, path): (usize, &&[String])| PathKey {
            key: path.last().cloned().unwrap_or_default(),
            end: at + all[at..].partition_point(|other| other.starts_with(path)),
            next: Vec::new(),
        };
        let mut set = Self { steps: all.iter().enumerate().map(step).collect(), first: Vec::new() };
        set.first = set.between(0, set.steps.len());
        for at in 0..set.steps.len() {
            set.steps[at].next = set.between(at + 1, set.steps[at].end);
        }
        set
    }

    /// The steps from `at` to `end` that lead through no other one there.
    fn between(&self, mut at: usize, end: usize) -> Vec<usize> {
        let mut found = Vec::new();
        while at < end {
            found.push(at);
            at = self.steps[at].end;
        }
        found
    }

    /// The place of a path in the set.
    pub fn place(&self, path: &[String]) -> Option<usize> {
        let (mut next, mut found) = (&self.first, None);
        for key in path {
            let place = next.binary_search_by(|step| self.steps[*step].key.as_str().cmp(key)).ok()?;
            found = Some(next[place]);
            next = &self.steps[next[place]].next;
        }
        found
    }
}

/// One pass through the canonical text of an object.
pub struct Pass<'p, 'a> {
    steps: &'p [PathKey],
    scanner: Scanner<'a>,
    /// The values that the first steps lead to: the pass has come this far.
    found: Vec<Option<Found<'a>>>,
    /// For each object that the pass is in, the first step that does not lead through it. Empty before the first one
    /// and once nothing can be found any more.
    open: Vec<usize>,
    /// A key that was read and sorts after every step that has been decided.
    key: Option<JsonStr<'a>>,
}

impl<'p, 'a> Pass<'p, 'a> {
    /// A pass through `object` that has not begun.
    pub fn new(paths: &'p Paths, object: &'a str) -> Self {
        let (scanner, open) = (Scanner::new(object), Vec::new());
        Self { steps: &paths.steps, scanner, found: Vec::new(), open, key: None }
    }

    /// The value at a [place](Paths::place). Of an object that further paths lead into only the bracket is there.
    pub fn find(&mut self, place: usize) -> Option<Found<'a>> {
        if self.found.is_empty() && place < self.steps.len() {
            self.found.reserve(self.steps.len());
            self.open.extend(self.scanner.expect(b'{').map(|()| self.steps.len()));
        }
        while self.found.len() <= place && self.found.len() < self.steps.len() {
            if self.decide().is_none() {
                // Text that is not canonical, or its end.
                self.missing_until(self.steps.len());
            }
        }
        self.found.get(place).copied().flatten()
    }

    /// Decides whether the text has the next step, and those after it that the same key decides. Nothing if the rest cannot
    /// be found.
    fn decide(&mut self) -> Option<()> {
        let at = self.found.len();
        while *self.open.last()? == at {
            self.open.pop();
            self.leave()?;
        }
        let (step, members_end) = (&self.steps[at], *self.open.last()?);
        loop {
            let Some(key) = self.next_key()? else {
                // The object has no more members.
                self.open.pop();
                self.missing_until(members_end);
                return Some(());
            };
            match key.order(&step.key) {
                Ordering::Less => drop(self.scanner.value()?),
                Ordering::Equal => return self.take(at + 1, step.end),
                Ordering::Greater => {
                    self.key = Some(key);
                    self.missing_until(step.end);
                    return Some(());
                }
            }
        }
    }

    /// The key of the next member of the innermost object; the scanner is then at its value. The inner option is
    /// nothing if there is none: the scanner is then after the object.
    fn next_key(&mut self) -> Option<Option<JsonStr<'a>>> {
        match self.key.take() {
            Some(key) => Some(Some(key)),
            None => self.scanner.next_key(),
        }
    }

    /// Takes the value at the scanner; the steps from `inside` to `end` lead through it.
    fn take(&mut self, inside: usize, end: usize) -> Option<()> {
        if inside < end && self.scanner.peek()? == b'{' {
            self.found.push(Some(Found::Object(self.scanner.bracket()?)));
            self.open.push(end);
        } else {
            self.found.push(Found::read(self.scanner.value()?));
            self.missing_until(end);
        }
        Some(())
    }

    /// Skips the rest of the innermost object.
    fn leave(&mut self) -> Option<()> {
        if self.key.take().is_some() {
            self.scanner.value()?;
        }
        self.scanner.skip_open(1)
    }

    fn missing_until(&mut self, end: usize) {
        self.found.resize(end, None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::{lookup, scanned_bytes};

    fn path(text: &str) -> Vec<String> {
        text.split('.').map(str::to_owned).collect()
    }

    fn assert_finds_what_lookup_finds(object: &str, paths: &[Vec<String>], order: &[usize]) {
        let set = Paths::new(paths.iter().map(Vec::as_slice));
        let mut pass = Pass::new(&set, object);
        for &number in order {
            let (expected, found) = (lookup(object, &paths[number]), pass.find(set.place(&paths[number]).unwrap()));
            match expected {
                Some(Found::Object(_)) => assert!(matches!(found, Some(Found::Object(_))), "{:?}", paths[number]),
                other => assert_eq!(found, other, "{:?} in {object}", paths[number]),
            }
        }
    }

    const TEXTS: &str = "a a.a a.a.a a.b aa b b.c b.c.d b.c.e b.d c z \n \u{1f600} é.x é";

    #[test]
    fn a_pass_finds_what_a_lookup_finds_in_whatever_order_it_is_asked() {
        let objects = [
            "{}",
            r#"{"a":1}"#,
            r#"{"\n":2,"a":{"a":{"a":"]}","b":1},"b":[1,{"b":2}]},"aa":null,"b":{"c":{"d":[],"e":{}},"d":1.5},"é":{"x":true}}"#,
            r#"{"A":{"a":1},"a":[{"a":1}],"b":{"b":{"c":1},"c":7,"d":"\"}"},"c":{"c":{}},"y":{"z":1},"z":-0.0,"😀":"x"}"#,
            r#"{"a":{"0":0,"a":{"0":0,"z":0},"aa":0,"z":{"a":1}},"b":{"a":{},"z":{}},"zz":{}}"#,
        ];
        let paths: Vec<Vec<String>> = TEXTS.split(' ').map(path).collect();
        for object in objects {
            for first in 0..paths.len() {
                let (mut order, step): (Vec<usize>, usize) = (Vec::new(), 2 * first + 1);
                order.extend((0..paths.len()).map(|number| (first + number * step) % paths.len()));
                assert_finds_what_lookup_finds(object, &paths, &order);
                assert_finds_what_lookup_finds(object, &paths[first..], &[0]);
                assert_finds_what_lookup_finds(object, &[paths[first].clone(), paths[0].clone()], &[1, 0]);
            }
        }
    }

    #[test]
    fn any_number_of_paths_costs_one_scan() {
        let long_key = "k".repeat(10_000);
        let filler = format!("\"filler\":[{}0]", "[{\"x\":\"yyyyyyyyyyyy\"}],".repeat(1_000));
        let object = format!("{{{filler},\"{long_key}\":1,\"m\":{{{filler},\"n\":{{{filler}}}}},\"z\":2}}");
        let keys = (0..200).map(|number| format!("g{number}")).chain((0..200).map(|number| format!("m{number}")));
        let deep = ["m.a", "m.n.a", "m.n.z", "m.z", "z"].into_iter().map(path);
        let paths: Vec<Vec<String>> = keys.map(|key| vec![key]).chain(deep).collect();
        let set = Paths::new(paths.iter().map(Vec::as_slice));
        let before = scanned_bytes();
        let mut pass = Pass::new(&set, &object);
        for path in paths.iter().rev() {
            let expected = (path[0] == "z").then_some(Found::Int(2));
            assert_eq!(pass.find(set.place(path).unwrap()), expected, "{path:?}");
        }
        drop(pass);
        assert!(scanned_bytes() - before <= object.len(), "each byte is looked at once");
    }

    #[test]
    fn a_pass_goes_no_further_than_it_was_asked() {
        let object = format!("{{\"a\":1,\"b\":\"{}\",\"c\":2}}", "x".repeat(10_000));
        let set = Paths::new([&path("a")[..], &path("c")]);
        let before = scanned_bytes();
        let mut pass = Pass::new(&set, &object);
        assert_eq!(pass.find(0), Some(Found::Int(1)));
        drop(pass);
        assert!(scanned_bytes() - before < 10, "the rest was not looked at");
    }

    #[test]
    fn text_that_is_not_canonical_is_survived() {
        let text = r#"{"a":{"a":"\"","b":[{}]},"b":1,"c":{"d":"é"}}"#;
        let paths: Vec<Vec<String>> = TEXTS.split(' ').map(path).collect();
        let set = Paths::new(paths.iter().map(Vec::as_slice));
        for end in (0..text.len()).filter(|end| text.is_char_boundary(*end)) {
            for broken in [text[..end].to_owned(), format!("{}}}", &text[..end]), format!("{},", &text[..end])] {
                let mut pass = Pass::new(&set, &broken);
                let found = (0..set.steps.len()).filter(|place| pass.find(*place).is_some()).count();
                assert!(found <= 8, "{broken}");
            }
        }
        assert_eq!(Pass::new(&Paths::default(), "{}").find(0), None);
    }
}
