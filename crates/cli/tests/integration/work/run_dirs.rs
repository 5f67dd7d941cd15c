//! A run directory that other users could have prepared or could replace is refused, and nobody else can read what is made there. All
//! owners, modes and links are tested in the crate `worker`.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::path::Path;

use rustix::process::geteuid;

use super::server::{Server, task_id};
use super::support::Setup;

/// A user that exists on no machine.
const OTHER: u32 = 54_321;

fn permit(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

fn mode(path: &Path) -> u32 {
    fs::symlink_metadata(path).unwrap().permissions().mode() & 0o7777
}

/// Puts a folder of another user here. Only root can make one; for others it is one of root.
fn plant_folder(path: &Path) {
    if geteuid().is_root() {
        fs::create_dir(path).unwrap();
        chown(path, Some(OTHER), Some(OTHER)).unwrap();
    } else {
        symlink("/usr", path).unwrap();
    }
}

#[test]
fn a_run_directory_that_is_not_safe_from_other_users_is_refused_before_anything_is_claimed() {
    let server = Server::with_tasks(1);
    let refused = |told: &[&str], prepare: &dyn Fn(&Path)| {
        let setup = Setup::new(&server);
        prepare(setup.folder());
        let told = [&["not safe from other users", "--run-dir"], told].concat();
        setup.sh("true", &[]).finish().fails_with(1, &told);
    };
    refused(&["belongs to another user"], &|folder| plant_folder(&folder.join("runs")));
    refused(&["shared, a part of the path, is writable by everybody", "chmod +t"], &|folder| {
        fs::create_dir(folder.join("shared")).unwrap();
        permit(&folder.join("shared"), 0o777);
        symlink("shared/inner", folder.join("runs")).unwrap();
    });
    refused(&["runs/undelivered is a link"], &|folder| {
        fs::create_dir_all(folder.join("elsewhere")).unwrap();
        fs::create_dir(folder.join("runs")).unwrap();
        symlink("../elsewhere", folder.join("runs/undelivered")).unwrap();
    });
    server.assert_state(1, "pending", 0);
}

#[test]
fn a_task_folder_that_was_planted_gets_no_run() {
    let server = Server::with_tasks(1);
    let setup = Setup::new(&server).flags("--stop-after-failures 1");
    for folder in ["runs", "elsewhere"] {
        fs::create_dir(setup.folder().join(folder)).unwrap();
    }
    symlink("../elsewhere", setup.folder().join("runs").join(task_id(1))).unwrap();
    let mut worker = setup.sh("touch ran", &[]);
    worker.finish().fails_with(1, &["the run directory is not safe from other users"]);
    assert!(!worker.path("ran").exists());
    assert_eq!(fs::read_dir(worker.path("elsewhere")).unwrap().count(), 0);
    server.assert_state(1, "pending", 0);
}

#[test]
fn what_a_worker_makes_is_for_its_user_only_whatever_the_umask() {
    let server = Server::with_tasks(1);
    let setup = Setup::new(&server).flags("--max-tasks 1").under(&["sh", "-c", "umask 000; exec \"$@\"", "sh"]);
    let mut worker = setup.sh("echo said; umask > umask", &[]);
    worker.finish_well();
    assert_eq!(worker.read("umask"), "0000\n", "commands keep theirs");
    let [run] = &worker.runs(1)[..] else { panic!("one run") };
    for (path, expected) in [
        (worker.path("runs"), 0o700),
        (worker.path("runs/undelivered"), 0o700),
        (run.parent().unwrap().to_owned(), 0o700),
        (run.clone(), 0o700),
        (run.join("args.json"), 0o600),
        (run.join("output.log"), 0o600),
    ] {
        assert_eq!(mode(&path), expected, "{}", path.display());
    }
}
