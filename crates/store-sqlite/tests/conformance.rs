//! The embedded backend passes the suite that every backend passes.

mod storage;

use storage::fresh;

taskqueue_store::conformance_suite!(fresh);
taskqueue_store::bulk_suite!(fresh);
taskqueue_store::durability_suite!(fresh);
taskqueue_store::long_reads_suite!(fresh);
