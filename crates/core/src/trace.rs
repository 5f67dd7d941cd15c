//! The `traceparent` of W3C Trace Context (level 1): which trace a request or a run belongs to. Only text and bytes: nothing is
//! recorded or sent here.

use std::fmt;

use sha2::{Digest, Sha256};

use crate::ids::RunId;

/// The bytes of a new context: a trace id and the id of its first span.
const TRACE_BYTES: usize = 24;

/// The prefix with which the ids of runs are hashed.
const RUN_DOMAIN: &[u8] = b"taskqueue trace of run ";

/// The flag that says that the caller may have recorded the trace.
const SAMPLED: u8 = 1;

/// A position in a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceParent {
    trace_id: u128,
    span_id: u64,
    flags: u8,
}

impl TraceParent {
    /// A new trace. It is marked as sampled, as the first caller of a trace does by default: otherwise most tracing libraries
    /// would record nothing of a run. Zero, which names no trace, becomes one.
    fn new(random: [u8; TRACE_BYTES]) -> Self {
        let number = |bytes: &[u8]| bytes.iter().fold(0, |number, byte| number << 8 | u128::from(*byte));
        let (trace_id, span_id) = (number(&random[..16]), number(&random[16..]) as u64);
        Self { trace_id: trace_id.max(1), span_id: span_id.max(1), flags: SAMPLED }
    }

    /// The span of a run: in the trace of whoever created the task, if that one is known, or in a trace of its own. Its ids come
    /// from the run id, which is random and never used twice: so whoever knows the run knows its trace, and nobody has to keep it.
    pub fn of_run(run_id: RunId, creator: Option<Self>) -> Self {
        let digest = Sha256::new().chain_update(RUN_DOMAIN).chain_update(run_id.as_str()).finalize();
        let mut bytes = [0; TRACE_BYTES];
        bytes.copy_from_slice(&digest[..TRACE_BYTES]);
        let own = Self::new(bytes);
        creator.map_or(own, |creator| creator.child(own.span_id))
    }

    /// A new span of the same trace, with the same flags.
    fn child(self, span_id: u64) -> Self {
        Self { span_id: span_id.max(1), ..self }
    }

    /// Reads `00-<32 hex>-<16 hex>-<2 hex>`, in lower case, with ids that are not zero. A later version may have more behind
    /// another dash; ff is none.
    pub fn parse(text: &str) -> Option<Self> {
        let mut parts = text.splitn(5, '-');
        let mut number = |digits| hex(parts.next()?, digits);
        let (version, trace_id, span_id, flags) = (number(2)?, number(32)?, number(16)? as u64, number(2)? as u8);
        let is_known = version == 0 && parts.next().is_none();
        let is_valid = (is_known || (1..0xff).contains(&version)) && trace_id != 0 && span_id != 0;
        // Of the flags only the first has a meaning that is known here.
        is_valid.then_some(Self { trace_id, span_id, flags: flags & SAMPLED })
    }

    /// Which trace it is, as 32 hexadecimal digits.
    pub fn trace_id(&self) -> impl fmt::Display + use<> {
        let trace_id = self.trace_id;
        fmt::from_fn(move |f| write!(f, "{trace_id:032x}"))
    }
}

impl fmt::Display for TraceParent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "00-{}-{:016x}-{:02x}", self.trace_id(), self.span_id, self.flags)
    }
}

/// The number that so many lower-case hexadecimal digits are.
fn hex(text: &str, digits: usize) -> Option<u128> {
    let is_hex = text.len() == digits && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    u128::from_str_radix(text, 16).ok().filter(|_| is_hex)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
    const SPAN: &str = "00f067aa0ba902b7";

    #[test]
    fn only_the_forms_of_the_standard_are_read() {
        let filled = |text: &str| text.replace('T', TRACE).replace('S', SPAN);
        let good = "00-T-S-00 00-T-S-01 00-T-S-ff 01-T-S-01 cc-T-S-01-what-the-future-will-be-like";
        for text in good.split(' ').map(filled) {
            let parsed = TraceParent::parse(&text).unwrap_or_else(|| panic!("{text}"));
            assert_eq!(parsed.trace_id().to_string(), TRACE, "{text}");
        }
        let bad = "00-T-S 00-T-S- 00-T-S-0 00-T-S-01- 00-T-S-01-x 00-T-S-011 01-T-S-011 ff-T-S-01 0-T-S-01 0g-T-S-01 \
             00-T-S-0A 00_T-S-01 00-T_S-01 00-T-S_01 00-T-S-01,00-T-S-01";
        let others = [
            String::new(),
            format!("00-{}-{SPAN}-01", "0".repeat(32)),
            format!("00-{TRACE}-{}-01", "0".repeat(16)),
            format!("00-{}-{SPAN}-01", TRACE.to_uppercase()),
            format!("00-{TRACE}-{}-01", SPAN.to_uppercase()),
            format!(" 00-{TRACE}-{SPAN}-01"),
            format!("00-{TRACE}-{SPAN}-01 "),
            format!("00-{}\u{fc}-{SPAN}-01", &TRACE[2..]),
            format!("00-{}g-{SPAN}-01", &TRACE[1..]),
        ];
        for text in bad.split(' ').map(filled).chain(others) {
            assert_eq!(TraceParent::parse(&text), None, "{text:?}");
        }
    }

    #[test]
    fn a_new_trace_is_written_as_it_is_read_and_its_spans_stay_in_it() {
        let mut random = [0; TRACE_BYTES];
        (1..).zip(&mut random).for_each(|(number, byte)| *byte = number);
        let first = TraceParent::new(random);
        assert_eq!(first.to_string(), "00-0102030405060708090a0b0c0d0e0f10-1112131415161718-01");
        assert_eq!(TraceParent::parse(&first.to_string()), Some(first));
        let child = first.child(9);
        assert_eq!(child.trace_id().to_string(), first.trace_id().to_string());
        assert_ne!(child, first);
        let unsampled = TraceParent::parse(&format!("00-{TRACE}-{SPAN}-00")).unwrap();
        assert!(unsampled.child(9).to_string().ends_with("-00"), "who began the trace decides");
    }

    #[test]
    fn every_run_has_a_span_of_its_own_and_a_trace_of_its_own_unless_the_task_has_one() {
        let run = |number: u8| RunId::parse(&format!("r_00000000000{number}")).unwrap();
        let (first, again, second) =
            (TraceParent::of_run(run(1), None), TraceParent::of_run(run(1), None), TraceParent::of_run(run(2), None));
        assert_eq!(first, again);
        assert!(first.trace_id != second.trace_id && first.span_id != second.span_id);
        let creator = TraceParent::parse(&format!("00-{TRACE}-{SPAN}-00")).unwrap();
        let (third, fourth) = (TraceParent::of_run(run(1), Some(creator)), TraceParent::of_run(run(2), Some(creator)));
        assert!(third.trace_id == creator.trace_id && fourth.trace_id == creator.trace_id);
        assert!(third.span_id != creator.span_id && third.span_id != fourth.span_id);
    }

    #[test]
    fn zeros_are_never_written() {
        let zeros = TraceParent::new([0; TRACE_BYTES]).child(0);
        assert!(TraceParent::parse(&zeros.to_string()).is_some(), "{zeros}");
    }
}
