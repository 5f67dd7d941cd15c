//! `taskqueue progress`: what it writes, and that it changes nothing when it cannot.

use std::path::{Path, PathBuf};

use tempfile::TempDir;

use super::support::{Ran, binary, finish, run_alone};

/// A folder like that of a run.
struct Run(TempDir);

impl Run {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn file(&self) -> PathBuf {
        self.0.path().join("progress.json")
    }

    fn text(&self) -> String {
        std::fs::read_to_string(self.file()).unwrap()
    }

    fn progress(&self, arguments: &[&str]) -> Ran {
        self.progress_to(&self.file(), arguments)
    }

    fn progress_to(&self, file: &Path, arguments: &[&str]) -> Ran {
        let mut command = binary(self.0.path());
        finish(command.env("TASKQUEUE_PROGRESS_FILE", file).arg("progress").args(arguments))
    }
}

#[test]
fn members_become_an_object_that_replaces_the_one_before() {
    let run = Run::new();
    assert_eq!(run.progress(&["step=120", "total=1000", "loss=0.31", "phase=warm-up", "best.step=7"]).ok(), "");
    assert_eq!(run.text(), "{\"best\":{\"step\":7},\"loss\":0.31,\"phase\":\"warm-up\",\"step\":120,\"total\":1000}\n");
    run.progress(&["step=121", "loss=NaN"]).ok();
    assert_eq!(run.text(), "{\"loss\":\"NaN\",\"step\":121}\n");
    run.progress(&["--json", "{\"a\": 1, \"b\": 2}", "b=3"]).ok();
    assert_eq!(run.text(), "{\"a\":1,\"b\":3}\n");
    assert_eq!(std::fs::read_dir(run.0.path()).unwrap().count(), 1, "nothing else is left in the folder");
}

#[test]
fn outside_of_a_run_it_says_so() {
    run_alone("progress step=1").refuses_with(2, &["not inside a run of taskqueue loop", "TASKQUEUE_PROGRESS_FILE"]);
}

#[test]
fn what_cannot_be_progress_changes_nothing() {
    let run = Run::new();
    run.progress(&["step=1"]).ok();
    let huge = format!("text={}", "x".repeat(65_536));
    for wrong in [
        &[][..],
        &["step"],
        &["=1"],
        &["a=1", "a=2"],
        &["n=99999999999999999999"],
        &["--json", "[1]"],
        &["--json", "{"],
        &[&huge],
    ] {
        run.progress(wrong).fails(2);
        assert_eq!(run.text(), "{\"step\":1}\n", "{:?}", wrong.first().map(|text| &text[..text.len().min(20)]));
    }
    let twice = run.progress(&["a=1", "a=2"]).fails_with(2, &["progress a is given twice; give it once"]);
    assert!(!twice.contains("sweep"), "{twice}");
    run.progress_to(&run.0.path().join("gone/progress.json"), &["step=2"])
        .fails_with(1, &["cannot write the progress to ", "No such file"]);
    std::fs::create_dir(run.0.path().join("folder")).unwrap();
    run.progress_to(&run.0.path().join("folder"), &["step=2"]).fails(1);
    let left: Vec<_> = std::fs::read_dir(run.0.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left.len(), 2, "{left:?}");
}
