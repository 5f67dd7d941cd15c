//! `backup --with-secrets`, `check DIR` and `restore --from DIR` on the real binary: an installation moves with its TLS key and its
//! tokens, and its clients notice nothing (docs/decisions/0056).

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::{Value, json};
use taskqueue_test_postgres::eventually;
use tempfile::TempDir;

use super::backup::{create_large, names, text};
use super::certificates::PairFiles;
use super::restore::assert_restored;
use super::support::*;

const TOKEN: &str = "the-token-that-nobody-may-see";
const FILES: [&str; 6] = ["manifest.json", "taskqueue.db", "tls-cert.pem", "tls-key.pem", "token", "tokens.toml"];

/// Where an installation has its secrets.
struct Places {
    folder: TempDir,
}

impl Places {
    fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The flags of an installation here, as `serve` gets them; `restore` and `backup` get them too.
    fn flags(&self) -> Vec<String> {
        let [database, token, tokens] = ["q.db", "token", "tokens.toml"].map(|name| text(&self.path(name)).to_owned());
        [["--database".into(), database], ["--token-file".into(), token], ["--tokens".into(), tokens]].concat()
    }

    /// Every file with its content, also in folders.
    fn contents(&self) -> Vec<(PathBuf, Vec<u8>)> {
        fn add(folder: &Path, found: &mut Vec<(PathBuf, Vec<u8>)>) {
            for entry in fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() { add(&path, found) } else { found.push((path.clone(), fs::read(&path).unwrap())) }
            }
        }
        let mut found = Vec::new();
        add(self.folder.path(), &mut found);
        found.sort();
        found
    }
}

/// Runs a command, of which nothing may show the token.
fn run_hushed(arguments: &[&str], flags: &[String]) -> Ran {
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    let exit = run(&[arguments, &flags[..]].concat(), &[]);
    let shown = format!("{exit:?}");
    assert!(!shown.contains(TOKEN) && !shown.contains("PRIVATE KEY"), "{shown}");
    exit
}

/// An installation with a key of its own, a token and one more in a tokens file; its pin and that other token.
struct Installation {
    places: Places,
    server: Server,
    pin: String,
    reader: String,
}

impl Installation {
    fn start() -> Self {
        let places = Places::new();
        put_in_place(&places.path("token"), &format!("{TOKEN}\n"), 0o600);
        let tokens = places.path("tokens.toml");
        let made =
            run(&["token", "create", "reader", "--scope", "read", "--append", text(&tokens), "-o", "quiet"], &[]);
        make_old(&tokens);
        let (server, pin) = serve(&places);
        Self { places, server, pin, reader: made.ok().trim_end().to_owned() }
    }

    fn back_up(&self, to: &Path, more: &[&str]) -> Ran {
        run_hushed(&[&["backup", "--with-secrets", "--to", text(to)], more].concat(), &self.places.flags())
    }

    /// A backup of it, whole.
    fn backed_up(&self) -> (TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let to = folder.path().join("backup");
        let told = self.back_up(&to, &[]).ok_quietly();
        assert_eq!(told.lines().count(), 1, "{told}");
        (folder, to)
    }
}

/// A server with a key that it made or found, and its pin.
fn serve(places: &Places) -> (Server, String) {
    let flags = places.flags();
    let arguments = ["--tls-self-signed", "--queue", "q"].into_iter().chain(flags.iter().map(String::as_str));
    let mut server = Server::with_arguments(&arguments.collect::<Vec<_>>());
    server.token = Some(TOKEN.to_owned());
    let line = server.next_line();
    let (_, pin) = line.split_once(" --tls-pin ").expect("the pin");
    let pin = pin.to_owned();
    (server, pin)
}

fn restore(from: &Path, to: &Places, more: &[&str]) -> Ran {
    run_hushed(&[&["restore", "--from", text(from)], more].concat(), &to.flags())
}

/// What a client that knows the old server sees.
fn tasks_seen(server: &Server, pin: &str, token: &str) -> Vec<String> {
    let url = format!("https://{}", server.address);
    let list = ["task", "list", "--queue", "q", "--output", "quiet", "--url", &url, "--tls-pin", pin];
    run(&list, &[("TASKQUEUE_TOKEN", token)]).ok().lines().map(str::to_owned).collect()
}

