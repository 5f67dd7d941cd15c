//! The embedded backend passes the suite that every backend passes.

use crate::storage::fresh;

taskqueue_store::conformance_suite!(fresh);
taskqueue_store::bulk_suite!(fresh);
taskqueue_store::durability_suite!(fresh);
taskqueue_store::kept_secret_suite!(fresh);
taskqueue_store::saved_activity_suite!(fresh);
taskqueue_store::long_reads_suite!(fresh);

/// The same with a history that is written to the file by every transaction, instead of after many.
mod flushing {
    use crate::storage::flushing;

    taskqueue_store::conformance_suite!(flushing);
    taskqueue_store::bulk_suite!(flushing);
    taskqueue_store::durability_suite!(flushing);
}
