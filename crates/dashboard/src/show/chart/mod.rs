//! What charts share: scales and their ticks. Pure functions; how a chart looks is in its template.

mod scale;

pub(crate) use self::scale::{Scale, rounded};
