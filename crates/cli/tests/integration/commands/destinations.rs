//! Where a token goes: what really arrives at a server that records it, for every way to configure URL and token, and for
//! project files that somebody else has written.

use std::fs;
use std::os::unix::fs::{chown, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

use super::support::{Ran, binary, finish, write};
use crate::support::{FakeServer, reply};

/// An account that is neither root nor, here, the one that runs the tests.
const SOMEBODY: u32 = 65_533;

const REFUSAL: &str = r#"{"error":{"code":"unauthorized","message":"no","details":{}}}"#;

/// A project folder below a home folder, and a server that records.
struct Place {
    home: TempDir,
    server: FakeServer,
}

impl Place {
    fn new() -> Self {
        let place = Self {
            home: tempfile::tempdir().unwrap(),
            server: FakeServer::start(|_| reply("401 Unauthorized", REFUSAL)),
        };
        fs::create_dir_all(place.project()).unwrap();
        fs::create_dir_all(place.home.path().join(".config/taskqueue")).unwrap();
        place
    }

    /// As the program sees it: with links resolved.
    fn project(&self) -> PathBuf {
        self.home.path().canonicalize().unwrap().join("project")
    }

    fn write(&self, name: &str, text: &str, mode: u32) -> PathBuf {
        let path = self.home.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        write(&path, text, mode);
        path
    }

    fn project_file(&self, text: &str) -> PathBuf {
        self.write("project/taskqueue.toml", text, 0o600)
    }

    fn user_file(&self, text: &str) {
        self.write(".config/taskqueue/config.toml", text, 0o600);
    }

    /// `taskqueue queue list` in the project folder.
    fn list(&self) -> Command {
        self.command("queue list")
    }

    /// `taskqueue config show` there.
    fn show(&self) -> Command {
        self.command("config show -o quiet")
    }

    fn command(&self, line: &str) -> Command {
        let mut command = binary(&self.project());
        command.env("HOME", self.home.path()).args(line.split(' '));
        command
    }

    /// What arrives when this command is run, and how it ended.
    fn arrives(&self, command: &mut Command) -> (Vec<Option<String>>, Ran) {
        let ran = finish(command);
        (self.take_tokens(), ran)
    }

    /// The tokens of the requests since the last call, each once; none for a request without one.
    fn take_tokens(&self) -> Vec<Option<String>> {
        let mut tokens: Vec<Option<String>> = self.server.take_requests().iter().map(|head| token_in(head)).collect();
        tokens.dedup();
        tokens
    }
}

fn token_in(head: &str) -> Option<String> {
    let value = |line: &str| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("authorization").then(|| value.trim().to_owned())
    };
    let value = head.lines().find_map(value)?;
    Some(value.strip_prefix("Bearer ").unwrap_or(&value).to_owned())
}

fn token(text: &str) -> Vec<Option<String>> {
    vec![Some(text.to_owned())]
}

/// One request came, and it carried no token.
const WITHOUT: [Option<String>; 1] = [None];

/// Every place of the URL with every set of places that have a token: f is a flag, e the environment, p the project's file,
/// u the user's file. What arrives is the token of the place named last; `-` is none, `x` is no request at all.
#[test]
fn what_arrives_is_the_token_that_may_go_to_the_url() {
    let cases = [
        // The user controls flags, the environment and the user's file: the first token is sent to their URL.
        ("feu", ["", "u", "p", "pu", "e", "eu", "ep", "epu"], ["-", "u", "p", "p", "e", "e", "e", "e"]),
        ("feu", ["f", "fu", "fp", "fpu", "fe", "feu", "fep", "fepu"], ["f"; 8]),
        // A URL of the project's file gets the token of that file and no other; a flag that cannot be obeyed is a mistake.
        ("p", ["", "u", "p", "pu", "e", "eu", "ep", "epu"], ["-", "-", "p", "p", "-", "-", "p", "p"]),
        ("p", ["f", "fu", "fp", "fpu", "fe", "feu", "fep", "fepu"], ["x"; 8]),
    ];
    let place = Place::new();
    place.write("flag-token", "f\n", 0o600);
    for (urls, tokens, expected) in cases {
        for (url, (tokens, expected)) in urls.chars().flat_map(|url| tokens.iter().zip(expected).map(move |x| (url, x)))
        {
            let named = format!("url = '{}'\n", place.server.url());
            let file = |letter: char| {
                let token = if tokens.contains(letter) { format!("token = '{letter}'\n") } else { String::new() };
                if url == letter { named.clone() + &token } else { token }
            };
            place.project_file(&file('p'));
            place.user_file(&file('u'));
            let mut command = place.list();
            match url {
                'f' => drop(command.args(["--url", &place.server.url()])),
                'e' => drop(command.env("TASKQUEUE_URL", place.server.url())),
                _ => {}
            }
            if tokens.contains('f') {
                command.args(["--token-file", "../flag-token"]);
            }
            if tokens.contains('e') {
                command.env("TASKQUEUE_TOKEN", "e");
            }
            let (arrived, ran) = place.arrives(&mut command);
            let expected = match expected {
                "x" => vec![],
                "-" => WITHOUT.to_vec(),
                letter => token(letter),
            };
            assert_eq!(arrived, expected, "URL {url}, tokens {tokens}: {ran:?}");
        }
    }
}

