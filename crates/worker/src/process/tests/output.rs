//! The output of commands, also when log or relay fail.

use rustix::process::Pid;

use super::*;

#[tokio::test]
async fn output_is_relayed_and_kept_and_its_end_reported() {
    let finished = Trial::shell("echo out; echo err >&2; exit 1").run().await;
    assert_eq!((finished.relayed(Stream::Stdout), finished.relayed(Stream::Stderr)), ("out\n".into(), "err\n".into()));
    assert!(finished.chunks.iter().all(|chunk| chunk.label.is_none()));
    let mut lines: Vec<&str> = finished.log.as_ref().unwrap().lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, ["err", "out"]);
    assert_eq!(finished.end().tail, "err\n");
}

#[tokio::test]
async fn a_child_may_close_its_output_and_go_on() {
    let finished = Trial::shell("echo before; exec >&- 2>&-; sleep 0.1; exit 7").run().await;
    assert_eq!(finished.end().status, exited(7));
    assert_eq!(finished.log.as_deref(), Some("before\n"));
}

#[tokio::test]
async fn lines_are_relayed_whole() {
    let mut trial = Trial::shell("printf one; sleep 0.05; echo ' two'; printf three; sleep 0.05; printf ' four'");
    trial.spec.output.label = Some("0".into());
    let finished = trial.run().await;
    let chunks: Vec<&[u8]> = finished.chunks.iter().map(|chunk| chunk.bytes.as_slice()).collect();
    assert_eq!(chunks, [b"one two\n".as_slice(), b"three four"]);
}

#[tokio::test]
async fn a_log_that_cannot_be_written_is_noted_and_fails_nothing() {
    for (path, reason) in [("/dev/full", "No space left on device"), ("/dev/null/output.log", "Not a directory")] {
        let mut trial = Trial::shell("echo one; sleep 0.05; echo two; exit 0");
        trial.spec.output.log = path.into();
        let finished = trial.run().await;
        let note = finished.end().log_note.clone().unwrap();
        assert!(note.starts_with(path) && note.contains(reason), "{note}");
        assert_eq!(finished.end().status, exited(0));
        assert_eq!(finished.relayed(Stream::Stdout), "one\ntwo\n");
        assert_eq!(finished.relayed(Stream::Stderr), format!("taskqueue: {note}\n"));
    }
}

#[tokio::test]
async fn a_log_ends_at_its_limit_and_says_so() {
    let mut trial = Trial::shell("seq 1 100000; echo the end");
    trial.spec.output.log_cap_bytes = 1000;
    let finished = trial.run().await;
    let log = finished.log.as_ref().unwrap();
    assert!(log.starts_with("1\n2\n3\n") && log.contains("has reached its limit of 1000 bytes"), "{log}");
    assert!(log.ends_with("100000\nthe end\n") && log.len() < 20_000);
    assert!(finished.end().log_note.as_ref().unwrap().contains("keeps the first 1000"));
    assert!(finished.relayed(Stream::Stdout).ends_with("100000\nthe end\n"));
}

/// The resident memory of this process.
fn resident_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

#[tokio::test]
async fn a_flood_of_output_takes_no_memory() {
    const FLOOD_BYTES: u64 = 1 << 30;
    let mut trial =
        Trial::shell("head -c 1073741824 /dev/zero; head -c 100000 /dev/zero >&2; echo >&2; echo the end >&2");
    let (relay, mut relayed) = mpsc::channel(16);
    trial.spec.output.relay = relay;
    let before = resident_kib();
    let begun = trial.begin();
    let (mut count, mut most) = (0, 0);
    while let Some(chunk) = relayed.recv().await {
        count += chunk.bytes.len() as u64;
        most = most.max(resident_kib());
    }
    let finished = begun.finish().await;
    assert_eq!(count, FLOOD_BYTES + 100_001 + 8);
    assert!(most < before + 64 * 1024, "{before} KiB grew to {most} KiB");
    assert_eq!(finished.end().tail, "the end\n");
    assert!(finished.log.as_ref().unwrap().len() < (1 << 20) + 20_000);
}

