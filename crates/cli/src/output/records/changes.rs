//! What a command did, or would do, to tasks: numbers, tasks that are not created yet (`--dry-run`), tasks that would be changed, copies, and
//! plain counts; what `backup`, `restore` and `check` did to a database, and to a folder with secrets: names, sizes and places of its files, never
//! what a secret holds nor a digest of it, by which a weak token could be guessed.

use taskqueue_api::body::Body;
use taskqueue_api::lists::{self as api, Count};
use taskqueue_client::{Creation, Group, Status, TaskId, Timestamp};
use taskqueue_core::fields::optional_defined_fields;
use taskqueue_core::json::{ObjectWriter, write_array, write_string};
use taskqueue_core::task_view::TaskView;
use taskqueue_core::words;
use taskqueue_store::check::{Problem, Report};

use super::task::scheduling_details;
use crate::field_path::FieldPath;
use crate::output::printer::field_paths;
use crate::output::{Cell, Columns, Record, columns, escape};

/// The numbers of tasks that were created or changed, or not.
#[derive(Debug, Default)]
pub(crate) struct Summary {
    /// Named counts, the one that matters most first.
    pub(crate) counts: Vec<(&'static str, u64)>,
    /// Whether the time was over, if they were waited for.
    pub(crate) timed_out: Option<bool>,
}

impl Summary {
    pub(crate) fn of(counts: impl IntoIterator<Item = (&'static str, u64)>) -> Self {
        Self { counts: counts.into_iter().collect(), timed_out: None }
    }

    /// The sentence for people: the first count, and the others where they are not zero.
    pub(crate) fn sentence(&self) -> String {
        let shown = self.counts.iter().enumerate().filter(|(index, (_, count))| *index == 0 || *count > 0);
        let parts: Vec<String> =
            shown.map(|(_, (name, count))| format!("{count} {}", name.replace('_', " "))).collect();
        parts.join(", ")
    }
}

impl Record for Summary {
    fn fields(&self) -> Vec<FieldPath> {
        let counts = self.counts.iter().map(|(name, _)| *name);
        counts.chain(self.timed_out.map(|_| "timed_out")).map(FieldPath::new).collect()
    }

    fn write_json(&self, out: &mut Vec<u8>) {
        let object = ObjectWriter::append_to(out);
        let object = self.counts.iter().fold(object, |object, (name, count)| object.integer(name, *count));
        object.optional(self.timed_out, |object, is_over| object.boolean("timed_out", is_over)).end();
    }

    fn key(&self) -> String {
        self.counts.first().map_or(0, |(_, count)| *count).to_string()
    }
}

/// A task to be created.
#[derive(Debug)]
pub(crate) struct PlannedRecord<'a> {
    pub(crate) id: TaskId,
    /// The task to be.
    pub(crate) creation: &'a Creation,
}

impl PlannedRecord<'_> {
    fn view(&self) -> TaskView<'_> {
        TaskView::planned(self.id, &self.creation.definition, self.creation.not_before)
    }
}

impl Record for PlannedRecord<'_> {
    const COLUMNS: Columns = columns![text "ID", shrinking "NAME", shrinking "ARGS", with_values "WAITS" 10];

    const FIELDS: &'static str = "id,name,args,metadata,priority,max_attempts,routes";

    /// The columns of what is used beyond the contract stand behind the others.
    fn fields(&self) -> Vec<FieldPath> {
        let own = field_paths(Self::FIELDS).into_iter();
        let task = self.view();
        let used = optional_defined_fields().filter(|field| field.value(&task).is_some());
        let used = used.map(|field| FieldPath::new(field.path));
        own.chain(used).collect()
    }

    fn cells(&self, now: Timestamp) -> Vec<Cell> {
        let definition = &self.creation.definition;
        let waits = scheduling_details(&self.view(), now);
        let waits: Vec<String> = waits.into_iter().map(|(name, words)| format!("{name} {words}")).collect();
        vec![
            Cell::new(self.id.as_str()),
            Cell::optional(definition.name.as_deref()),
            Cell::new(definition.args.as_str()),
            Cell::optional((!waits.is_empty()).then(|| waits.join("; "))),
        ]
    }

    fn write_json(&self, out: &mut Vec<u8>) {
        self.creation.write_fields(ObjectWriter::append_to(out).text("id", self.id.as_str())).end();
    }
}

/// A value before and after a change, as JSON; nothing where there is none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FieldChange {
    pub(crate) path: String,
    pub(crate) from: Option<String>,
    pub(crate) to: Option<String>,
}

/// A task and the changes that would be made to it.
#[derive(Debug)]
pub(crate) struct ChangedRecord {
    pub(crate) id: TaskId,
    pub(crate) status: Status,
    pub(crate) changes: Vec<FieldChange>,
}

