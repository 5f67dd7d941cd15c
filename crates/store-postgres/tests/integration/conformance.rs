//! The scale-out backend passes the suite that every backend passes.

use crate::storage::fresh;

taskqueue_store::conformance_suite!(fresh);
taskqueue_store::conformance_module!(fresh bulk);
taskqueue_store::conformance_module!(fresh bulk_portions);
taskqueue_store::durability_suite!(fresh);
taskqueue_store::conformance_module!(fresh kept_secret);
taskqueue_store::conformance_module!(fresh saved_activity);
taskqueue_store::conformance_module!(fresh long_reads);
