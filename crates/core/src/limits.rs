//! Every number of the contract, named. docs/reference/http-api.md §12 says what happens beyond each.
//! Numbers that only tune an implementation (pool sizes, batch sizes) live beside what they tune.

/// Largest request body in bytes.
pub const REQUEST_BODY_BYTES: usize = 1_048_576;
/// Largest body of a batch in bytes, and largest canonical size of the args, metadata and results of its items together; beyond
/// the contract, see docs/decisions/0039.
pub const BATCH_BODY_BYTES: usize = 16 * 1_048_576;
/// Most items of a batch; beyond the contract.
pub const BATCH_ITEMS: usize = 1000;
/// Largest canonical size of the stored data of one task in bytes.
pub const TASK_DATA_BYTES: usize = 1_048_576;
/// Deepest nesting of containers inside args, metadata and result; the object itself is level 1.
pub const JSON_DEPTH: usize = 64;
/// Longest task name in Unicode code points.
pub const TASK_NAME_CHARS: usize = 256;
/// Longest queue name or route in ASCII characters.
pub const NAME_CHARS: usize = 128;
/// Most routes that a request may give a task. Each of them is an entry of the pending order.
pub const TASK_ROUTES: usize = 256;
/// Smallest page.
pub const PAGE_LIMIT_MIN: u16 = 1;
/// Largest page.
pub const PAGE_LIMIT_MAX: u16 = 1000;
/// Page size when none is asked for.
pub const PAGE_LIMIT_DEFAULT: u16 = 100;
/// A page ends early rather than exceed this many bytes of JSON.
pub const PAGE_BYTES: usize = 16 * 1_048_576;
/// Longest cursor in characters.
pub const CURSOR_CHARS: usize = 16_384;
/// Longest filter in bytes.
pub const FILTER_BYTES: usize = 8_192;
/// Deepest nesting of parentheses and `not` in a filter.
pub const FILTER_DEPTH: usize = 200;
/// Longest `name_fuzzy` in bytes.
pub const FUZZY_BYTES: usize = 8_192;
/// Most different words of a `name_fuzzy`.
pub const FUZZY_WORDS: usize = 64;
/// Task lease in seconds.
pub const LEASE_SECONDS: i64 = 300;
/// Life of a worker observation after its last report in seconds.
pub const OBSERVATION_SECONDS: i64 = 300;
/// Largest canonical size of the metadata that a worker may report of itself; beyond the contract, see
/// docs/decisions/0008. A full page of observations stays within [`PAGE_BYTES`].
pub const REPORT_METADATA_BYTES: usize = 16_384;
/// Largest canonical size of what a claim may say of its worker; beyond the contract, see docs/decisions/0008.
pub const CLAIM_WORKER_BYTES: usize = 4_096;

/// Largest canonical size of what a claim of several runs says of its claimant for one of them: a slot and its id. Together with
/// what it says for all of them at most [`CLAIM_WORKER_BYTES`].
pub const CLAIM_WORKER_ITEM_BYTES: usize = 256;
/// Largest canonical size of what a worker may report as telemetry; beyond the contract.
pub const TELEMETRY_BYTES: usize = 16_384;
/// Most bytes of output that a run may send at once; beyond the contract, like the following.
pub const OUTPUT_TEXT_BYTES: usize = 65_536;
/// The largest number of bytes that a run can print: what databases store as an integer.
pub const OUTPUT_OFFSET_MAX: u64 = 9_223_372_036_854_775_807;
/// The last bytes of output that are kept of a task (`--task-output-bytes`).
pub const TASK_OUTPUT_BYTES: usize = 262_144;
/// Most bytes of output in one answer, as they are written there: characters that JSON escapes count as what they become.
pub const OUTPUT_ANSWER_BYTES: usize = 1_048_576;
/// Most parts of output with gaps between them that are kept of a task. Beyond it the oldest parts are pushed out.
pub const OUTPUT_PARTS: usize = 256;
/// The longest time in seconds that a claim may wait for a task; beyond the contract, see docs/decisions/0013.
pub const WAIT_SECONDS_MAX: u32 = 60;
/// Longest `X-Request-Id` in bytes; beyond the contract.
pub const REQUEST_ID_BYTES: usize = 128;
/// How long the run ids of a deleted task are kept, in seconds from its deletion (docs/decisions/0006).
pub const DELETED_RUN_SECONDS: i64 = 86_400;
/// Longest pause between two lease scans in seconds.
pub const LEASE_SCAN_SECONDS: i64 = 5;
/// A pause between two lease scans longer than this is an outage.
pub const OUTAGE_SECONDS: i64 = 15;
/// The seconds for which every running lease is good, at least, after an outage (`--outage-credit`).
pub const OUTAGE_CREDIT_SECONDS: i64 = 90;
/// Priority of a task that names none.
pub const PRIORITY_DEFAULT: i64 = 0;
/// Attempt budget of a task that names none.
pub const MAX_ATTEMPTS_DEFAULT: i64 = 3;
/// Route of a task that names none.
pub const ROUTE_DEFAULT: &str = "default";
/// Most different tasks that a task may wait for; beyond the contract, like the following.
pub const DEPENDENCIES_MAX: usize = 1000;
/// The longest limit of a run in seconds: a year.
pub const TIMEOUT_SECONDS_MAX: i64 = 31_536_000;
/// By what a retry delay grows with each attempt, if it does not say so.
pub const RETRY_DELAY_FACTOR_DEFAULT: f64 = 2.0;
/// The longest retry delay in seconds, if it does not say so: a day.
pub const RETRY_DELAY_MAX_SECONDS_DEFAULT: f64 = 86_400.0;
/// Routes that may have a limit in the settings of a queue.
pub const ROUTE_LIMITS_MAX: usize = 256;
/// Dependencies that an explanation shows.
pub const EXPLAINED_DEPENDENCIES: usize = 100;
/// How far an explanation counts the tasks that come first.
pub const EXPLAINED_AHEAD: u64 = 1000;
/// Routes that stats show; how many more there are is said.
pub const STATS_ROUTES: usize = 10_000;