impl Record for ChangedRecord {
    const COLUMNS: Columns = columns![text "ID", text "STATUS", shrinking "CHANGES"];

    const FIELDS: &'static str = "id,status,changes";

    fn cells(&self, _now: Timestamp) -> Vec<Cell> {
        let words = |value: &Option<String>| value.as_deref().unwrap_or("none").to_owned();
        let changes = self.changes.iter().map(|change| {
            let FieldChange { path, from, to } = change;
            format!("{path}: {} -> {}", words(from), words(to))
        });
        let changes = changes.collect::<Vec<_>>().join(", ");
        vec![Cell::new(self.id.as_str()), Cell::status(self.status), Cell::new(changes)]
    }

    fn write_json(&self, out: &mut Vec<u8>) {
        let record = ObjectWriter::append_to(out).text("id", self.id.as_str()).text("status", self.status.as_str());
        let changes = record.object("changes", |changes| {
            self.changes.iter().fold(changes, |changes, FieldChange { path, from, to }| {
                // What is not there is left out: null is a value.
                changes.object(path, |change| {
                    let change = change.optional(from.as_ref(), |change, json| change.json("from", json));
                    change.optional(to.as_ref(), |change, json| change.json("to", json))
                })
            })
        });
        changes.end();
    }
}

/// A task that is submitted again.
#[derive(Debug)]
pub(crate) struct RerunRecord {
    pub(crate) old_id: TaskId,
    pub(crate) new_id: TaskId,
    /// Whether the copy exists for sure, once there is an answer.
    pub(crate) is_created: Option<bool>,
}

impl Record for RerunRecord {
    const COLUMNS: Columns = columns![text "ID", text "NEW ID"];

    const FIELDS: &'static str = "old_id,new_id";

    fn write_json(&self, out: &mut Vec<u8>) {
        ObjectWriter::append_to(out).text("old_id", self.old_id.as_str()).text("new_id", self.new_id.as_str()).end();
    }

    /// The id of the copy: what a script waits for.
    fn key(&self) -> String {
        self.new_id.to_string()
    }
}

impl Record for Count {
    const COLUMNS: Columns = columns![number "COUNT"];

    const FIELDS: &'static str = "count";

    fn write_json(&self, out: &mut Vec<u8>) {
        self.write(out);
    }
}

/// The count of one group.
#[derive(Debug)]
pub(crate) struct GroupRecord<'d> {
    /// The dimensions of the group.
    pub(crate) dimensions: &'d [&'static str],
    /// The values of the group and its count.
    pub(crate) group: Group,
}

impl Record for GroupRecord<'_> {
    const COLUMNS: Columns = columns![number "COUNT", text "GROUP"];

    const FIELDS: &'static str = "count";

    fn fields(&self) -> Vec<FieldPath> {
        let dimension = |name: &&str| FieldPath { head: (*name).to_owned(), ..FieldPath::new(&format!("key.{name}")) };
        self.dimensions.iter().map(dimension).chain([FieldPath::new("count")]).collect()
    }

    fn cells(&self, _now: Timestamp) -> Vec<Cell> {
        let group = match self.group.key.as_slice() {
            [only] => Status::parse(only).map_or_else(|| Cell::new(only), Cell::status),
            values => Cell::new(values.join(", ")),
        };
        vec![Cell::number(self.group.count), group]
    }

    fn write_json(&self, out: &mut Vec<u8>) {
        api::Group::write(out, self.dimensions, &self.group);
    }

    fn key(&self) -> String {
        // Neither routes nor statuses have blanks.
        format!("{} {}", self.group.key.join(" "), self.group.count)
    }
}

/// Returns seconds with three decimals.
fn rounded(seconds: f64) -> String {
    format!("{seconds:.3}")
}

/// A database that was copied.
#[derive(Debug)]
pub(crate) struct BackupRecord<'a> {
    pub(crate) file: String,
    pub(crate) bytes: u64,
    pub(crate) report: &'a Report,
    pub(crate) seconds: f64,
}

impl BackupRecord<'_> {
    pub(crate) fn sentence(&self, verb: &str) -> String {
        let (size, tasks) = (words::bytes(self.bytes), words::count(self.report.tasks, "task"));
        let checked = if self.report.rules_checked { format!("{tasks}, ") } else { String::new() };
        format!("{verb} {} ({checked}{size}) in {:.1} s", self.file, self.seconds)
    }
}

impl Record for BackupRecord<'_> {
    const FIELDS: &'static str = "file,bytes,tasks,seconds";

    fn write_json(&self, out: &mut Vec<u8>) {
        ObjectWriter::append_to(out)
            .text("file", &self.file)
            .integer("bytes", self.bytes)
            .integer("schema", self.report.schema)
            .integer("queues", self.report.queues)
            .integer("tasks", self.report.tasks)
            .json("seconds", &rounded(self.seconds))
            .end();
    }
}

