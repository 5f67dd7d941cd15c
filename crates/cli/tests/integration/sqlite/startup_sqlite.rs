//! What `serve` refuses to open as an SQLite file. For SQLite only: a file can be of something else, unwritable or in use
//! by another server; what can be wrong with a database of PostgreSQL stands in `startup_postgres.rs`.

use std::fs;

use serde_json::json;

use super::support::*;

/// An SQLite database of another program with a table `notes`: two pages, built by hand because tests have no SQLite.
fn foreign_database(application_id: u32) -> Vec<u8> {
    const PAGE: usize = 4096;
    let sql = b"CREATE TABLE notes(x)";
    let text = |length: usize| u8::try_from(13 + 2 * length).unwrap();
    let mut record = vec![6, text(5), text(5), text(5), 1, text(sql.len())];
    record.extend(b"tablenotesnotes\x02");
    record.extend(sql);
    let mut cell = vec![u8::try_from(record.len()).unwrap(), 1];
    cell.extend(record);
    let start = PAGE - cell.len();
    let mut file = vec![0; 2 * PAGE];
    file[..24].copy_from_slice(b"SQLite format 3\0\x10\x00\x01\x01\x00\x40\x20\x20");
    for (offset, value) in [(24, 1), (28, 2), (40, 1), (44, 4), (56, 1), (68, application_id), (92, 1), (96, 3_045_000)]
    {
        file[offset..offset + 4].copy_from_slice(&u32::to_be_bytes(value));
    }
    let start_bytes = u16::try_from(start).unwrap().to_be_bytes();
    file[100..108].copy_from_slice(&[0x0d, 0, 0, 0, 1, start_bytes[0], start_bytes[1], 0]);
    file[108..110].copy_from_slice(&start_bytes);
    file[start..PAGE].copy_from_slice(&cell);
    file[PAGE..PAGE + 8].copy_from_slice(&[0x0d, 0, 0, 0, 0, 0x10, 0, 0]);
    file
}

#[test]
fn a_second_server_on_the_same_file_is_refused() {
    let mut server = Server::alone();
    let database = server.database.argument();
    assert_refuses(&serving(&database), &[]);
    server.create(1, json!({}));
    assert_refuses(&serving(&database), &[]);
    server.restart_by("KILL");
    assert_eq!(server.ids(""), [1]);
}

#[test]
fn files_that_are_no_database_of_ours_are_refused_and_left_alone() {
    let directory = tempfile::tempdir().unwrap();
    let mut broken = foreign_database(0);
    broken[100..].fill(0xa5);
    let files = [
        b"This is a letter, not a database.\n".repeat(200),
        vec![0; 8192],
        broken,
        foreign_database(0),
        foreign_database(0x4d50_4254),
    ];
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
