//! Runs that are stopped or killed, and the processes that they leave.

use super::*;

/// Starts a run whose script writes its pid to the file `ready`.
async fn ready(script: &str, grace: Duration) -> (Begun, i32) {
    let mut trial = Trial::shell(script);
    trial.grace = grace;
    let begun = trial.begin();
    let pid = begun.number("ready").await;
    (begun, pid)
}

#[tokio::test]
async fn a_stopped_run_may_end_by_itself() {
    let script = "trap 'echo bye; exit 3' TERM; echo $$ >$FOLDER/ready; while :; do sleep 0.01; done";
    let (begun, _) = ready(script, LONG).await;
    let finished = begun.ended_by(RunControl::Stop).await;
    assert_eq!(finished.status(), (exited(3), true));
    assert_eq!(finished.relayed(Stream::Stdout), "bye\n");
}

#[tokio::test]
async fn a_run_that_ignores_sigterm_is_killed_after_the_grace_time() {
    let grace = Duration::from_millis(300);
    let script = "trap '' TERM; echo $$ >$FOLDER/ready; while :; do sleep 1000; done";
    let (begun, pid) = ready(script, grace).await;
    let ordered = Instant::now();
    let finished = begun.ended_by(RunControl::Stop).await;
    assert_eq!(finished.status(), (killed_by(9), true));
    assert!(ordered.elapsed() >= grace && ordered.elapsed() < LONG / 2);
    assert!(!is_alive(pid));
}

#[tokio::test]
async fn a_kill_does_not_wait_for_the_grace_time() {
    let script = "trap '' TERM; echo $$ >$FOLDER/ready; while :; do sleep 1000; done";
    let (begun, _) = ready(script, LONG * 10).await;
    begun.control.send_replace(RunControl::Stop);
    assert_eq!(begun.ended_by(RunControl::Kill).await.end().status, killed_by(9));
}

#[tokio::test]
async fn a_request_from_before_the_start_is_obeyed() {
    let trial = Trial::shell("sleep 1000");
    trial.control.send_replace(RunControl::Kill);
    let finished = trial.run().await;
    assert_eq!(finished.status(), (killed_by(9), true));
}

#[tokio::test]
async fn a_run_continues_when_the_sender_of_requests_is_dropped() {
    let trial = Trial::shell("exit 4");
    let (spec, control) = (trial.spec, trial.control.subscribe());
    drop(trial.control);
    set_child_subreaper(Some(getpid())).unwrap();
    let ended = crate::process::run(spec, control).await.unwrap();
    assert_eq!((ended.status, ended.was_stopped), (exited(4), false));
}

#[tokio::test]
async fn a_run_that_is_suspended_ends_as_well() {
    let (begun, pid) = ready("echo $$ >$FOLDER/ready; kill -STOP $$; sleep 1000", LONG).await;
    until("suspended", || proc::all().iter().any(|entry| entry.pid == pid && entry.state == 'T')).await;
    assert_eq!(begun.ended_by(RunControl::Stop).await.end().status, killed_by(15));
}

#[tokio::test]
async fn what_stays_in_the_group_is_ended_with_its_leader() {
    // It also keeps the pipes open.
    let finished = Trial::shell("sleep 1000 & echo $! >$FOLDER/left; exit 5").run().await;
    assert_eq!(finished.status(), (exited(5), false));
    assert!(!is_alive(finished.number("left")));
}

#[tokio::test]
async fn leftovers_that_ignore_sigterm_are_killed_soon() {
    // The leader ends only when the other one ignores SIGTERM already.
    let mut trial = Trial::shell(
        "(trap '' TERM; sh -c 'echo $PPID' >$FOLDER/left; while :; do sleep 1000; done) & \
         while ! [ -s $FOLDER/left ]; do :; done; exit 0",
    );
    trial.grace = Duration::from_millis(200);
    let finished = trial.run().await;
    assert_eq!(finished.end().status, exited(0));
    assert!(!is_alive(finished.number("left")));
}

/// Leaves its parents, its group and its session, as daemons do.
const DAEMON: &str = "setsid sh -c 'sh -c \"echo \\$\\$ >$FOLDER/daemon; exec sleep 1000\" & exit 0' &";

#[tokio::test]
async fn a_daemon_does_not_outlive_the_run_that_started_it() {
    let script = format!("{DAEMON} while ! [ -s $FOLDER/daemon ]; do :; done; exit 6");
    let finished = Trial::shell(&script).run().await;
    assert_eq!(finished.end().status, exited(6));
    assert!(!is_alive(finished.number("daemon")));
}