/// The result of a check.
#[derive(Debug)]
pub(crate) struct CheckRecord<'a> {
    pub(crate) report: &'a Report,
    /// If it is of a backup with secrets.
    pub(crate) folder: Option<CheckedFolder>,
}

/// The content of a backup with secrets.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CheckedFolder {
    pub(crate) files: u64,
    pub(crate) has_database: bool,
}

impl CheckRecord<'_> {
    pub(crate) fn sentence(&self) -> String {
        let Some(CheckedFolder { files, has_database }) = self.folder else { return self.of_database() };
        let files = words::count(files, "file");
        match has_database {
            true => format!("{}; {files} as the manifest says", self.of_database()),
            false => format!("sound: {files} as the manifest says; no database"),
        }
    }

    fn of_database(&self) -> String {
        let Report { schema, queues, tasks, rules_checked, .. } = self.report;
        match rules_checked {
            true => {
                format!("sound: {}, {}, schema {schema}", words::count(*queues, "queue"), words::count(*tasks, "task"))
            }
            false => format!("the file is sound; schema {schema}"),
        }
    }
}

impl Record for CheckRecord<'_> {
    const FIELDS: &'static str = "status,schema,queues,tasks,problem_count";

    fn write_json(&self, out: &mut Vec<u8>) {
        let Report { schema, rules_checked, queues, tasks, findings } = self.report;
        ObjectWriter::append_to(out)
            .optional(self.folder, |object, CheckedFolder { files, has_database }| {
                object.integer("files", files).boolean("has_database", has_database)
            })
            .text("status", if findings.is_sound() { "sound" } else { "damaged" })
            .integer("schema", *schema)
            .boolean("rules_checked", *rules_checked)
            .integer("queues", *queues)
            .integer("tasks", *tasks)
            .integer("problem_count", findings.count())
            .field("problems", |out| {
                write_array(out, &findings.problems, |out, problem| problem.write_json(out));
            })
            .end();
    }
}

/// A problem as people get it.
pub(crate) fn problem_line(Problem { rule, what }: &Problem) -> String {
    escape(&format!("{}: {}", rule.as_str(), what.replace('\n', " "))).into_owned()
}

impl Record for Problem {
    const FIELDS: &'static str = "rule,what";

    fn write_json(&self, out: &mut Vec<u8>) {
        ObjectWriter::append_to(out).text("rule", self.rule.as_str()).text("what", &self.what).end();
    }
}

/// One file of the folder.
#[derive(Debug)]
pub(crate) struct FolderFile {
    pub(crate) name: &'static str,
    pub(crate) bytes: u64,
    /// Its origin, or its place now.
    pub(crate) path: String,
}

/// A backup with secrets that was made or put back.
#[derive(Debug)]
pub(crate) struct FolderRecord {
    pub(crate) folder: String,
    pub(crate) files: Vec<FolderFile>,
    /// The names of files that a backup may have and this one has not.
    pub(crate) absent: Vec<&'static str>,
    /// If there is a database in it.
    pub(crate) tasks: Option<u64>,
    pub(crate) seconds: f64,
}

impl FolderRecord {
    /// `absences` say what was not there to be copied.
    pub(crate) fn backed_up(&self, absences: &[&str]) -> String {
        let files: Vec<&str> = self.files.iter().map(|file| file.name).collect();
        self.sentence("backed up", &files.join(", "), "not there", &absences.join(", "))
    }

    pub(crate) fn restored(&self) -> String {
        let files: Vec<String> = self.files.iter().map(|file| format!("{} to {}", file.name, file.path)).collect();
        self.sentence("restored", &files.join(", "), "not in the backup", &self.absent.join(", "))
    }

    fn sentence(&self, verb: &str, files: &str, absent: &str, names: &str) -> String {
        let size = words::bytes(self.files.iter().map(|file| file.bytes).sum());
        let tasks = self.tasks.map(|count| format!("{}, ", words::count(count, "task"))).unwrap_or_default();
        let told = format!("{verb} {} ({tasks}{size}) in {:.1} s: {files}", self.folder, self.seconds);
        if names.is_empty() { told } else { format!("{told}; {absent}: {names}") }
    }
}

impl Record for FolderRecord {
    const FIELDS: &'static str = "folder,tasks,seconds";

    fn write_json(&self, out: &mut Vec<u8>) {
        ObjectWriter::append_to(out)
            .text("folder", &self.folder)
            .field("files", |out| {
                write_array(out, &self.files, |out, file| {
                    ObjectWriter::append_to(out)
                        .text("name", file.name)
                        .integer("bytes", file.bytes)
                        .text("path", &file.path)
                        .end();
                });
            })
            .field("not_there", |out| write_array(out, &self.absent, |out, name| write_string(out, name)))
            .integer_or_null("tasks", self.tasks)
            .json("seconds", &rounded(self.seconds))
            .end();
    }
}

