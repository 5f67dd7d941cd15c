//! The scale-out backend passes the suite that every backend passes.

use crate::storage::fresh;

taskqueue_store::conformance_suite!(fresh);
taskqueue_store::bulk_suite!(fresh);
taskqueue_store::durability_suite!(fresh);
taskqueue_store::kept_secret_suite!(fresh);
taskqueue_store::saved_activity_suite!(fresh);
taskqueue_store::long_reads_suite!(fresh);
