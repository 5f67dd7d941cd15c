//! What `backup --with-secrets` and `restore` say of a folder: names, sizes and places of its files, never what a secret holds nor
//! a digest of it, by which a weak token could be guessed.

use taskqueue_core::json::{ObjectWriter, write_array, write_string};
use taskqueue_core::time::Timestamp;
use taskqueue_core::words;

use crate::output::{Cell, Column, Record};

/// One file of the folder.
#[derive(Debug)]
pub(crate) struct FolderFile {
    pub(crate) name: &'static str,
    pub(crate) bytes: u64,
    /// Where it came from, or where it is now.
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

    fn seconds(&self) -> String {
        format!("{:.3}", self.seconds)
    }
}

impl Record for FolderRecord {
    const COLUMNS: &'static [Column<'static>] =
        &[Column::text("folder"), Column::text("files"), Column::text("tasks"), Column::text("seconds")];

    const FIELDS: &'static [&'static str] = &["folder", "tasks", "seconds"];

    fn cells(&self, _now: Timestamp) -> Vec<Cell> {
        let tasks = self.tasks.map(|count| count.to_string());
        let files = self.files.len().to_string();
        vec![Cell::new(&self.folder), Cell::new(files), Cell::optional(tasks), Cell::new(self.seconds())]
    }

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
            .json("tasks", &self.tasks.map_or_else(|| "null".to_owned(), |count| count.to_string()))
            .json("seconds", &self.seconds())
            .end();
    }

    fn key(&self) -> String {
        self.folder.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
