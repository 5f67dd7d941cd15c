//! A server under attack: it lives, serves others, and is small again afterwards.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::attacks::{self, Attacker};
use super::support::{Response, Server, in_parallel};
use super::{AFTERWARDS_BYTES, ATTACK_SECONDS, MIB, healthy};
use crate::beside_others;

/// What the server may use.
const LIMIT_BYTES: u64 = 256 * MIB;
/// Without what is read from the program's own file, which is large where it is not optimised, and which the system takes
/// back when it needs the memory.
const AFTERWARDS_MEMORY: &str = "RssAnon";
/// How soon.
const AFTERWARDS: Duration = Duration::from_secs(30);

fn attack_time() -> Duration {
    let seconds = std::env::var("ATTACK_SECONDS").ok().and_then(|text| text.parse().ok());
    Duration::from_secs(seconds.unwrap_or(ATTACK_SECONDS))
}

/// Lets this process open as many files as it may: each connection is one.
fn raise_open_files() {
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit }).unwrap();
}

/// A number of bytes from the status of a process, such as `VmRSS` and `VmHWM`, its highest so far.
fn memory(server: &Server, name: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", server.process_id())).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    let line = line.unwrap_or_else(|| panic!("the server has died:\n{}", server.stderr()));
    line.split_whitespace().next().unwrap().parse::<u64>().unwrap() * 1024
}

/// Fills a server while a healthy client works with it. The name is for the figures.
fn withstands(name: &str, attackers: usize, attack: fn(&Attacker<'_>), stores: bool) {
    let _beside = beside_others();
    raise_open_files();
    let server = Server::within(LIMIT_BYTES, &[]);
    attacks::prepare(&server);
    let (stop, end) = (AtomicBool::new(false), Instant::now() + attack_time());
    let served = thread::scope(|scope| {
        for number in 0..attackers {
            let attacker = Attacker { number, address: &server.address, stop: &stop };
            scope.spawn(move || attack(&attacker));
        }
        let served = healthy::work(&server, end);
        stop.store(true, Ordering::SeqCst);
        served
    });
    let peak = memory(&server, "VmHWM");
    if stores {
        // What is pending is in memory for as long as it is pending.
        server.delete("/api/v2/queues/large?cascade=true").expect(204);
        server.create_queue("large");
    }
    let over = Instant::now();
    let mut now = memory(&server, AFTERWARDS_MEMORY);
    while now > AFTERWARDS_BYTES {
        assert!(over.elapsed() < AFTERWARDS, "{} MiB {AFTERWARDS:?} after it; {} at most", now / MIB, peak / MIB);
        // The allocator returns memory while it is used, not while it is idle.
        in_parallel(4, |_| healthy::once(&server));
        now = memory(&server, AFTERWARDS_MEMORY);
    }
    let (peak_mib, now_mib, seconds) = (peak / MIB, now / MIB, over.elapsed().as_secs_f64());
    println!("{name}: {peak_mib} MiB at most, {now_mib} MiB {seconds:.1} s after it; {served}");
    assert!(peak <= LIMIT_BYTES, "{} MiB", peak / MIB);
    assert!(!server.stderr().contains("panicked"), "{}", server.stderr());
}

/// Also when several come at once, all are taken in the end.
#[test]
fn the_largest_batches_fit_into_it() {
    let _beside = beside_others();
    let server = Server::within(LIMIT_BYTES, &[]);
    server.create_queue("q");
    in_parallel(3, |lane| {
        let request = attacks::largest_batch(lane);
        let mut connection = server.connect();
        let answered = |response: Response| (response.status != 503).then_some(response);
        let mut tries = (0..100).map(|_| connection.exchange(&request).unwrap_or_else(|error| panic!("{error}")));
        let response = tries.find_map(answered).expect("there is room some time").expect(200);
        let items = response.json()["items"].as_array().unwrap().clone();
        assert!(items.len() == 16 && items.iter().all(|item| item["outcome"] == "created"), "{items:?}");
    });
    let peak = memory(&server, "VmHWM");
    assert!(peak <= LIMIT_BYTES, "{} MiB", peak / MIB);
}

/// Free memory that stays with the process for a second is three times what an attack makes the server use (docs/memory.md).
#[test]
fn with_little_memory_it_is_returned_soon() {
    let _beside = beside_others();
    let delay = |server: &Server| {
        let environment = std::fs::read(format!("/proc/{}/environ", server.process_id())).unwrap();
        let mut variables = environment.split(|byte| *byte == 0);
        let value = variables.find_map(|variable| variable.strip_prefix(b"MIMALLOC_PURGE_DELAY="));
        value.map(|value| String::from_utf8(value.to_vec()).unwrap())
    };
    let small = Server::within(LIMIT_BYTES, &[]);
    assert_eq!(delay(&small).as_deref(), Some("10"));
    let name = std::fs::read_to_string(format!("/proc/{}/comm", small.process_id())).unwrap();
    assert_eq!(name, "taskqueue\n", "also for who stops it by its name");
    assert_eq!(delay(&Server::within(LIMIT_BYTES, &[("MIMALLOC_PURGE_DELAY", "7")])).as_deref(), Some("7"));
    assert_eq!(delay(&Server::within(1024 * MIB, &[])), None);
}

/// How many attackers there are, what each of them does, and whether pending tasks are left behind.
macro_rules! withstands {
    ($($name:ident: $attackers:literal $attack:ident $stores:literal)*) => {
        $(
            #[test]
            fn $name() {
                withstands(stringify!($name), $attackers, attacks::$attack, $stores);
            }
        )*
    };
}

withstands! {
    tasks_with_as_many_routes_as_allowed_do_not_fill_it: 4 many_routes true
    small_tasks_with_as_many_long_routes_as_allowed_do_not_fill_it: 4 long_routes true
    slow_readers_of_lists_do_not_fill_it_or_keep_others_from_listing: 16 slow_list false
    hundreds_of_unread_lists_do_not_fill_it: 4 unread_lists false
    unread_answers_with_large_tasks_do_not_fill_it: 4 unread_tasks false
    unread_claims_of_large_tasks_do_not_fill_it: 4 unread_claims false
    large_bodies_that_come_slowly_do_not_fill_it: 4 slow_bodies false
    bodies_that_are_large_when_parsed_do_not_fill_it: 16 dense_bodies false
    large_batches_that_come_at_once_do_not_fill_it: 8 large_batches true
    unread_batches_of_claims_do_not_fill_it: 4 unread_batches false
    large_heads_that_do_not_end_do_not_fill_it: 4 large_heads false
    idle_connections_do_not_fill_it: 4 idle_connections false
    unread_answers_with_output_do_not_fill_it: 4 unread_output false
    reads_that_wait_for_output_do_not_fill_it: 4 waiting_reads false
    bulk_updates_of_large_tasks_do_not_fill_it: 2 bulk_updates false
}
