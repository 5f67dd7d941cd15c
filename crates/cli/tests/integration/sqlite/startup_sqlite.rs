//! What `serve` refuses to open as an SQLite file: each kind of foreign and damaged file is tested in `store-sqlite`, a file in use in
//! `files.rs`. What can be wrong with a database of PostgreSQL stands in `startup_postgres.rs`.

use std::fs;

use super::support::*;

#[test]
fn files_that_are_no_database_of_ours_are_refused_and_left_alone() {
    let directory = tempfile::tempdir().unwrap();
    let files = [b"This is a letter, not a database.\n".repeat(200), vec![0; 8192]];
    for (n, content) in files.iter().enumerate() {
        let path = directory.path().join(format!("file-{n}"));
        fs::write(&path, content).unwrap();
        assert_refuses(&serving(path.to_str().unwrap()), &[]);
        assert!(fs::read(&path).unwrap() == *content, "file {n} was changed");
    }
}

#[test]
fn unwritable_places_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("file");
    fs::write(&file, "x").unwrap();
    for path in [directory.path().to_owned(), directory.path().join("missing/q.db"), file.join("q.db")] {
        assert_refuses(&serving(path.to_str().unwrap()), &[]);
    }
}

#[test]
fn a_schema_is_a_mistake_in_the_arguments() {
    let directory = tempfile::tempdir().unwrap();
    let database = directory.path().join("q.db");
    let mut arguments = serving(database.to_str().unwrap());
    arguments.extend(["--database-schema", "other"]);
    let ran = run(&arguments, &[]);
    assert!(ran.stdout.is_empty(), "{ran:?}");
    ran.fails_with(2, &["--database-schema"]);
    assert!(!database.exists(), "a file was made");
}
