//! Values of tasks by their path, as columns of tables have them: `status`, `args.lr`, `result.loss`, `last_run.worker.host`. The
//! same paths as those of the filter language and of `taskqueue task list --columns`. And which paths occur in tasks, how often: what
//! columns can be chosen from, and what filters are completed with.

use std::collections::BTreeMap;

use taskqueue_core::TaskView;
pub(crate) use taskqueue_core::fields::Value;
use taskqueue_core::fields::{FIELDS, Kind, TaskField};
use taskqueue_core::json::{self, Found};

/// Most columns of a table.
const COLUMNS_MAX: usize = 20;
/// Longest path of a column in bytes.
const PATH_BYTES: usize = 200;

/// A column: a path into a task.
#[derive(Clone, Debug)]
pub(crate) struct Column {
    path: String,
    field: &'static TaskField,
    /// The way to a value inside a document; empty for the whole value of the field.
    steps: Vec<String>,
}

/// The path says all of it.
impl PartialEq for Column {
    fn eq(&self, other: &Self) -> bool {
        self.path == other.path
    }
}

impl Eq for Column {}

impl Column {
    /// The column of a path; nothing if tasks cannot have it.
    pub(crate) fn parse(path: &str) -> Option<Self> {
        let path = path.trim();
        if path.len() > PATH_BYTES {
            return None;
        }
        let inside = |field: &'static TaskField| {
            let steps = path.strip_prefix(field.path)?.strip_prefix('.')?;
            Some((field, steps.split('.').map(str::to_owned).collect::<Vec<_>>()))
        };
        let mut documents = FIELDS.iter().filter(|field| field.kind == Kind::Document);
        let whole = TaskField::find(path).map(|field| (field, Vec::new()));
        let (field, steps) = whole.or_else(|| documents.find_map(inside))?;
        (!steps.contains(&String::new())).then(|| Self { path: path.to_owned(), field, steps })
    }

    /// The columns of the parameter `column`, which may be repeated and may be lists with commas; each once. The others are
    /// what no task can have.
    pub(crate) fn parse_all<'q>(texts: impl Iterator<Item = &'q str>) -> (Vec<Self>, Vec<&'q str>) {
        let (mut columns, mut unknown): (Vec<Self>, Vec<&str>) = (Vec::new(), Vec::new());
        for path in texts.flat_map(|text| text.split(',')).map(str::trim).filter(|path| !path.is_empty()) {
            match Self::parse(path) {
                Some(column) if columns.len() < COLUMNS_MAX && !columns.contains(&column) => columns.push(column),
                Some(_) => {}
                None => unknown.push(path),
            }
        }
        (columns, unknown)
    }

    /// The path, which is also the head of the column.
    pub(crate) fn path(&self) -> &str {
        &self.path
    }

    /// The value of a task; nothing if it is missing or null.
    pub(crate) fn value<'a>(&self, task: &TaskView<'a>) -> Option<Value<'a>> {
        match self.field.value(task)? {
            Value::Json(document) if !self.steps.is_empty() => Value::found(json::lookup(document, &self.steps)?),
            value => Some(value),
        }
    }
}

/// Returns whether a filter can name this path: keys that are no names cannot be followed there.
pub(crate) fn is_for_filters(path: &str) -> bool {
    let is_name = |step: &str| {
        step.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
            && step.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
    };
    path.split('.').all(is_name)
}

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
    paths: BTreeMap<String, Tally>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Tally {
    tasks: usize,
    numbers: usize,
}

impl Seen {
    /// Counts a path of one task.
    pub(crate) fn add(&mut self, path: &str, is_number: bool) {
        if self.paths.len() < MOST_PATHS || self.paths.contains_key(path) {
            let tally = self.paths.entry(path.to_owned()).or_default();
            tally.tasks += 1;
            tally.numbers += usize::from(is_number);
        }
    }

    /// All paths, by name.
    pub(crate) fn paths(&self) -> Vec<&str> {
        self.paths.keys().map(String::as_str).collect()
    }

    /// The paths that begin so, those of most tasks first.
    pub(crate) fn most_frequent(&self, prefix: &str) -> Vec<&str> {
        let mut paths: Vec<&str> = self.paths().into_iter().filter(|path| path.starts_with(prefix)).collect();
        paths.sort_by_key(|path| std::cmp::Reverse(self.tasks(path)));
        paths
    }

    /// Returns how many tasks had a path.
    pub(crate) fn tasks(&self, path: &str) -> usize {
        self.paths.get(path).map_or(0, |tally| tally.tasks)
    }

