//! Text that was written for a terminal: what its control sequences do (`sequences.rs`), its colours (`styles.rs`), and the lines that
//! a reader of an output sees (`lines.rs`).

mod harmful;
mod lines;
mod sequences;
mod styles;

pub use self::harmful::{is_bidi_control, is_harmful};
pub use self::lines::{Cell, LineSink, OutputLines};
pub use self::sequences::{Sequences, Step};
pub use self::styles::Styles;