#[test]
fn a_withheld_token_is_reported_with_the_reason_and_the_way_to_send_it() {
    let place = Place::new();
    let url = place.server.url();
    let file = place.project_file(&format!("url = '{url}'"));
    let (arrived, ran) = place.arrives(place.list().env("TASKQUEUE_TOKEN", "hush"));
    assert_eq!(arrived, WITHOUT);
    let message = ran.fails(1);
    let file = file.canonicalize().unwrap();
    let (note, error) = message.split_once("error: ").unwrap();
    for part in ["TASKQUEUE_TOKEN", file.to_str().unwrap(), &url, "--url", "TASKQUEUE_URL"] {
        assert!(note.contains(part) && error.contains(part), "{part} is missing: {message}");
    }
    assert!(note.starts_with("note: ") && error.contains("unauthorized") && !message.contains("hush"), "{message}");
    // The advice of the message works.
    let (arrived, ran) = place.arrives(place.list().env("TASKQUEUE_TOKEN", "hush").args(["--url", &url]));
    assert_eq!((arrived, ran.stderr.contains("note: ")), (token("hush"), false), "{ran:?}");
    finish(place.list().args(["--token-file", "../missing"])).fails_with(2, &["--token-file", "--url"]);
}

#[test]
fn a_project_file_sends_no_token_file_from_outside_its_folder() {
    let place = Place::new();
    let secret = place.write("secret", "hush", 0o600);
    let project = place.project();
    place.write("project/inside/token", "own", 0o600);
    symlink(&secret, project.join("link")).unwrap();
    symlink(place.home.path(), project.join("folder")).unwrap();
    symlink("inside", project.join("near")).unwrap();
    // Inside by its name, outside by the way there; and the other way round.
    let inside = project.join("inside/token");
    let roundabout = format!("{}/../project/inside/token", project.display());
    let outside = [
        secret.to_str().unwrap(),
        "../secret",
        "inside/../../secret",
        "link",
        "folder/secret",
        "folder/project/../secret",
        "folder/../secret",
        "inside/../inside/token",
        &roundabout,
    ];
    let urls = [Some(place.server.url()), None];
    for (path, own_url) in outside.iter().flat_map(|path| urls.iter().map(move |url| (path, url))) {
        let url = own_url.as_ref().map(|url| format!("url = '{url}'\n")).unwrap_or_default();
        place.project_file(&format!("{url}token_file = '{path}'"));
        let mut command = place.list();
        if own_url.is_none() {
            command.env("TASKQUEUE_URL", place.server.url());
        }
        let (arrived, ran) = place.arrives(&mut command);
        assert_eq!(arrived, [], "{path}: {ran:?}");
        let message = ran.fails_with(1, &["token_file", "taskqueue.toml"]);
        assert!(!message.contains("hush"), "{message}");
    }
    for path in
        ["inside/token", "./inside/token", "near/token", "folder/project/inside/token", inside.to_str().unwrap()]
    {
        place.project_file(&format!("url = '{}'\ntoken_file = '{path}'", place.server.url()));
        assert_eq!(place.arrives(&mut place.list()).0, token("own"), "{path}");
    }
}

#[test]
fn a_token_file_that_never_ends_or_never_begins_does_not_hold_a_command_up() {
    let place = Place::new();
    let made = Command::new("mkfifo").arg(place.project().join("fifo")).status().unwrap();
    assert!(made.success());
    place.project_file(&format!("url = '{}'\ntoken_file = 'fifo'", place.server.url()));
    let (arrived, ran) = place.arrives(&mut place.list());
    assert_eq!(arrived, []);
    ran.fails_with(1, &["regular file"]);
    place.project_file("");
    finish(place.list().args(["--token-file", "/dev/zero"])).fails_with(1, &["65536 bytes"]);
    place.project_file(&"#".repeat(65_537));
    finish(&mut place.list()).fails_with(1, &["taskqueue.toml", "65536 bytes"]);
    place.project_file("");
    symlink("/dev/zero", place.home.path().join(".config/taskqueue/config.toml")).unwrap();
    finish(&mut place.list()).fails_with(1, &["config.toml", "65536 bytes"]);
}