#[tokio::test]
async fn a_daemon_does_not_outlive_a_stop_or_a_kill() {
    for wanted in [RunControl::Stop, RunControl::Kill] {
        let begun = Trial::shell(&format!("{DAEMON} sleep 1000")).begin();
        let daemon = begun.number("daemon").await;
        assert!(begun.ended_by(wanted).await.end().was_stopped);
        assert!(!is_alive(daemon), "{wanted:?}");
    }
}

#[tokio::test]
async fn a_daemon_of_one_run_survives_the_end_of_another() {
    let begun = Trial::shell(&format!("{DAEMON} sleep 1000")).begin();
    let daemon = begun.number("daemon").await;
    Trial::shell("sleep 1000 & exit 0").run().await;
    assert!(is_alive(daemon));
    begun.ended_by(RunControl::Stop).await;
    assert!(!is_alive(daemon));
}

/// A daemon that also has an empty environment.
const HIDDEN: &str = "setsid env -i FOLDER=$FOLDER sh -c \"trap '' TERM; sh -c 'trap \\\"\\\" TERM; echo \\$\\$ >\\$FOLDER/daemon; while :; do sleep 1; done' & exit 0\" &";

#[tokio::test]
async fn a_daemon_that_forgot_its_run_ends_with_it_while_another_run_goes_on() {
    let (other, pid) = ready("echo $$ >$FOLDER/ready; sleep 1000", LONG).await;
    let mut trial = Trial::shell(&format!("{HIDDEN} while ! [ -s $FOLDER/daemon ]; do :; done"));
    trial.grace = Duration::from_millis(50);
    let finished = trial.run().await;
    assert_eq!(finished.end().status, exited(0));
    assert!(!is_alive(finished.number("daemon")));
    let mut trial = Trial::shell(&format!("{HIDDEN} while :; do sleep 1; done"));
    trial.grace = Duration::from_millis(50);
    let begun = trial.begin();
    let daemon = begun.number("daemon").await;
    assert!(begun.ended_by(RunControl::Stop).await.end().was_stopped);
    assert!(!is_alive(daemon) && is_alive(pid), "also when it is stopped");
    other.ended_by(RunControl::Kill).await;
}

#[tokio::test]
async fn a_run_ends_with_its_supervisor_and_the_next_one_gets_another() {
    let begun =
        Trial::shell(&format!("{HIDDEN} while ! [ -s $FOLDER/daemon ]; do :; done; kill -9 $PPID; sleep 1000")).begin();
    let daemon = begun.number("daemon").await;
    let finished = begun.finish().await;
    assert_eq!(finished.status(), (killed_by(9), false));
    let note = finished.end().process_note.as_deref();
    assert_eq!(note, Some("the supervisor of the run was killed, and with it the run"));
    assert!(!is_alive(daemon));
    assert_eq!(Trial::shell("exit 3").run().await.end().status, exited(3));
}

#[tokio::test]
async fn a_supervisor_that_was_killed_while_it_was_idle_gets_no_run() {
    // As many as other tests may take meanwhile.
    for _ in 0..8 {
        let idle = Supervisor::idle();
        if let Some(idle) = idle {
            proc::signal(idle.pid, rustix::process::Signal::KILL);
            until("it has ended", || !is_alive(idle.pid)).await;
            IDLE.lock().push(idle);
        }
        assert_eq!(Trial::shell("exit 4").run().await.end().status, exited(4));
    }
}

#[tokio::test]
async fn an_order_that_came_too_late_does_not_end_the_next_run() {
    for _ in 0..50 {
        let begun = Trial::shell("exit 0").begin();
        begun.ended_by(RunControl::Kill).await;
        assert_eq!(Trial::shell("exit 5").run().await.end().status, exited(5));
    }
}

#[tokio::test]
async fn signals_to_a_supervisor_neither_end_it_nor_reach_its_command() {
    let script =
        "echo $PPID >$FOLDER/ready; for signal in HUP INT QUIT TERM USR1 USR2 ALRM PIPE; do kill -$signal $PPID; done;
        grep SigIgn /proc/$$/status >$FOLDER/ignored; exit 6";
    let finished = Trial::shell(script).run().await;
    assert_eq!(finished.end().status, exited(6));
    let own = std::fs::read_to_string("/proc/self/status").unwrap();
    // Without SIGPIPE, which Rust programs ignore, and without 32 and up, of which the C library has some for itself.
    let known = 0x7fff_ffff & !(1 << 12);
    let ignored = |text: &str| u64::from_str_radix(text.split_whitespace().nth(1).unwrap(), 16).unwrap() & known;
    let own = own.lines().find(|line| line.starts_with("SigIgn")).unwrap();
    let theirs = std::fs::read_to_string(finished.folder.path().join("ignored")).unwrap();
    assert_eq!(ignored(&theirs), ignored(own), "what is ignored stays ignored, and nothing else");
}

