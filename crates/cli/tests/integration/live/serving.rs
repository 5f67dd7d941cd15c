//! A server that was started in a terminal.

use std::fs;

use rustix::process::{Pid, Signal, kill_process};
use taskqueue_test_postgres::eventually;
use tempfile::TempDir;

use super::terminal::Terminal;

#[test]
fn who_starts_a_server_in_a_terminal_is_told_where_to_look_and_how_to_begin() {
    let folder = tempfile::tempdir().unwrap();
    let database = folder.path().join("q.db");
    let arguments =
        ["serve", "--listen", "127.0.0.1:0", "--log-level", "error", "--database", database.to_str().unwrap()];
    let mut terminal = Terminal::start(200, 10, &arguments, &[]);
    let screen = terminal.wait_for("taskqueue loop -- echo");
    let lines: Vec<&str> = screen.lines().collect();
    assert!(lines.len() == 3 && lines[0].starts_with("http://127.0.0.1:"), "{screen}");
    assert_eq!(lines[1], format!("dashboard: {}/ui/", lines[0]));
    assert!(lines[2].starts_with("to begin, in another terminal: export TASKQUEUE_URL=http://"), "{screen}");
    terminal.signal(Signal::TERM);
    terminal.ends_with(0, &[]);
}

/// A server that a shell has started in a terminal, in the background. The shell has ended since, and with it the terminal.
struct BackgroundServer {
    folder: TempDir,
    terminal: Terminal,
}

impl BackgroundServer {
    /// `shell` has the flags of the shell, `wrapper` stands before the server.
    fn start(shell: &str, wrapper: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let home = folder.path().to_str().unwrap();
        let script = format!(
            "{wrapper} {} serve --listen 127.0.0.1:0 --database $HOME/q.db </dev/null >$HOME/out 2>$HOME/log & \
             echo $! >$HOME/pid; read line",
            env!("CARGO_BIN_EXE_taskqueue")
        );
        let terminal = Terminal::start_program("sh", 80, 10, &[shell, &script], &[("HOME", home)]);
        let mut server = Self { folder, terminal };
        eventually("the server", || server.text("out").contains("http://"));
        // The end of the shell, which the terminal belongs to, is the end of the terminal for all others.
        server.terminal.press("\n");
        server
    }

    fn text(&self, name: &str) -> String {
        fs::read_to_string(self.folder.path().join(name)).unwrap_or_default()
    }

    fn pid(&self) -> Option<Pid> {
        Pid::from_raw(self.text("pid").trim().parse().ok()?)
    }

    #[track_caller]
    fn await_log(&self, text: &str) {
        eventually(text, || self.text("log").contains(text));
    }

    fn signal(&self, signal: Signal) {
        kill_process(self.pid().unwrap(), signal).unwrap();
    }
}

impl Drop for BackgroundServer {
    fn drop(&mut self) {
        // Unless it has ended. Its number is not given to another process so soon.
        if let Some(pid) = self.pid() {
            let _ = kill_process(pid, Signal::KILL);
        }
    }
}

#[test]
fn a_server_whose_terminal_is_gone_stops() {
    let server = BackgroundServer::start("-c", "");
    server.await_log("received SIGHUP: the terminal is gone");
    server.await_log("stopped");
}

#[test]
fn a_server_with_nohup_goes_on_without_its_terminal() {
    let server = BackgroundServer::start("-c", "nohup");
    server.await_log("received SIGHUP: the files of tokens and certificates are read again");
    server.signal(Signal::TERM);
    server.await_log("stopped");
    assert!(!server.text("log").contains("the terminal is gone"), "{}", server.text("log"));
}

#[test]
fn a_server_that_has_outlived_its_terminal_is_not_stopped_by_a_later_hangup() {
    // A job of its own, which nobody tells of the end of the terminal.
    let server = BackgroundServer::start("-mc", "");
    server.await_log("the terminal is gone, and nobody told this server to stop: it goes on");
    server.signal(Signal::HUP);
    server.await_log("received SIGHUP: the files of tokens and certificates are read again");
    server.signal(Signal::TERM);
    server.await_log("stopped");
}
