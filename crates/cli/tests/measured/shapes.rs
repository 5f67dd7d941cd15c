//! Every request shape there is, as large as it may be but for a factor of 256, alone and by 32 clients: nobody else waits, the memory
//! is kept, and 503 means that nothing was done. A row that finds less than it says fails, and so does one that asks for a page that there
//! is not; tests of `crates/bench` fail for an endpoint or a field without its row.
//! `taskqueue-bench shapes` sends the same at full size.

use std::path::Path;

use taskqueue_bench::shapes::{On, check};

use crate::beside_others;

fn holds_for_all_shapes(on: On) {
    let _beside = beside_others();
    let folder = tempfile::tempdir().unwrap();
    let wrong = check(on, Path::new(env!("CARGO_BIN_EXE_taskqueue")), folder.path());
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_request_shape_keeps_the_cost_rules_on_sqlite() {
    holds_for_all_shapes(On::Disk);
}

#[test]
fn every_request_shape_keeps_the_cost_rules_on_postgresql() {
    holds_for_all_shapes(On::Postgres);
}