#[test]
fn a_project_file_cannot_allow_a_readable_token() {
    let place = Place::new();
    // An address that no one can have (RFC 5737).
    let url = "http://192.0.2.1:1";
    place.project_file(&format!("url = '{url}'\ntoken = 'own'\nallow_insecure_token = true"));
    finish(&mut place.list()).fails_with(1, &["--allow-insecure-token", "is ignored"]);
    place.project_file("allow_insecure_token = true");
    place.user_file("token = 'hush'");
    for set in [None, Some("hush")] {
        let mut command = place.list();
        command.args(["--url", url]).envs(set.map(|token| ("TASKQUEUE_TOKEN", token)));
        let expected = ["would be sent unencrypted", "or --allow-insecure-token"];
        assert!(!finish(&mut command).fails_with(1, &expected).contains("hush"));
    }
    assert!(finish(&mut place.show()).ok().ends_with("allow_insecure_token=false\n"));
    // The user's own file counts, and no project file takes it back.
    place.project_file("allow_insecure_token = false");
    place.user_file("allow_insecure_token = true");
    assert!(finish(&mut place.show()).ok().ends_with("allow_insecure_token=true\n"));
}

/// Gives a file away in every way that this account can: only root changes owners.
fn given_away(path: &Path) -> Vec<&'static str> {
    let root = rustix::process::geteuid().is_root();
    let ways = if root { vec!["owner", "mode", "link"] } else { vec!["mode"] };
    assert!(path.is_file());
    ways
}

#[test]
fn a_project_file_of_somebody_else_is_ignored_with_a_warning() {
    let place = Place::new();
    let text = format!("url = '{}'\nqueue = 'theirs'\ntoken = 'theirs'", place.server.url());
    let above = place.write("taskqueue.toml", "queue = 'above'", 0o644);
    for way in given_away(&above) {
        let path = place.project_file(&text);
        match way {
            "owner" => chown(&path, Some(SOMEBODY), None).unwrap(),
            "mode" => write(&path, &text, 0o606),
            _ => {
                fs::remove_file(&path).unwrap();
                symlink(place.write("elsewhere", &text, 0o600), &path).unwrap();
                std::os::unix::fs::lchown(&path, Some(SOMEBODY), None).unwrap();
            }
        }
        let ran = finish(&mut place.show()).said(&["project/taskqueue.toml", "ignored"]);
        assert!(ran.stderr.starts_with("warning: "), "{way}: {ran:?}");
        let expected = "url=http://127.0.0.1:8000\nqueue=above\ntoken=not set\nallow_insecure_token=false\n";
        assert_eq!(ran.ok(), expected, "{way}");
        fs::remove_file(&path).unwrap();
    }
}

#[test]
fn a_file_of_somebody_else_is_not_even_opened() {
    let place = Place::new();
    let path = place.project_file("this is = no toml");
    for way in given_away(&path).into_iter().filter(|way| *way != "link") {
        match way {
            "owner" => chown(&path, Some(SOMEBODY), None).unwrap(),
            _ => write(&path, "this is = no toml", 0o002),
        }
        finish(&mut place.command("config show")).said(&["ignored"]).ok();
    }
}

#[test]
fn config_show_prints_which_token_would_be_sent_where() {
    let place = Place::new();
    let url = place.server.url();
    let show = |environment: &[(&str, &str)], flags: &[&str]| {
        let ran = finish(place.show().args(flags).envs(environment.iter().copied()));
        assert!(!ran.stderr.contains("hush") && !ran.stdout.contains("hush"), "{ran:?}");
        let stderr = ran.stderr.clone();
        let tokens: Vec<String> =
            ran.ok().lines().filter_map(|line| line.strip_prefix("token=").map(str::to_owned)).collect();
        (tokens, stderr)
    };
    let hush = [("TASKQUEUE_TOKEN", "hush")];
    let sent = format!("sent to {url}");
    assert_eq!(show(&hush, &["--url", &url]).0, [sent.as_str()]);
    place.project_file(&format!("url = '{url}'"));
    place.user_file("token = 'hush'");
    let withheld = "withheld: a project file names the URL";
    let (tokens, message) = show(&hush, &[]);
    assert_eq!(tokens, [withheld; 2]);
    assert!(message.contains("note: ") && message.contains("TASKQUEUE_URL"), "{message}");
    place.project_file(&format!("url = '{url}'\ntoken = 'hush'"));
    let (tokens, message) = show(&hush, &[]);
    assert_eq!((tokens, message.as_str()), (vec![sent, withheld.to_owned(), withheld.to_owned()], ""));
    assert_eq!(show(&hush, &["--url", "http://192.0.2.1:1"]).0, ["not sent: the connection is not encrypted"]);
    assert_eq!(show(&hush, &["--url", "nonsense"]).0, ["not sent: the URL cannot be used"]);
    assert_eq!(show(&[], &["--token-file", "missing"]).0, [&format!("sent to {url}"), withheld, withheld]);
    assert_eq!(place.take_tokens(), [], "showing sends nothing");
}
