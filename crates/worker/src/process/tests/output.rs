//! The output of commands, also when log or relay fail.

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
    assert_eq!(finished.end().status, Exit::Code(7));
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
        assert_eq!(finished.end().status, Exit::Code(0));
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
    begun.control.send_replace(RunControl::Kill);
    let finished = begun.finish().await;
    assert!(finished.end().was_stopped && !finished.folder.path().join("done").exists());
}

#[tokio::test]
async fn the_last_output_is_kept_even_if_nobody_reads_the_relay() {
    let mut trial = Trial::shell("for word in a b c; do echo $word; sleep 0.02; done; seq 1 5000");
    let (relay, _relayed) = mpsc::channel(1);
    trial.spec.output.relay = relay;
    let finished = trial.run().await;
    assert_eq!(finished.end().status, Exit::Code(0));
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
    assert_eq!(finished.end().status, Exit::Code(0));
    assert_eq!(finished.log.as_deref(), Some("said\n"));
    drop(held);
}