    /// Returns whether every value at a path was a number.
    pub(crate) fn is_numeric(&self, path: &str) -> bool {
        self.paths.get(path).is_some_and(|tally| tally.tasks > 0 && tally.numbers == tally.tasks)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use taskqueue_core::filter::{LastErrorFields, LastRunFields, TaskFilter};
    use taskqueue_core::ids::TaskId;
    use taskqueue_core::status::Status;
    use taskqueue_core::time::Timestamp;

    use super::*;

    /// A task that has run, with these args and this result.
    pub(crate) fn task<'a>(args: &'a str, result: &'a str) -> TaskView<'a> {
        let at = Timestamp::from_micros(1_000_000);
        TaskView {
            id: TaskId::parse("t_exampletask0").expect("an id"),
            queue: "q",
            status: Status::Failed,
            name: Some("a name"),
            args,
            metadata: r#"{"batch":"sweep7"}"#,
            priority: -5,
            attempt: 2,
            max_attempts: 3,
            routes: r#"["cpu","gpu"]"#,
            result,
            last_error: Some(LastErrorFields {
                kind: "OutOfMemory",
                message: "CUDA out of memory",
                traceback: None,
                occurred_at: at,
                attempt: 2,
                run_id: Some("r_exampletask0"),
            }),
            last_route: Some("gpu"),
            created_at: at,
            updated_at: at,
            started_at: Some(at),
            finished_at: None,
            last_run: Some(LastRunFields { attempt: 2, worker: r#"{"host":"gpu-1","slot":0}"#, run_id: None }),
            progress: Some(r#"{"step":9007199254740993,"total":10000000000000000}"#),
            progress_updated_at: Some(at),
            progress_attempt: Some(2),
            not_before: None,
            scheduling: None,
            archived: false,
            unmet: 0,
        }
    }

    #[test]
    fn values_are_found_by_path_and_written_as_they_are_stored() {
        let task = task(r#"{"deep":{"list":[1,"a"],"on":true},"lr":1e-5,"none":null,"text":"a\"b"}"#, "{}");
        let cases = [
            ("priority", Some("-5")),
            ("created_at", Some("1970-01-01T00:00:01.000000Z")),
            ("args.lr", Some("1e-5")),
            ("args.deep.list", Some(r#"[1,"a"]"#)),
            ("args.deep.on", Some("true")),
            ("args.text", Some("a\"b")),
            ("args.none", None),
            ("args.lr.deeper", None),
            ("result", Some("{}")),
            ("result.loss", None),
            ("progress.step", Some("9007199254740993")),
            ("last_run.worker.host", Some("gpu-1")),
            ("metadata.batch", Some("sweep7")),
        ];
        for (path, expected) in cases {
            let column = Column::parse(path).expect(path);
            let value = column.value(&task);
            let text = value.as_ref().map(Value::text);
            assert_eq!(text.as_deref(), expected, "{path}");
        }
    }

    #[test]
    fn only_what_a_task_can_have_is_a_column() {
        for path in
            ["", "lr", "args.", "args..x", ".args", "argsx", "status.x", "last_error", "last_error.x", "last_run"]
        {
            assert_eq!(Column::parse(path), None, "{path}");
        }
        assert_eq!(Column::parse(&format!("args.{}", "x".repeat(PATH_BYTES))), None);
        for field in FIELDS {
            assert!(Column::parse(field.path).is_some(), "{field:?}");
        }
    }

    #[test]
    fn lists_of_columns_are_read_once_each_and_bounded() {
        let (columns, unknown) = Column::parse_all(["args.lr, id,,args.lr", "what", "result.loss"].into_iter());
        assert_eq!(columns.iter().map(Column::path).collect::<Vec<_>>(), ["args.lr", "id", "result.loss"]);
        assert_eq!(unknown, ["what"]);
        let many: Vec<String> = (0..50).map(|n| format!("args.a{n}")).collect();
        assert_eq!(Column::parse_all(many.iter().map(String::as_str)).0.len(), COLUMNS_MAX);
    }

    #[test]
    fn only_names_can_be_followed_by_filters() {
        for (path, expected) in [
            ("args.lr", true),
            ("status", true),
            ("args._a1", true),
            ("args.a-b", false),
            ("args.1a", false),
            ("args.my key", false),
            ("args.", false),
        ] {
            assert_eq!(is_for_filters(path), expected, "{path}");
            assert_eq!(TaskFilter::parse(&format!("exists({path})")).is_ok(), expected, "{path}");
        }
    }

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
        let expected = (true, false, false);
        assert_eq!((seen.is_numeric("args.b"), seen.is_numeric("args.a"), seen.is_numeric("args.c")), expected);
        for n in 0..2 * MOST_PATHS {
            seen.add(&format!("args.x{n}"), true);
        }
        assert_eq!(seen.paths().len(), MOST_PATHS);
        assert_eq!(seen.tasks("args.b"), 2);
    }
}