#[cfg(test)]
mod tests {
    use taskqueue_core::soundness::Rule;
    use taskqueue_store::check::Findings;

    use super::*;

    #[test]
    fn a_summary_tells_what_happened_and_not_what_did_not() {
        let summary = Summary::of([("created", 0), ("already_there", 3), ("refused", 0)]);
        assert_eq!(summary.sentence(), "0 created, 3 already there");
        assert_eq!(summary.json(), r#"{"created":0,"already_there":3,"refused":0}"#);
        assert_eq!(summary.key(), "0");
    }

    #[test]
    fn a_member_that_is_removed_is_told_from_one_that_is_null() {
        let change = |path: &str, from: Option<&str>, to: Option<&str>| FieldChange {
            path: path.to_owned(),
            from: from.map(str::to_owned),
            to: to.map(str::to_owned),
        };
        let record = ChangedRecord {
            id: TaskId::parse("t_000000000001").unwrap(),
            status: Status::Pending,
            changes: vec![
                change("removed", Some("1"), None),
                change("nothing", Some("1"), Some("null")),
                change("new", None, Some("2")),
            ],
        };
        let changes = r#"{"removed":{"from":1},"nothing":{"from":1,"to":null},"new":{"to":2}}"#;
        let expected = format!(r#"{{"id":"t_000000000001","status":"pending","changes":{changes}}}"#);
        assert_eq!(record.json(), expected);
    }

    fn report() -> Report {
        let problems = vec![Problem { rule: Rule::Tally, what: "queue q counts 1".into() }];
        let findings = Findings { problems, more: 2 };
        Report { schema: 7, rules_checked: true, queues: 1, tasks: 1_234, findings }
    }

    #[test]
    fn a_backup_is_told_in_a_sentence_and_in_numbers() {
        let (bytes, report) = (3 << 20, report());
        let record = BackupRecord { file: "a.db".into(), bytes, report: &report, seconds: 1.25 };
        assert_eq!(record.sentence("backed up"), "backed up a.db (1,234 tasks, 3 MiB) in 1.2 s");
        let expected = r#"{"file":"a.db","bytes":3145728,"schema":7,"queues":1,"tasks":1234,"seconds":1.250}"#;
        assert_eq!(record.json(), expected);
    }

    #[test]
    fn a_check_is_told_with_its_problems() {
        let expected = concat!(
            r#"{"status":"damaged","schema":7,"rules_checked":true,"queues":1,"tasks":1234,"problem_count":3,"#,
            r#""problems":[{"rule":"tally","what":"queue q counts 1"}]}"#
        );
        assert_eq!(CheckRecord { report: &report(), folder: None }.json(), expected);
        assert_eq!(problem_line(&report().findings.problems[0]), "tally: queue q counts 1");
        let sound = Report { findings: Findings::default(), ..report() };
        let record = |folder| CheckRecord { report: &sound, folder };
        assert_eq!(record(None).sentence(), "sound: 1 queue, 1,234 tasks, schema 7");
        let folder = |has_database| Some(CheckedFolder { files: 3, has_database });
        let expected = "sound: 1 queue, 1,234 tasks, schema 7; 3 files as the manifest says";
        assert_eq!(record(folder(true)).sentence(), expected);
        assert_eq!(record(folder(false)).sentence(), "sound: 3 files as the manifest says; no database");
        assert!(record(folder(true)).json().starts_with(r#"{"files":3,"has_database":true,"status":"sound","#));
    }

    #[test]
    fn a_backup_with_secrets_is_told_with_its_files_and_what_is_not_there() {
        let file = |name, bytes| FolderFile { name, bytes, path: format!("/srv/{name}") };
        let record = FolderRecord {
            folder: "b".into(),
            files: vec![file("taskqueue.db", 3 << 20), file("token", 65)],
            absent: vec!["tokens.toml"],
            tasks: Some(1),
            seconds: 1.25,
        };
        let expected = "backed up b (1 task, 3 MiB) in 1.2 s: taskqueue.db, token; not there: a tokens file";
        assert_eq!(record.backed_up(&["a tokens file"]), expected);
        let expected = "restored b (1 task, 3 MiB) in 1.2 s: taskqueue.db to /srv/taskqueue.db, token to /srv/token; not in the \
                        backup: tokens.toml";
        assert_eq!(record.restored(), expected);
        let expected = concat!(
            r#"{"folder":"b","files":[{"name":"taskqueue.db","bytes":3145728,"path":"/srv/taskqueue.db"},"#,
            r#"{"name":"token","bytes":65,"path":"/srv/token"}],"not_there":["tokens.toml"],"tasks":1,"seconds":1.250}"#
        );
        assert_eq!(record.json(), expected);
    }
}
