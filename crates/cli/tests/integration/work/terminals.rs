//! A worker in a real terminal: its commands have their own terminal, and the status line does not disturb the output.

use std::path::Path;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use tempfile::TempDir;

use super::processes;
use super::server::Server;
use super::support::until;
use crate::live::terminal::Terminal;

const CTRL_C: &str = "\u{3}";
const CTRL_Z: &str = "\u{1a}";

/// The folder of a test, which is the `HOME` of everything that it starts. What is still alive at its end is killed: a failed test leaves
/// a worker that has left the group of the terminal's program.
struct Home(TempDir);

impl Home {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn text(&self) -> String {
        self.path().to_str().unwrap().to_owned()
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        // Again, because a process may have started another one meanwhile.
        for _ in 0..10 {
            for process in processes::started_with("HOME", &self.text()) {
                let _ = kill_process(Pid::from_raw(process.pid).unwrap(), Signal::KILL);
            }
        }
    }
}

/// A worker in a terminal of 100 columns and 24 rows, and what it leaves in its folder.
struct Scene {
    terminal: Terminal,
    folder: Home,
}

impl Scene {
    fn start(server: &Server, flags: &str, script: &str) -> Self {
        let folder = Home::new();
        let home = folder.text();
        let runs = format!("{home}/runs");
        let mut arguments = vec!["loop", "--run-dir", &runs, "--heartbeat", "0.2"];
        arguments.extend(flags.split_whitespace());
        arguments.extend(["--", "sh", "-c", script]);
        let url = server.url();
        let environment = [("TASKQUEUE_URL", url.as_str()), ("TASKQUEUE_QUEUE", "q"), ("HOME", &home)];
        Self { terminal: Terminal::start(100, 24, &arguments, &environment), folder }
    }

    fn write(&self, name: &str) {
        std::fs::write(self.folder.path().join(name), "").unwrap();
    }

    /// Waits for exit code 0; returns the screen and the folder.
    #[track_caller]
    fn finish(self) -> (String, Home) {
        let (status, screen) = self.terminal.wait_for_end();
        assert_eq!(status.code(), Some(0), "{screen}");
        let left = processes::started_with("HOME", &self.folder.text());
        assert!(left.is_empty(), "{left:?}");
        (screen, self.folder)
    }
}

#[test]
fn a_command_has_a_terminal_of_the_same_size_and_is_notified_of_changes() {
    let server = Server::with_tasks(1);
    let script = "trap 'stty size < /dev/tty' WINCH; [ -t 1 ] && [ -t 2 ] && echo yes a terminal; \
                  stty size < /dev/tty; while [ ! -e $HOME/go ]; do sleep 0.05; done";
    let mut scene = Scene::start(&server, "--max-tasks 1", script);
    let screen = scene.terminal.wait_for("24 100");
    assert!(screen.contains("yes a terminal"), "{screen}");
    scene.terminal.resize(90, 30);
    scene.terminal.wait_for("30 90");
    scene.write("go");
    let (screen, _) = scene.finish();
    assert!(screen.contains("succeeded t_000000000001"), "{screen}");
}

#[test]
fn the_status_line_shows_what_runs_and_is_removed_at_the_end() {
    let server = Server::start();
    let mut scene = Scene::start(&server, "", "echo working; while [ ! -e $HOME/go ]; do sleep 0.05; done");
    scene.terminal.wait_for("q/default: idle for");
    server.create_once(1, json!({}));
    scene.terminal.wait_until("what runs", |screen| {
        screen.contains("working") && screen.contains("q/default: running t_000000000001")
    });
    scene.write("go");
    scene.terminal.wait_until("what was done", |screen| {
        screen.contains("succeeded t_000000000001") && screen.contains("| 1 succeeded")
    });
    scene.terminal.press(CTRL_C);
    let (screen, _) = scene.finish();
    let lines: Vec<&str> = screen.lines().map(str::trim_end).collect();
    assert!(!screen.contains("q/default:"), "{screen}");
    assert!(lines.contains(&"working"), "{screen}");
    assert!(lines.iter().any(|line| line.starts_with("ended (stopped): 1 succeeded, 0 failed")), "{screen}");
}

#[test]
fn ctrl_c_is_one_request_and_does_not_reach_the_command() {
    let server = Server::with_tasks(1);
    let script = "trap 'echo interrupted' INT; echo begun; while [ ! -e $HOME/go ]; do sleep 0.05; done; echo finished";
    let mut scene = Scene::start(&server, "", script);
    scene.terminal.wait_for("begun");
    scene.terminal.press(CTRL_C);
    scene.terminal.wait_for("stopping: 1 running may finish");
    scene.write("go");
    let (screen, _) = scene.finish();
    assert!(screen.contains("finished") && !screen.contains("interrupted"), "{screen}");
    assert!(!screen.contains("given back;"), "{screen}");
    assert_eq!(server.task(1)["status"], "succeeded");
}

