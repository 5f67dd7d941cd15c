//! The database of each server of these tests: an SQLite file in a folder of its own.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

/// A place for a database, gone with it when dropped. Nothing is there before a server makes it.
pub(crate) struct Database(TempDir);

impl Database {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    /// The folder of its files.
    pub(crate) fn folder(&self) -> Option<&Path> {
        Some(self.0.path())
    }

    pub(crate) fn file(&self) -> PathBuf {
        self.0.path().join("q.db")
    }

    /// What `--database` takes.
    pub(crate) fn argument(&self) -> String {
        self.file().to_str().unwrap().to_owned()
    }

    /// Adds the database to the command line of a server.
    pub(crate) fn name_to(&self, command: &mut Command) {
        command.arg("--database").arg(self.file());
    }

    /// Everything that is kept.
    pub(crate) fn contents(&self) -> Vec<u8> {
        let files = fs::read_dir(self.0.path()).unwrap();
        files.flat_map(|entry| fs::read(entry.unwrap().path()).unwrap_or_default()).collect()
    }
}