#[test]
fn an_installation_moves_with_its_key_and_tokens_and_its_clients_notice_nothing() {
    let mut old = Installation::start();
    old.server.create(1, json!({}));
    let (_folder, backup) = old.backed_up();
    assert_eq!(names(&backup), FILES);
    assert_eq!(mode(&backup), 0o700);
    assert!(FILES.iter().all(|name| mode(&backup.join(name)) == 0o600));
    let sound = run_hushed(&["check", text(&backup)], &[]).ok_quietly();
    let (begin, end) = ("sound: 1 queue, 1 task, ", "5 files as the manifest says\n");
    assert!(sound.starts_with(begin) && sound.ends_with(end), "{sound}");

    old.server.terminate();
    let new = Places::new();
    assert_restored(restore(&backup, &new, &[]));
    assert_eq!((mode(&new.path("q.db.tls")), mode(&new.path("q.db"))), (0o700, 0o600));
    let secrets = [("q.db.tls/key.pem", 0o600), ("token", 0o600), ("tokens.toml", 0o644), ("q.db.tls/cert.pem", 0o644)];
    for (name, expected) in secrets {
        assert_eq!(mode(&new.path(name)), expected, "{name}");
        assert!(fs::read(new.path(name)).unwrap() == fs::read(old.places.path(name)).unwrap(), "{name}");
    }
    let (server, pin) = serve(&new);
    assert_eq!(pin, old.pin);
    for token in [TOKEN, &old.reader] {
        assert_eq!(tasks_seen(&server, &old.pin, token), [task_id(1)]);
    }
}

#[test]
fn check_says_which_secrets_of_a_backup_others_can_read() {
    let (_folder, backup) = Installation::start().backed_up();
    set_mode(&backup.join("token"), 0o640);
    set_mode(&backup.join("tokens.toml"), 0o644);
    let checked = run_hushed(&["check", text(&backup)], &[]);
    assert_eq!((checked.stdout.lines().count(), checked.stderr.lines().count()), (1, 1), "{checked:?}");
    let token = backup.join("token");
    let expected = format!("can read {0} (mode 0640); run: chmod go= {0}", text(&token));
    checked.fails_with(0, &["warning: ", &expected]);
}

#[test]
fn what_is_copied_and_what_is_not_there_is_said_and_it_is_checked_alone() {
    let (server, folder) = (Server::alone(), tempfile::tempdir().unwrap());
    let (database, to) = (server.database.argument(), folder.path().join("backup"));
    let arguments = ["backup", "--with-secrets", "--database", &database, "--to", text(&to)];
    let parts = [": taskqueue.db; not there: ", "a TLS key (", "a token (", "a tokens file ("];
    run(&arguments, &[]).ok_with(&parts);
    assert_eq!(names(&to), ["manifest.json", "taskqueue.db"]);
    assert_refuses(&arguments, &[]);

    // It is checked without a database besides.
    for flags in [["--database", "taskqueue.db"], ["--database", database.as_str()], ["--database-schema", "s"]] {
        run(&[&["check", text(&to)], &flags[..]].concat(), &[]).fails_with(2, &[flags[0]]);
    }
    let elsewhere = [("TASKQUEUE_DATABASE", "elsewhere.db"), ("TASKQUEUE_DATABASE_SCHEMA", "s")];
    run(&["check", text(&to)], &elsewhere).ok();

    // From variables, with a certificate of others.
    let pair = PairFiles::make(folder.path(), "pair", |_| {});
    let environment = [
        ("TASKQUEUE_TOKEN", TOKEN),
        ("TASKQUEUE_TLS_CERT", text(&pair.certificate)),
        ("TASKQUEUE_TLS_KEY", text(&pair.key)),
    ];
    let told = run(&[&arguments[..], &["--replace", "--output", "json"]].concat(), &environment).ok_quietly();
    assert!(!told.contains(TOKEN), "{told}");
    let told: Value = serde_json::from_str(&told).unwrap();
    let files: Vec<&Value> = told["files"].as_array().unwrap().iter().map(|file| &file["name"]).collect();
    assert_eq!(files, ["taskqueue.db", "tls-cert.pem", "tls-key.pem", "token"]);
    assert_eq!((&told["not_there"], &told["tasks"]), (&json!(["tokens.toml"]), &json!(0)));
    assert_eq!(told["files"][3]["path"], "TASKQUEUE_TOKEN");
    assert_eq!(fs::read_to_string(to.join("token")).unwrap(), format!("{TOKEN}\n"));
    assert_eq!(names(folder.path()), ["backup", "pair.cert", "pair.key"], "the earlier backup is gone");
}

#[test]
fn a_secret_that_a_flag_names_and_that_is_not_there_leaves_no_backup() {
    let (server, folder) = (Server::alone(), tempfile::tempdir().unwrap());
    let (database, missing, to) = (server.database.argument(), folder.path().join("x"), folder.path().join("backup"));
    let backup = ["backup", "--with-secrets", "--database", &database, "--to", text(&to)];
    let own_key = format!("--tls-self-signed={}", text(&missing));
    let cases: [&[&str]; 3] = [&["--token-file", text(&missing)], &["--tokens", text(&missing)], &[&own_key]];
    for flags in cases {
        assert!(assert_refuses(&[&backup[..], flags].concat(), &[]).contains("cannot read"), "{flags:?}");
    }
    assert_eq!(names(folder.path()), Vec::<String>::new());
}

