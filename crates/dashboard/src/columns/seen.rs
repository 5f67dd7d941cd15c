//! Which paths occur in tasks, how often, and whether their values are numbers: what columns can be chosen from, and what filters are
//! completed with.

use std::collections::HashMap;

use taskqueue_core::fields::TaskField;
use taskqueue_core::json::{self, Found};
use taskqueue_core::task_view::TaskView;

use super::{PATH_BYTES, Value};

/// Objects are followed so deep.
const DEPTH: usize = 4;
/// Keys of an object that are looked at, usable or not.
const MOST_KEYS: usize = 256;
/// Paths that are remembered, so that tasks with ever new keys take no more memory.
const MOST_PATHS: usize = 1_000;

/// The values of a task that can be columns, in the order of their paths: at most `most` of each document. Lists are values, objects
/// are followed.
pub(crate) fn leaves<'a>(task: &TaskView<'a>, documents: &[&str], most: usize) -> Vec<(String, Value<'a>)> {
    let mut found = Vec::new();
    for document in documents {
        if let Some(Value::Json(text)) = TaskField::find(document).and_then(|field| field.value(task)) {
            let end = found.len() + most;
            collect(text, document, DEPTH, end, &mut found);
        }
    }
    found
}

fn collect<'a>(object: &'a str, path: &str, depth: usize, end: usize, found: &mut Vec<(String, Value<'a>)>) {
    for (key, value) in json::members(object).take(MOST_KEYS) {
        if found.len() >= end {
            return;
        }
        let key = key.to_text();
        // Such a key could not be written as a step of a path.
        if key.is_empty() || key.contains(['.', ',']) || key.chars().any(char::is_control) || key.trim() != key {
            continue;
        }
        let path = format!("{path}.{key}");
        if path.len() > PATH_BYTES {
            continue;
        }
        match value {
            Found::Object(inner) if depth > 1 && inner != "{}" => collect(inner, &path, depth - 1, end, found),
            value => found.extend(Value::found(value).map(|value| (path, value))),
        }
    }
}

/// How often paths occurred.
#[derive(Clone, Debug, Default)]
pub(crate) struct Seen {
    paths: HashMap<String, Tally>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Tally {
    tasks: usize,
    numbers: usize,
}

impl Seen {
    /// Counts a path of one task.
    pub(crate) fn add(&mut self, path: &str, is_number: bool) {
        if !self.paths.contains_key(path) {
            if self.paths.len() >= MOST_PATHS {
                return;
            }
            self.paths.insert(path.to_owned(), Tally::default());
        }
        if let Some(tally) = self.paths.get_mut(path) {
            tally.tasks += 1;
            tally.numbers += usize::from(is_number);
        }
    }

    /// All paths, by name.
    pub(crate) fn paths(&self) -> Vec<&str> {
        let mut paths: Vec<&str> = self.paths.keys().map(String::as_str).collect();
        paths.sort_unstable();
        paths
    }

    /// The paths that begin so, those of most tasks first.
    pub(crate) fn most_frequent(&self, prefix: &str) -> Vec<&str> {
        let mut paths: Vec<&str> = self.paths().into_iter().filter(|path| path.starts_with(prefix)).collect();
        paths.sort_by_key(|path| std::cmp::Reverse(self.tasks(path)));
        paths
    }

    /// How many tasks had a path.
    pub(crate) fn tasks(&self, path: &str) -> usize {
        self.paths.get(path).map_or(0, |tally| tally.tasks)
    }

    /// Whether every value at a path was a number.
    pub(crate) fn is_numeric(&self, path: &str) -> bool {
        self.paths.get(path).is_some_and(|tally| tally.tasks > 0 && tally.numbers == tally.tasks)
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::task;
    use super::*;

    #[test]
    fn the_leaves_of_a_task_are_bounded_and_can_all_be_written_as_paths() {
        let args = r#"{"":1,"a,b":1,"a.b":2,"deep":{"a":{"b":{"c":{"d":1}}}},"empty":{},"lr":0.1,"none":null}"#;
        let view = task(args, r#"{"loss":0.5}"#);
        let paths = |documents: &[&str], most| {
            leaves(&view, documents, most).into_iter().map(|(path, _)| path).collect::<Vec<_>>()
        };
        assert_eq!(paths(&["args"], 10), ["args.deep.a.b.c", "args.empty", "args.lr"]);
        assert_eq!(paths(&["args", "result"], 1), ["args.deep.a.b.c", "result.loss"]);
        let many: String = (0..10_000).map(|n| format!("\"k{n:05}\":{n},")).collect();
        let many = format!("{{{}}}", many.trim_end_matches(','));
        assert_eq!(leaves(&task(&many, "{}"), &["args"], 40).len(), 40);
    }

    #[test]
    fn the_paths_of_most_tasks_come_first_and_no_more_are_remembered_than_fit() {
        let mut seen = Seen::default();
        for path in ["args.a", "args.b", "args.b", "result.loss"] {
            seen.add(path, path == "args.b");
        }
        assert_eq!(seen.most_frequent("args."), ["args.b", "args.a"]);
        assert_eq!(
            (seen.is_numeric("args.b"), seen.is_numeric("args.a"), seen.is_numeric("args.c")),
            (true, false, false)
        );
        for n in 0..2 * MOST_PATHS {
            seen.add(&format!("args.x{n}"), true);
        }
        assert_eq!(seen.paths().len(), MOST_PATHS);
        assert_eq!(seen.tasks("args.b"), 2);
    }
}
