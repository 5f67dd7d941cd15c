//! A file appears whole or not at all, and what others left is removed only if nobody writes it.

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;

use super::*;

fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> =
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn a_file_takes_its_place_when_it_is_whole() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().join("copy.db");
    let new = NewFile::begin(&place).unwrap();
    new.file().write_all(b"new").unwrap();
    assert_eq!(names(folder.path()), ["copy.db.taskqueue-partial"]);
    new.put_in_place(false).unwrap();
    assert_eq!(fs::read(&place).unwrap(), b"new");
    assert_eq!(fs::metadata(&place).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(names(folder.path()), ["copy.db"]);
}

#[test]
fn what_is_there_is_replaced_only_if_that_is_wanted() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().join("copy.db");
    let new = NewFile::begin(&place).unwrap();
    fs::write(&place, "there").unwrap();
    assert_eq!(new.put_in_place(false).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
    assert_eq!((fs::read(&place).unwrap(), names(folder.path())), (b"there".to_vec(), vec!["copy.db".to_owned()]));
    NewFile::begin(&place).unwrap().put_in_place(true).unwrap();
    assert_eq!((fs::read(&place).unwrap(), names(folder.path())), (Vec::new(), vec!["copy.db".to_owned()]));
}

#[test]
fn what_is_given_up_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    drop(NewFile::begin(&folder.path().join("copy.db")).unwrap());
    assert_eq!(names(folder.path()), Vec::<String>::new());
}

#[test]
fn what_a_killed_program_left_is_removed_and_what_another_one_writes_is_not() {
    let folder = tempfile::tempdir().unwrap();
    let left = folder.path().join("monday.db.taskqueue-partial");
    fs::write(&left, "half").unwrap();
    let mut removed = Vec::new();
    remove_leftovers(&folder.path().join("tuesday.db"), &mut |path| removed.push(path.to_owned()));
    assert_eq!(removed, [folder.path().canonicalize().unwrap().join("monday.db.taskqueue-partial")]);
    let written = NewFile::begin(&folder.path().join("tuesday.db")).unwrap();
    remove_leftovers(&folder.path().join("wednesday.db"), &mut |path| panic!("{path:?} is being written"));
    let other = NewFile::begin(&folder.path().join("wednesday.db")).unwrap();
    assert_eq!(names(folder.path()), ["tuesday.db.taskqueue-partial", "wednesday.db.taskqueue-partial"]);
    let refused = NewFile::begin(&folder.path().join("tuesday.db")).err().unwrap();
    assert!(refused.to_string().contains("is being written"), "{refused}");
    written.put_in_place(false).unwrap();
    other.put_in_place(false).unwrap();
    assert_eq!(names(folder.path()), ["tuesday.db", "wednesday.db"]);
}

#[test]
fn a_file_that_somebody_put_in_the_way_is_neither_used_nor_removed() {
    let folder = tempfile::tempdir().unwrap();
    let (place, other) = (folder.path().join("copy.db"), folder.path().join("other"));
    fs::write(&other, "of somebody").unwrap();
    let new = NewFile::begin(&place).unwrap();
    fs::remove_file(new.path()).unwrap();
    std::os::unix::fs::symlink(&other, new.path()).unwrap();
    assert!(new.put_in_place(false).is_err());
    assert_eq!(fs::read(&other).unwrap(), b"of somebody");
    assert!(NewFile::begin(&place).is_err(), "a symbolic link is not followed");
    assert_eq!(fs::read(&other).unwrap(), b"of somebody");
}