#[test]
fn a_damaged_or_missing_file_is_found_by_check_and_nothing_is_restored() {
    let installation = Installation::start();
    let (_folder, backup) = installation.backed_up();
    let whole: Vec<(PathBuf, Vec<u8>)> =
        FILES.iter().map(|name| (backup.join(name), fs::read(backup.join(name)).unwrap())).collect();
    for name in &FILES[1..] {
        let path = backup.join(name);
        let mut bytes = fs::read(&path).unwrap();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        let changes: [(Option<Vec<u8>>, &str); 3] = [
            (Some(bytes.clone()), "was changed"),
            (Some(bytes[..middle].to_vec()), "bytes, and had"),
            (None, "is missing"),
        ];
        for (content, why) in changes {
            match content {
                Some(content) => fs::write(&path, content).unwrap(),
                None => fs::remove_file(&path).unwrap(),
            }
            let checked = run_hushed(&["check", text(&backup)], &[]);
            let line = &checked.stdout;
            assert!(line.starts_with(&format!("manifest: {name} ")) && line.contains(why), "{line}");
            assert_eq!(line.lines().count(), 1, "{line}");
            checked.fails_with(1, &["1 problem in the backup"]);
            let new = Places::new();
            restore(&backup, &new, &[]).fails_with(1, &["nothing was changed", why]);
            assert!(new.contents().is_empty());
        }
        whole.iter().for_each(|(path, bytes)| fs::write(path, bytes).unwrap());
    }
    for (content, why) in [(Some("{}"), "damaged"), (None, "has no manifest.json")] {
        match content {
            Some(content) => fs::write(backup.join("manifest.json"), content).unwrap(),
            None => fs::remove_file(backup.join("manifest.json")).unwrap(),
        }
        assert_refuses_with(&["check", text(&backup)], &[], &[why]);
    }
}

#[test]
fn a_restore_over_what_exists_is_refused_and_changes_nothing() {
    let mut installation = Installation::start();
    let (_folder, backup) = installation.backed_up();
    installation.server.terminate();
    let cases: [(&str, &[&str], &str); 5] = [
        ("token", &[], "token exists"),
        ("tokens.toml", &["--replace"], "tokens.toml exists"),
        ("q.db.tls/key.pem", &["--replace"], "key.pem exists"),
        ("q.db", &[], "q.db or its log exists"),
        ("q.db", &["--replace"], "is not a database of taskqueue"),
    ];
    for (name, more, why) in cases {
        let new = Places::new();
        fs::create_dir_all(new.path(name).parent().unwrap()).unwrap();
        fs::write(new.path(name), "somebody else's").unwrap();
        let before = new.contents();
        restore(&backup, &new, more).refuses_with(1, &[why]);
        assert_eq!(new.contents(), before, "{name}");
        assert_eq!(new.path("q.db.tls").exists(), name.starts_with("q.db.tls"), "{name}");
    }
}

#[test]
fn a_restore_that_is_killed_is_run_again_and_finds_its_own_secrets() {
    let installation = Installation::start();
    create_large(&installation.server, 0, 20);
    let (_folder, backup) = installation.backed_up();
    let new = Places::new();
    // A signal ends it when its file has 512 KiB: in the middle of the database.
    let limit = ["sh", "-c", "ulimit -f 1024; exec \"$@\"", "sh"];
    let flags = new.flags();
    let arguments: Vec<&str> =
        ["restore", "--from", text(&backup)].into_iter().chain(flags.iter().map(String::as_str)).collect();
    let killed = run_inside(&limit, &arguments);
    assert_eq!(killed.code, None, "{killed:?}");
    assert!(new.path("token").exists() && !new.path("q.db").exists());
    let said = restore(&backup, &new, &[]).fails(0);
    assert_eq!(said.matches("is already there").count(), 4, "{said}");
    let (server, pin) = serve(&new);
    assert_eq!(pin, installation.pin);
    assert_eq!(tasks_seen(&server, &pin, TOKEN).len(), 20);
}

