//! Children on a pseudo-terminal.

use super::*;

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
    assert_eq!(finished.end().status, Exit::Code(9));
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
    assert_eq!((finished.end().status, finished.relayed(Stream::Stdout)), (Exit::Code(0), "50 80\n".to_owned()));
}

#[tokio::test]
async fn a_child_may_leave_its_terminal_and_come_back() {
    let (trial, _size) = on_terminal("exec >&- 2>&-; sleep 0.1; seq 1 5000 >/dev/tty; exit 2");
    let finished = trial.run().await;
    assert_eq!(finished.end().status, Exit::Code(2));
    assert!(finished.relayed(Stream::Stdout).ends_with("4999\n5000\n"));
}

#[tokio::test]
async fn a_child_on_a_terminal_ends_with_all_that_it_started() {
    let (trial, _size) = on_terminal("setsid sleep 1000 & echo $! >$FOLDER/left; sleep 1000");
    let begun = trial.begin();
    let left = begun.number("left").await;
    begun.control.send_replace(RunControl::Stop);
    let finished = begun.finish().await;
    assert_eq!((finished.end().status, finished.end().was_stopped), (Exit::Signal(15), true));
    assert!(!is_alive(left));
}

#[tokio::test]
async fn a_command_that_cannot_be_started_is_an_error_on_a_terminal_as_well() {
    let (mut trial, _size) = on_terminal("");
    trial.spec.argv = arguments(&["no-such-command-anywhere"]);
    assert!(matches!(trial.run().await.result, Err(StartError::NotFound(_))));
}
