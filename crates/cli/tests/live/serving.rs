//! A server that was started in a terminal.

use std::fs;

use taskqueue_test_postgres::eventually;

use crate::terminal::Terminal;

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
    terminal.signal(rustix::process::Signal::TERM);
    assert!(terminal.wait_for_end().0.success());
}

#[test]
fn a_server_whose_terminal_is_gone_stops() {
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path().to_str().unwrap();
    // The end of the shell, which the terminal belongs to, is the end of the terminal for all others.
    let script = format!(
        "{} serve --listen 127.0.0.1:0 --database $HOME/q.db </dev/null >$HOME/out 2>$HOME/log & read line",
        env!("CARGO_BIN_EXE_taskqueue")
    );
    let mut terminal = Terminal::start_program("sh", 80, 10, &["-c", &script], &[("HOME", home)]);
    let log = || fs::read_to_string(folder.path().join("log")).unwrap_or_default();
    eventually("the server", || fs::read_to_string(folder.path().join("out")).is_ok_and(|out| out.contains("http://")));
    terminal.press("\n");
    eventually("the end of the server", || log().contains("stopped"));
    assert!(log().contains("received SIGHUP: the terminal is gone"), "{}", log());
}