#[tokio::test]
async fn processes_that_replace_themselves_all_the_time_are_caught() {
    // Each one starts the next in a session of its own and ends.
    let hop = "echo $$ >>$FOLDER/hops; setsid sh $FOLDER/hop & exit 0";
    let mut trial = Trial::shell("setsid sh $FOLDER/hop & while ! [ -s $FOLDER/hops ]; do :; done; exit 8");
    trial.grace = Duration::from_millis(50);
    std::fs::write(trial.folder.path().join("hop"), hop).unwrap();
    let run_id = trial.run_id;
    let finished = trial.run().await;
    assert_eq!((finished.end().status, &finished.end().process_note), (exited(8), &None));
    let started_for_it = |pid| started_with(pid, RUN_ID_VARIABLE, run_id.as_str());
    assert!(!proc::all().iter().any(|entry| entry.is_alive && started_for_it(entry.pid)));
}

/// A process that left the group of its run just when the stop came got no SIGTERM, and the run took the whole grace time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stop_reaches_processes_that_are_leaving_the_group() {
    let script = "setsid sleep 1000 & setsid sleep 1000 & echo $$ >$FOLDER/ready; sleep 1000";
    let lane = || async move {
        for _ in 0..25 {
            let (begun, _) = ready(script, LONG * 10).await;
            assert!(begun.ended_by(RunControl::Stop).await.end().was_stopped);
        }
    };
    let lanes: Vec<_> = (0..4).map(|_| tokio::spawn(lane())).collect();
    for lane in lanes {
        lane.await.unwrap();
    }
}

/// A shell blocks all signals while it starts a command. What it starts then has missed the signal to the group.
#[tokio::test]
async fn a_stop_reaches_a_process_that_is_started_while_it_comes() {
    // Waits without starting a process until SIGTERM is pending; starting `sleep` unblocks it, which ends the shell.
    let script = "echo $$ >$FOLDER/ready
        while :; do
            while read -r name value; do
                case $name$value in ShdPnd:*4000) break 2;; esac
            done </proc/$$/status
        done
        sleep 1000";
    let trial = Trial::new(&["env", "--block-signal=TERM", "sh", "-c", script]);
    let begun = trial.begin();
    begun.number("ready").await;
    let finished = begun.ended_by(RunControl::Stop).await;
    assert_eq!(finished.status(), (killed_by(15), true));
}

#[tokio::test]
async fn a_group_of_zombies_only_is_no_reason_to_wait() {
    // The parent of the zombie has left the group, forgot its run, and never reaps.
    let script = "sh -c '(exit 0) & exec setsid env -i sleep 1000' &
        while [ \"$(cat /proc/$!/comm)\" != sleep ]; do :; done; exit 9";
    let begun = Instant::now();
    let finished = Trial::shell(script).run().await;
    assert_eq!(finished.end().status, exited(9));
    assert!(begun.elapsed() < LONG / 2);
}

#[tokio::test]
async fn a_run_that_nobody_waits_for_any_more_is_killed() {
    let (begun, pid) = ready("echo $$ >$FOLDER/ready; sleep 1000", LONG).await;
    begun.run.abort();
    until("the run has ended", || !is_alive(pid)).await;
}

/// The children of this process that have ended and were not reaped.
fn zombies() -> usize {
    let own = proc::own_pid();
    proc::all().iter().filter(|entry| entry.parent == own && !entry.is_alive).count()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_runs_leave_neither_zombies_nor_orphans() {
    let marker = fresh_run_id();
    let lane = |number: u32| async move {
        for round in 0..125 {
            let script = match (number + round) % 4 {
                0 => "sleep 1000 & exit 0",
                1 => "setsid sleep 1000 & exit 0",
                2 => "(true &) ; exit 1",
                _ => "true & true",
            };
            let mut trial = Trial::shell(script);
            trial.spec.start.environment.push(("TRIAL_MARKER".into(), marker.as_str().into()));
            assert!(trial.run().await.result.is_ok());
        }
    };
    let lanes: Vec<_> = (0..8).map(|number| tokio::spawn(lane(number))).collect();
    for lane in lanes {
        lane.await.unwrap();
    }
    let marked = |pid| started_with(pid, "TRIAL_MARKER", marker.as_str());
    let orphans: Vec<_> = proc::all().into_iter().filter(|entry| entry.is_alive && marked(entry.pid)).collect();
    assert_eq!(orphans, []);
    // A stray that ended while another child was being started is reaped the next time.
    until("no zombies", || {
        kill_strays();
        zombies() == 0
    })
    .await;
}