#[tokio::test]
async fn a_relay_that_nobody_reads_holds_back_its_child_but_not_its_end() {
    let mut trial = Trial::shell("seq 1 200000; echo $$ >$FOLDER/done");
    let (relay, _relayed) = mpsc::channel(1);
    trial.spec.output.relay = relay;
    let begun = trial.begin();
    let log = begun.folder.path().join("task/run/output.log");
    until("something is written", || std::fs::metadata(&log).is_ok_and(|log| log.len() > 0)).await;
    let finished = begun.ended_by(RunControl::Kill).await;
    assert!(finished.end().was_stopped && !finished.folder.path().join("done").exists());
}

#[tokio::test]
async fn the_last_output_is_kept_even_if_nobody_reads_the_relay() {
    let mut trial = Trial::shell("for word in a b c; do echo $word; sleep 0.02; done; seq 1 5000");
    let (relay, _relayed) = mpsc::channel(1);
    trial.spec.output.relay = relay;
    let finished = trial.run().await;
    assert_eq!(finished.end().status, exited(0));
    let log = finished.log.as_ref().unwrap();
    assert!(log.starts_with("a\nb\nc\n1\n2\n") && log.ends_with("\n5000\n"), "{log}");
}

#[tokio::test]
async fn a_dropped_relay_blocks_nothing() {
    let mut trial = Trial::shell("seq 1 20000");
    trial.spec.output.relay = mpsc::channel(1).0;
    let finished = trial.run().await;
    assert!(finished.log.as_ref().unwrap().ends_with("\n20000\n"));
}

#[tokio::test]
async fn a_pipe_that_is_held_open_elsewhere_is_not_waited_for() {
    // This test itself opens the child's pipe a second time.
    let begun = Trial::shell("echo $$ >$FOLDER/ready; while ! [ -e $FOLDER/go ]; do :; done; echo said").begin();
    let pid = begun.number("ready").await;
    let held = std::fs::OpenOptions::new().write(true).open(format!("/proc/{pid}/fd/1")).unwrap();
    std::fs::write(begun.folder.path().join("go"), "").unwrap();
    let finished = begun.finish().await;
    assert_eq!(finished.end().status, exited(0));
    assert_eq!(finished.log.as_deref(), Some("said\n"));
    drop(held);
}

#[tokio::test]
async fn the_exit_code_or_the_signal_is_reported() {
    for (script, status) in [
        ("exit 0", exited(0)),
        ("exit 75", exited(75)),
        ("exit 255", exited(255)),
        ("kill -9 $$", killed_by(9)),
        ("kill -TERM $$", killed_by(15)),
    ] {
        let finished = Trial::shell(script).run().await;
        let ended = finished.end();
        assert_eq!((ended.status, ended.was_stopped), (status, false), "{script}");
        assert_eq!((&ended.log_note, &ended.process_note), (&None, &None));
        assert_eq!(finished.log, None, "a silent run has no log");
    }
}

async fn refusal(argv: &[&str]) -> StartError {
    Trial::new(argv).run().await.result.unwrap_err()
}

#[tokio::test]
async fn a_command_that_cannot_be_started_is_told_apart() {
    assert!(matches!(refusal(&["no-such-command-anywhere"]).await, StartError::NotFound(_)));
    assert!(matches!(refusal(&["/no/such/file"]).await, StartError::NotFound(_)));
    assert!(matches!(refusal(&[]).await, StartError::NotFound(_)));
    assert!(matches!(refusal(&["/etc/passwd"]).await, StartError::NotExecutable(..)));
    assert!(matches!(refusal(&["/etc/passwd/x"]).await, StartError::NotExecutable(..)));
    assert!(matches!(refusal(&["/"]).await, StartError::NotExecutable(..)));
    let long = "x".repeat(3 << 20);
    assert!(matches!(refusal(&["true", &long]).await, StartError::TooLong));
}

