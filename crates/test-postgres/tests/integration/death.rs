//! A server and its files end with the test process, however that ends.

use std::env;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write, stdin, stdout};
use std::process::{Child, Command, Stdio};

use taskqueue_test_postgres::{Cluster, PoolMode, Pooler, eventually, is_alive};

/// Set in the process that this test starts from its own program.
const CHILD: &str = "TASKQUEUE_TEST_CHILD";
const MARK: &str = "servers: ";

/// Starts servers in a thread that ends before they do; tells the process ids and the folder of the shared server.
/// Then goes on for as long as there is input.
fn be_the_child() {
    let servers = std::thread::spawn(|| {
        let (shared, private) = (Cluster::shared(), Cluster::private());
        let database = shared.database();
        let pooler = Pooler::start(shared, &database, PoolMode::Transaction);
        (private, database, pooler)
    });
    let (private, database, pooler) = servers.join().unwrap();
    // The server still answers although the thread that started it is gone.
    let folder = database.rows("SHOW unix_socket_directories")[0][0].clone().unwrap();
    // Past the test framework, which keeps what is printed.
    let (first, second, third) = (Cluster::shared().pid(), private.pid(), pooler.pid());
    let told = format!("\n{MARK}{first} {second} {third} {folder}\n");
    stdout().write_all(told.as_bytes()).unwrap();
    stdin().lines().for_each(drop);
}

/// Starts the child by the name of the test; gives the process ids of its servers and their folder.
fn start_child(test: &str) -> (Child, Vec<u32>, String) {
    let mut child = Command::new(env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture"])
        .env(CHILD, "1")
        .env_remove("TASKQUEUE_TEST_POSTGRES")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    let mut lines = output.by_ref().lines().map(Result::unwrap);
    let line = lines.find_map(|line| line.strip_prefix(MARK).map(str::to_owned)).expect("the child tells");
    // It has more to say when it ends, and would fail if nobody listened.
    child.stdout = Some(output.into_inner());
    let words: Vec<&str> = line.split(' ').collect();
    let (folder, pids) = words.split_last().unwrap();
    let pids: Vec<u32> = pids.iter().map(|pid| pid.parse().unwrap()).collect();
    assert!(pids.iter().all(|pid| is_alive(*pid)) && fs::exists(folder).unwrap());
    (child, pids, (*folder).to_owned())
}

#[test]
fn servers_and_files_are_gone_when_the_test_process_ends_or_is_killed() {
    if env::var_os(CHILD).is_some() {
        return be_the_child();
    }
    for killed in [false, true] {
        let test = "death::servers_and_files_are_gone_when_the_test_process_ends_or_is_killed";
        let (mut child, pids, folder) = start_child(test);
        if killed {
            child.kill().unwrap();
        } else {
            drop(child.stdin.take());
        }
        assert_eq!(child.wait().unwrap().success(), !killed);
        eventually("the servers end", || !pids.iter().any(|pid| is_alive(*pid)));
        eventually("the files go away", || !fs::exists(&folder).unwrap());
    }
}