#[test]
fn a_backup_that_is_killed_leaves_no_folder_of_that_name_and_the_next_one_cleans_up() {
    let installation = Installation::start();
    create_large(&installation.server, 0, 60);
    let folder = tempfile::tempdir().unwrap();
    let (to, partial) = (folder.path().join("backup"), folder.path().join("backup.taskqueue-partial"));
    let mut command = Command::new(env!("CARGO_BIN_EXE_taskqueue"));
    command.args(["backup", "--with-secrets", "--rate", "1", "--to", text(&to)]).args(installation.places.flags());
    let mut killed = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let copy = partial.join("taskqueue.db.taskqueue-partial");
    eventually("the backup copies", || fs::metadata(&copy).is_ok_and(|found| found.len() > 0));
    assert_eq!(mode(&partial), 0o700);
    killed.kill().unwrap();
    killed.wait().unwrap();
    assert_eq!(names(folder.path()), ["backup.taskqueue-partial"]);
    let said = installation.back_up(&to, &[]).fails_with(0, &[&format!("removed {}", text(&partial))]);
    assert_eq!(said.lines().count(), 1, "{said}");
    assert_eq!((names(folder.path()), names(&to)), (vec!["backup".to_owned()], FILES.map(str::to_owned).to_vec()));
}

#[test]
fn every_secret_of_a_backup_needs_a_place() {
    let installation = Installation::start();
    let (_folder, backup) = installation.backed_up();
    let new = Places::new();
    let [database, token] = ["q.db", "token"].map(|name| new.path(name));
    let arguments = ["restore", "--from", text(&backup), "--database", text(&database)];
    let cases: [(&[&str], &str); 2] = [(&[], "--token-file"), (&["--token-file", text(&token)], "--tokens")];
    for (more, flag) in cases {
        run(&[&arguments[..], more].concat(), &[]).fails_with(2, &[flag]);
    }
    assert!(new.contents().is_empty());
    // The database alone.
    let file = backup.join("taskqueue.db");
    run(&["restore", "--from", text(&file), "--database", text(&database)], &[]).ok();
}

#[test]
fn of_an_installation_with_postgresql_the_secrets_alone_are_copied() {
    const URL: &str = "postgres://u:hush@localhost/d";
    let (folder, key_folder) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let to = folder.path().join("backup");
    let key = format!("--tls-self-signed={}", text(&key_folder.path().join("tls")));
    let backup = ["backup", "--with-secrets", "--database", URL, "--to", text(&to)];
    assert_refuses_with(&backup, &[], &["nothing to back up"]);
    let told = run(&backup, &[("TASKQUEUE_TOKEN", TOKEN)]).ok_quietly();
    assert!(told.contains(": token; not there: the database (") && told.contains("pg_dump"), "{told}");
    assert!(!told.contains("hush"), "{told}");
    assert_eq!(names(&to), ["manifest.json", "token"]);
    assert_eq!(run(&["check", text(&to)], &[]).ok(), "sound: 1 file as the manifest says; no database\n");
    let place = folder.path().join("token");
    let restore = ["restore", "--from", text(&to), "--token-file", text(&place), &key, "--database"];
    run(&[&restore[..], &["q.db"]].concat(), &[]).fails(2);
    run(&[&restore[..], &[URL]].concat(), &[]).ok_quietly();
    assert_eq!((fs::read_to_string(&place).unwrap(), mode(&place)), (format!("{TOKEN}\n"), 0o600));
    assert!(!key_folder.path().join("tls").exists(), "there was no key in the backup");
}

#[test]
fn a_tokens_file_is_made_for_everybody_whatever_the_umask() {
    let folder = tempfile::tempdir().unwrap();
    let tokens = folder.path().join("tokens.toml");
    let umask = ["sh", "-c", "umask 077; exec \"$@\"", "sh"];
    run_inside(&umask, &["token", "create", "a", "--scope", "read", "--append", text(&tokens)]).ok();
    assert_eq!(mode(&tokens), 0o644);
}

#[test]
fn a_backup_in_a_file_is_of_the_database_alone() {
    let (server, folder) = (Server::alone(), tempfile::tempdir().unwrap());
    let (database, to) = (server.database.argument(), folder.path().join("copy.db"));
    let backup = ["backup", "--database", &database, "--to", text(&to)];
    let cases: [&[&str]; 3] = [&["--token-file", "x"], &["--tokens", "x"], &["--tls-self-signed"]];
    for flags in cases {
        run(&[&backup[..], flags].concat(), &[]).fails_with(2, &[flags[0], "--with-secrets"]);
    }
    let variables = [("TASKQUEUE_TOKENS", "x"), ("TASKQUEUE_TOKEN", TOKEN)];
    // What is set for the server does not matter.
    run(&backup, &variables).ok_quietly();
    let new = folder.path().join("new.db");
    let restore = ["restore", "--from", text(&to), "--database", text(&new)];
    run(&[&restore[..], &["--token-file", "x"]].concat(), &[]).fails_with(2, &["--token-file"]);
    run(&restore, &variables).ok();
    assert!(to.is_file() && new.is_file());
}
