//! A run directory that other users could have prepared or could replace is refused. Files of another user can only be made by root;
//! without root the tests use files that belong to root. All combinations of owner and mode are tested in the crate `worker`.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::path::Path;

use rustix::process::{Signal, geteuid};
use serde_json::json;

use super::server::{Server, task_id};
use super::support::{Setup, Worker};

/// A user that exists on no machine.
const OTHER: u32 = 54_321;

/// Does something to a file or folder before the worker starts.
type Prepare = fn(&Path);

fn permit(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

fn mode(path: &Path) -> u32 {
    fs::symlink_metadata(path).unwrap().permissions().mode() & 0o7777
}

/// Puts a folder of another user here.
fn plant_folder(path: &Path) {
    if geteuid().is_root() {
        fs::create_dir(path).unwrap();
        chown(path, Some(OTHER), Some(OTHER)).unwrap();
    } else {
        symlink("/usr", path).unwrap();
    }
}

/// Starts a worker that has to refuse its run directory before it claims the task; returns its standard error.
#[track_caller]
fn refused(prepare: impl FnOnce(&Path)) -> String {
    let server = Server::with_tasks(1);
    let setup = Setup::new(&server);
    prepare(setup.folder());
    let stderr = setup.sh("true", &[]).finish().fails_with(1, &["not safe from other users", "--run-dir"]);
    assert_eq!(server.task(1)["status"], "pending");
    stderr
}

#[test]
fn a_run_directory_of_another_user_is_refused() {
    let stderr = refused(|folder| plant_folder(&folder.join("runs")));
    assert!(stderr.contains("belongs to another user"), "{stderr}");
}

#[test]
fn a_run_directory_that_everybody_can_write_to_is_refused() {
    for open in [0o777, 0o1777, 0o703] {
        let stderr = refused(|folder| {
            fs::create_dir(folder.join("runs")).unwrap();
            permit(&folder.join("runs"), open);
        });
        assert!(stderr.contains("is writable by everybody; forbid that with chmod go-w"), "{stderr}");
    }
}

#[test]
fn a_run_directory_that_others_can_replace_is_refused() {
    let stderr = refused(|folder| {
        fs::create_dir(folder.join("shared")).unwrap();
        permit(&folder.join("shared"), 0o777);
        symlink("shared/inner", folder.join("runs")).unwrap();
    });
    let told = ["shared, a part of the path, is writable by everybody", "chmod +t"];
    assert!(told.iter().all(|part| stderr.contains(part)), "{stderr}");
    let stderr = refused(|folder| {
        plant_folder(&folder.join("theirs"));
        // Without root, `theirs` is /usr, which is accepted as a parent; so the folder itself is made insecure.
        symlink("theirs/inner", folder.join("runs")).unwrap();
        if !geteuid().is_root() {
            permit(folder, 0o777);
        }
    });
    assert!(stderr.contains("a part of the path"), "{stderr}");
}

#[test]
fn a_sticky_folder_above_the_run_directory_is_fine() {
    let server = Server::with_tasks(1);
    let setup = Setup::new(&server).flags("--max-tasks 1");
    fs::create_dir(setup.folder().join("shared")).unwrap();
    permit(&setup.folder().join("shared"), 0o1777);
    symlink("shared/inner", setup.folder().join("runs")).unwrap();
    let mut worker = setup.sh("true", &[]);
    worker.finish_well();
    assert_eq!((server.count("succeeded"), mode(&worker.path("shared/inner"))), (1, 0o700));
}

#[test]
fn a_run_directory_that_our_own_group_can_write_to_is_closed_to_it() {
    let server = Server::with_tasks(1);
    let setup = Setup::new(&server).flags("--max-tasks 1");
    for folder in ["runs", "runs/undelivered"] {
        fs::create_dir(setup.folder().join(folder)).unwrap();
        permit(&setup.folder().join(folder), 0o775);
    }
    let mut worker = setup.sh("true", &[]);
    worker.finish_well();
    assert_eq!((mode(&worker.path("runs")), mode(&worker.path("runs/undelivered"))), (0o755, 0o755));
}

#[test]
fn a_folder_for_reports_that_was_planted_is_refused() {
    let stderr = refused(|folder| {
        fs::create_dir(folder.join("runs")).unwrap();
        plant_folder(&folder.join("runs/undelivered"));
    });
    assert!(stderr.contains("runs/undelivered"), "{stderr}");
    let stderr = refused(|folder| {
        fs::create_dir_all(folder.join("elsewhere")).unwrap();
        fs::create_dir(folder.join("runs")).unwrap();
        symlink("../elsewhere", folder.join("runs/undelivered")).unwrap();
    });
    assert!(stderr.contains("runs/undelivered is a link"), "{stderr}");
}

#[test]
fn a_report_that_others_can_have_written_is_noted_and_not_delivered() {
    let server = Server::start();
    let setup = Setup::new(&server).flags("--route other");
    let reports = setup.folder().join("runs/undelivered");
    fs::create_dir_all(&reports).unwrap();
    // Runs of another worker, whose run ids an attacker knows.
    let prepare: [(usize, Prepare); 4] = [
        (1, |file| permit(file, 0o666)),
        (2, |file| permit(file, 0o620)),
        (3, |file| {
            fs::rename(file, file.with_extension("moved")).unwrap();
            symlink(file.with_extension("moved"), file).unwrap();
        }),
        (4, |file| if geteuid().is_root() { chown(file, Some(OTHER), None).unwrap() } else { permit(file, 0o602) }),
    ];
    for (n, expose) in prepare {
        server.create_once(n, json!({}));
        let run_id = format!("r_00000000000{n}");
        let claimed = server.call("POST", "/tasks/claim", &json!({"route": "default", "run_id": run_id}));
        assert_eq!(claimed.0, 200, "{claimed:?}");
        let report = json!({"url": server.url(), "queue": "q", "task_id": task_id(n), "run_id": run_id, "action": "complete", "result": {"planted": n}});
        let file = reports.join(format!("{run_id}.json"));
        fs::write(&file, report.to_string()).unwrap();
        permit(&file, 0o600);
        expose(&file);
    }
    let mut worker = setup.sh("true", &[]);
    for (n, why) in [(1, "is writable by everybody"), (2, "is writable by the group"), (3, "is a link"), (4, "")] {
        worker.wait_for_line(format!("r_00000000000{n}.json {why}").trim_end());
    }
    worker.signal(Signal::TERM);
    let stderr = worker.finish_saying(&["a report is not delivered"]);
    assert_eq!((server.count("running"), server.count("succeeded")), (4, 0), "{stderr}");
    assert!(reports_in(&worker).contains(&"r_000000000001.json".to_owned()), "nothing of others is removed");
}

fn reports_in(worker: &Worker) -> Vec<String> {
    let files = fs::read_dir(worker.path("runs/undelivered")).unwrap();
    files.map(|file| file.unwrap().file_name().to_string_lossy().into_owned()).collect()
}

#[test]
fn a_task_folder_that_was_planted_gets_no_run() {
    let plant: [Prepare; 2] = [|path| symlink("../elsewhere", path).unwrap(), plant_folder];
    for plant in plant {
        let server = Server::with_tasks(1);
        let setup = Setup::new(&server).flags("--stop-after-failures 1");
        for folder in ["runs", "elsewhere"] {
            fs::create_dir(setup.folder().join(folder)).unwrap();
        }
        plant(&setup.folder().join("runs").join(task_id(1)));
        let mut worker = setup.sh("touch ran", &[]);
        worker.finish().fails_with(1, &["the run directory is not safe from other users"]);
        assert!(!worker.path("ran").exists());
        assert_eq!(fs::read_dir(worker.path("elsewhere")).unwrap().count(), 0);
        server.assert_state(1, "pending", 0);
    }
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
