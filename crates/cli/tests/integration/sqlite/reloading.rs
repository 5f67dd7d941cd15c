//! SIGHUP: the server reads its token, its tokens and its certificate again, and goes on. Without it the tokens file and the
//! certificate are followed, too, but only after a moment (`tokens.rs`, `tls.rs`).

use std::fs;
use std::path::PathBuf;

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
        put_in_place(&token, "first-token\n", 0o600);
        put_in_place(&tokens, "", 0o600);
        make_old(&tokens);
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

#[test]
fn sighup_lets_the_server_read_its_token_again_and_a_bad_file_keeps_the_old_one() {
    let scene = Scene::start();
    assert_eq!([scene.status("first-token"), scene.status("second-token")], [200, 401]);
    put_in_place(&scene.path("token"), "second-token\n", 0o600);
    scene.reload(1);
    scene.server.await_log_lines("the token file was read again, and holds another token", 1);
    assert_eq!([scene.status("first-token"), scene.status("second-token")], [401, 200]);

    for (times, bad) in [(2, "two words\n"), (3, "")] {
        put_in_place(&scene.path("token"), bad, 0o600);
        scene.reload(times);
        let told = "the token file cannot be used; the token that was read last stays valid";
        scene.server.await_log_lines(told, times - 1);
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
    for file in ["token file", "tokens file", "TLS certificate"] {
        scene.server.await_log_lines(&format!("the {file} was read again, and is as before"), 1);
    }
    let tokens = scene.path("tokens.toml");
    let create = ["token", "create", "new", "--scope", "read", "--append", tokens.to_str().unwrap()];
    let created = run(&create, &[]);
    scene.pair.exchange(|_| {});
    scene.server.signal("HUP");
    scene.server.await_log_lines("another TLS certificate is shown", 1);
    scene.server.await_log_lines("the tokens file has changed", 1);
    assert_ne!(shown_certificate(&scene.server.address), first);
    assert_eq!(scene.status(created.ok().trim_end()), 200);
    assert_eq!(scene.server.terminate().code(), Some(0));
}
