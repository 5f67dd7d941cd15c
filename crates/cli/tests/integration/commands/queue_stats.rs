//! `taskqueue queue stats`

use super::support::{Server, lines};

#[test]
fn a_queue_shows_its_tasks_routes_and_what_happened() {
    let server = Server::with_task(&[]);
    server.submit("t_bbbbbbbbbbbb", &["--route", "gpu"]);
    server.run_well("default", "t_aaaaaaaaaaaa", 1);
    let shown = server.run("queue stats q").ok();
    let line =
        |start: &str| shown.lines().find(|line| line.starts_with(start)).unwrap_or_else(|| panic!("{start}: {shown}"));
    let words = |start: &str| line(start).split_whitespace().collect::<Vec<_>>();
    assert_eq!(words("queue"), ["queue", "q"]);
    assert_eq!(words("pending"), ["pending", "1"]);
    assert!(line("waited").contains("p50") && line("ran").contains("p99"), "{shown}");
    assert!(line("last hour").contains("█  up to 1 run ended in 2 minutes"), "{shown}");
    assert!(line("ROUTE").contains("OLDEST PENDING"), "{shown}");
    assert_eq!(words("gpu")[..3], ["gpu", "1", "0"]);
    assert_eq!(words("created"), ["created", "2", "2", "2"]);
    let json = server.run("queue stats q -o json").json();
    assert_eq!((&json["tasks"]["pending"], &json["activity"]["last_hour"]["claimed"]), (&1.into(), &1.into()));
    assert_eq!(server.run("queue stats q -o quiet").ok(), "q\n");
    assert_eq!(
        server.run("queue stats q -o csv").ok(),
        "tasks.pending,tasks.running,tasks.succeeded,tasks.failed,tasks.cancelled\n1,0,1,0,0\n"
    );
}

#[test]
fn a_series_is_a_list_for_plots() {
    let server = Server::start();
    assert_eq!(server.run("queue stats q --series hour -o jsonl").ok(), "");
    server.submit("t_aaaaaaaaaaaa", &[]);
    let csv = lines(&server.run("queue stats q --series hour -o csv").ok());
    assert!(csv[0].starts_with("start,created,claimed,") && csv[0].ends_with("run_seconds.p99"), "{csv:?}");
    assert_eq!(csv[1], "TIME,1,0,0,0,0,0,0,,,,,,");
    let shown = server.run("queue stats q --series minute --from 2020-01-01T00:00:00Z").ok();
    assert!(shown.starts_with("START"), "{shown}");
    assert_eq!(server.run("queue stats q --series minute --to 2020-01-01T00:00:00Z -o json").ok(), "[]\n");
    for wrong in ["--series day", "--from 2020-01-01T00:00:00Z", "--series hour --from yesterday"] {
        server.run(&format!("queue stats q {wrong}")).fails(2);
    }
    let expected = "there is no queue qq (queue_not_found); taskqueue queue list shows all";
    server.run("queue stats qq").fails_with(1, &[expected]);
}
