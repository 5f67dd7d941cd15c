//! SIGHUP: the server reads its token, its tokens and its certificate again, and goes on. Without it the tokens file and the
//! certificate are followed, too, but only after a moment (`tokens.rs`, `tls.rs`).

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use tempfile::TempDir;

use super::certificates::{PairFiles, shown_certificate};
use super::support::*;

/// A server with files of every kind.
struct Scene {
    folder: TempDir,
    pair: PairFiles,
    server: Server,
}

impl Scene {
    fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let pair = PairFiles::make(folder.path(), "pair", |_| {});
        let (token, tokens) = (folder.path().join("token"), folder.path().join("tokens.toml"));
        write(&token, "first-token\n");
        write(&tokens, "");
        // A start would wait until nobody has changed the file for a second.
        let a_while_ago = SystemTime::now() - Duration::from_secs(60);
        fs::File::options().write(true).open(&tokens).unwrap().set_modified(a_while_ago).unwrap();
        let (token, tokens) = (token.to_str().unwrap(), tokens.to_str().unwrap());
        let files = ["--token-file", token, "--tokens", tokens, "--log-level", "info"];
        let server = Server::launch(None, &[&pair.flags()[..], &files].concat());
        Self { folder, pair, server }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Sends SIGHUP, the nth one, and waits until each file was read.
    fn reload(&self, times: usize) {
        self.server.signal("HUP");
        for file in ["the token file", "the tokens file", "TLS certificate"] {
            let said = |line: &&str| line.contains(file) && !line.contains("connections are encrypted");
            taskqueue_test_postgres::eventually(file, || self.server.stderr().lines().filter(said).count() >= times);
        }
    }

    fn status(&self, token: &str) -> u16 {
        let request = Request::new("GET", "/api/v2/queues").header("Authorization", &format!("Bearer {token}"));
        self.server.send(&request).status
    }
}

/// Replaces the file at once.
fn write(path: &Path, text: &str) {
    let new = path.with_extension("new");
    fs::write(&new, text).unwrap();
    fs::set_permissions(&new, fs::Permissions::from_mode(0o600)).unwrap();
    fs::rename(new, path).unwrap();
}

#[test]
fn sighup_lets_the_server_read_its_token_again_and_a_bad_file_keeps_the_old_one() {
    let scene = Scene::start();
    assert_eq!([scene.status("first-token"), scene.status("second-token")], [200, 401]);
    write(&scene.path("token"), "second-token\n");
    scene.reload(1);
    scene.server.await_log_lines("the token file was read again, and holds another token", 1);
    assert_eq!([scene.status("first-token"), scene.status("second-token")], [401, 200]);

    for (times, bad) in [(2, "two words\n"), (3, "")] {
        write(&scene.path("token"), bad);
        scene.reload(times);
        scene
            .server
            .await_log_lines("the token file cannot be used; the token that was read last stays valid", times - 1);
        assert_eq!(scene.status("second-token"), 200, "{bad:?}");
    }
    fs::remove_file(scene.path("token")).unwrap();
    scene.reload(4);
    assert_eq!(scene.status("second-token"), 200);
    assert!(!scene.server.stderr().contains("second-token"), "{}", scene.server.stderr());
}

#[test]
fn sighup_lets_the_server_read_certificates_and_tokens_at_once() {
    let mut scene = Scene::start();
    let first = shown_certificate(&scene.server.address);
    scene.reload(1);
    for text in [
        "the token file was read again, and is as before",
        "the tokens file was read again, and is as before",
        "the TLS certificate was read again, and is as before",
    ] {
        scene.server.await_log_lines(text, 1);
    }
    let created = run(
        &["token", "create", "new", "--scope", "read", "--append", scene.path("tokens.toml").to_str().unwrap()],
        &[],
    );
    let next = PairFiles::make(scene.folder.path(), "next", |_| {});
    fs::rename(&next.certificate, &scene.pair.certificate).unwrap();
    fs::rename(&next.key, &scene.pair.key).unwrap();
    scene.server.signal("HUP");
    scene.server.await_log_lines("another TLS certificate is shown", 1);
    scene.server.await_log_lines("the tokens file has changed", 1);
    assert_ne!(shown_certificate(&scene.server.address), first);
    assert_eq!(scene.status(created.ok().trim_end()), 200);
    assert_eq!(scene.server.terminate().code(), Some(0));
}
