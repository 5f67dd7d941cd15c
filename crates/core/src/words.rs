//! How values are written for people, on pages, in tables and in sentences. The same value looks the same everywhere.

mod numbers;
pub mod telemetry;
mod time;

pub use self::numbers::{bytes, bytes_of, count, number, one_decimal};
pub use self::time::{Units, age, duration, exact_duration, short_duration, span, step_rate, whole_duration};