#[tokio::test]
async fn a_file_that_is_no_program_or_names_no_interpreter_is_not_executable() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("script");
    for text in ["#!/no/such/interpreter\n", "\u{1}\u{2}\u{3}\u{4}"] {
        std::fs::write(&file, text).unwrap();
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o755)).unwrap();
        let error = refusal(&[file.to_str().unwrap()]).await;
        assert!(matches!(error, StartError::NotExecutable(..)), "{error}");
    }
}

#[tokio::test]
async fn the_environment_is_ours_with_what_is_added_and_removed() {
    let mut trial =
        Trial::shell("echo $PATH; echo $ADDED; echo ${HOME-none}; echo $TASKQUEUE_RUN_ID; cat; ps -o pgid= $$");
    trial.spec.start.environment.push(("ADDED".into(), "yes".into()));
    trial.spec.start.remove.push("HOME".into());
    let run_id = trial.run_id.as_str().to_owned();
    let finished = trial.run().await;
    let output = finished.relayed(Stream::Stdout);
    let lines: Vec<&str> = output.lines().collect();
    assert_eq!(lines[..4], [&std::env::var("PATH").unwrap(), "yes", "none", &run_id]);
    // Standard input was empty, or `cat` had not ended.
    assert_ne!(lines[4].trim(), Pid::as_raw(Some(rustix::process::getpgrp())).to_string());
}

fn on_terminal(script: &str) -> (Trial, watch::Sender<WindowSize>) {
    let mut trial = Trial::shell(script);
    let size = watch::Sender::new(WindowSize { rows: 33, columns: 111 });
    trial.spec.output.terminal = Some(size.subscribe());
    (trial, size)
}

#[tokio::test]
async fn a_child_sees_a_terminal_of_our_size() {
    let script = "[ -t 1 ] && [ -t 2 ] && ! [ -t 0 ] && echo terminal; stty size </dev/tty; printf '\\033[31mred\\033[0m\\n' >&2; exit 9";
    let (trial, _size) = on_terminal(script);
    let finished = trial.run().await;
    assert_eq!(finished.end().status, exited(9));
    assert_eq!(finished.relayed(Stream::Stdout), "terminal\n33 111\n\u{1b}[31mred\u{1b}[0m\n");
    assert_eq!(finished.log.as_deref(), Some("terminal\n33 111\n\u{1b}[31mred\u{1b}[0m\n"));
    assert_eq!(finished.end().tail, "terminal\n33 111\nred\n");
}

#[tokio::test]
async fn a_child_is_notified_of_a_new_size() {
    let script = "trap 'stty size </dev/tty; exit 0' WINCH; echo $$ >$FOLDER/ready; while :; do sleep 0.01; done";
    let (trial, size) = on_terminal(script);
    let begun = trial.begin();
    begun.number("ready").await;
    size.send_replace(WindowSize { rows: 50, columns: 80 });
    let finished = begun.finish().await;
    assert_eq!((finished.end().status, finished.relayed(Stream::Stdout)), (exited(0), "50 80\n".to_owned()));
}

#[tokio::test]
async fn a_child_may_leave_its_terminal_and_come_back() {
    let (trial, _size) = on_terminal("exec >&- 2>&-; sleep 0.1; seq 1 5000 >/dev/tty; exit 2");
    let finished = trial.run().await;
    assert_eq!(finished.end().status, exited(2));
    assert!(finished.relayed(Stream::Stdout).ends_with("4999\n5000\n"));
}

#[tokio::test]
async fn a_child_on_a_terminal_ends_with_all_that_it_started() {
    let (trial, _size) = on_terminal("setsid sleep 1000 & echo $! >$FOLDER/left; sleep 1000");
    let begun = trial.begin();
    let left = begun.number("left").await;
    let finished = begun.ended_by(RunControl::Stop).await;
    assert_eq!(finished.status(), (killed_by(15), true));
    assert!(!is_alive(left));
}

#[tokio::test]
async fn a_command_that_cannot_be_started_is_an_error_on_a_terminal_as_well() {
    let (mut trial, _size) = on_terminal("");
    trial.spec.start.argv = arguments(&["no-such-command-anywhere"]);
    assert!(matches!(trial.run().await.result, Err(StartError::NotFound(_))));
}