#[test]
fn ctrl_c_twice_gives_back() {
    let server = Server::with_tasks(1);
    let mut scene = Scene::start(&server, "", "echo begun; exec sleep 1000");
    scene.terminal.wait_for("begun");
    scene.terminal.press(CTRL_C);
    scene.terminal.wait_for("may finish");
    // Signals that follow faster count as the same request.
    let pressed = Instant::now();
    until("the next moment", || pressed.elapsed() > Duration::from_millis(60));
    scene.terminal.press(CTRL_C);
    let (screen, _) = scene.finish();
    assert!(screen.contains("released t_000000000001"), "{screen}");
    server.assert_state(1, "pending", 0);
}

#[test]
fn progress_bars_look_as_they_do_without_a_worker() {
    let server = Server::with_tasks(1);
    let script = r"printf 'first\n'; for i in 1 2 3; do printf '\r%s0%% of it' $i; sleep 0.05; done;
        while [ ! -e $HOME/go ]; do sleep 0.05; done; printf '\r100%% of it\n'; printf '\033[1mbold\033[0m\n'; ln -s $TASKQUEUE_RUN_DIR/output.log $HOME/log";
    let mut scene = Scene::start(&server, "--max-tasks 1", script);
    let screen = scene.terminal.wait_for("30% of it");
    let line = |screen: &str, text: &str| screen.lines().any(|line| line.trim_end() == text);
    assert!(line(&screen, "first") && line(&screen, "30% of it"), "{screen}");
    scene.write("go");
    let (screen, folder) = scene.finish();
    for text in ["first", "100% of it", "bold"] {
        assert!(line(&screen, text), "{text} in\n{screen}");
    }
    let log = std::fs::read_to_string(folder.path().join("log")).unwrap();
    assert!(log.starts_with("first\n\r10% of it\r20%") && log.contains("\n\u{1b}[1mbold"), "{log:?}");
}

#[test]
fn the_end_of_the_terminal_is_a_request_to_stop() {
    let server = Server::with_tasks(1);
    let scene = Scene::start(&server, "--on-stop release", "echo > $HOME/begun; exec sleep 1000");
    until("the run", || scene.folder.path().join("begun").exists());
    let home = scene.folder.text();
    scene.terminal.signal(Signal::HUP);
    until("the end of everything", || processes::started_with("HOME", &home).is_empty());
    assert_eq!(server.task(1)["attempt"], 0);
}

#[test]
fn several_commands_have_no_terminal_and_their_lines_are_told_apart() {
    let server = Server::with_tasks(2);
    let script = "[ -t 1 ] || echo no terminal; echo >> $HOME/begun; \
                  while [ $(wc -l < $HOME/begun) -lt 2 ]; do sleep 0.02; done";
    let scene = Scene::start(&server, "--max-tasks 2 --jobs 2", script);
    let (screen, _) = scene.finish();
    for slot in ["0 t_", "1 t_"] {
        let is_told = |line: &str| line.starts_with(slot) && line.trim_end().ends_with(" | no terminal");
        assert!(screen.lines().any(is_told), "{screen}");
    }
}

/// A shell with job control, in whose foreground a worker is started. After Ctrl-Z the shell waits for the file `back` and then
/// brings the worker back.
const SHELL: &str = r#"set -m
"$BINARY" loop --run-dir "$HOME/runs" --heartbeat 0.2 --max-tasks 1 -- sh -c "$SCRIPT"
echo the shell is back
while [ -d "$HOME" ] && [ ! -e "$HOME/back" ]; do sleep 0.05; done
fg >/dev/null
echo the worker has ended
"#;

#[test]
fn ctrl_z_gives_the_terminal_to_the_shell_and_leases_are_still_renewed() {
    let server = Server::with_tasks(1);
    // Dropped after the terminal.
    let folder = Home::new();
    let (home, url) = (folder.text(), server.url());
    let script = "trap 'echo told > $HOME/told; exit 0' TERM; echo begun; while [ -d $HOME ]; do sleep 0.05; done";
    let binary = env!("CARGO_BIN_EXE_taskqueue");
    let environment = [
        ("TASKQUEUE_URL", url.as_str()),
        ("TASKQUEUE_QUEUE", "q"),
        ("HOME", &home),
        ("BINARY", binary),
        ("SCRIPT", script),
    ];
    let mut terminal = Terminal::start_program("sh", 100, 24, &["-c", SHELL], &environment);
    terminal.wait_for("begun");
    terminal.press(CTRL_Z);
    terminal.wait_until("both the shell and the worker's line", |screen| {
        screen.contains("the shell is back") && screen.contains("Ctrl-Z does not stop this worker")
    });
    // Heartbeats go on: the next one says that the task was cancelled, and the command is stopped.
    server.cancel(1);
    until("the end of the command", || folder.path().join("told").exists());
    let screen = terminal.wait_for("revoked t_000000000001");
    let after = screen.split("the shell is back").nth(1).unwrap();
    assert!(!after.contains("q/default:"), "no status line in the shell's terminal:\n{screen}");
    std::fs::write(folder.path().join("back"), "").unwrap();
    terminal.wait_for("the worker has ended");
    until("the end of everything", || processes::started_with("HOME", &home).is_empty());
}
