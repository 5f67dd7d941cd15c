//! The `traceparent` of W3C Trace Context (level 1): which trace a request or a run belongs to. Only text and bytes: nothing is
//! recorded or sent here.

use std::fmt;

use sha2::{Digest, Sha256};

use crate::ids::RunId;

/// The bytes of a new context: a trace id and the id of its first span.
const TRACE_BYTES: usize = 24;

/// The prefix with which the ids of runs are hashed.
const RUN_DOMAIN: &[u8] = b"taskqueue trace of run ";

/// The length of version 00, and of the part of later versions that is like it.
const TEXT_BYTES: usize = 55;

/// The flag that says that the caller may have recorded the trace.
const SAMPLED: u8 = 1;

/// A position in a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceParent {
    trace_id: [u8; 16],
    span_id: [u8; 8],
    flags: u8,
}

impl TraceParent {
    /// A new trace. It is marked as sampled, as the first caller of a trace does by default: otherwise most tracing libraries
    /// would record nothing of a run. All zeros, which name no trace, become ones.
    fn new(random: [u8; TRACE_BYTES]) -> Self {
        let (mut trace_id, mut span_id) = ([0; 16], [0; 8]);
        trace_id.copy_from_slice(&random[..16]);
        span_id.copy_from_slice(&random[16..]);
        Self { trace_id: nonzero(trace_id), span_id: nonzero(span_id), flags: SAMPLED }
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
    fn child(self, span_id: [u8; 8]) -> Self {
        Self { span_id: nonzero(span_id), ..self }
    }

    /// Reads `00-<32 hex>-<16 hex>-<2 hex>`, in lower case, with ids that are not zero. A later version may have more behind
    /// another dash; ff is none.
    pub fn parse(text: &str) -> Option<Self> {
        let bytes = text.as_bytes();
        let (known, rest) = bytes.split_at_checked(TEXT_BYTES)?;
        let version = hex::<1>(&known[..2])?[0];
        let fits_version = match version {
            0 => rest.is_empty(),
            0xff => false,
            _ => rest.is_empty() || rest[0] == b'-',
        };
        let has_dashes = [2, 35, 52].iter().all(|at| known[*at] == b'-');
        let (trace_id, span_id) = (hex::<16>(&known[3..35])?, hex::<8>(&known[36..52])?);
        let flags = hex::<1>(&known[53..])?[0];
        let is_valid = fits_version && has_dashes && trace_id != [0; 16] && span_id != [0; 8];
        // Of the flags only the first has a meaning that is known here.
        is_valid.then_some(Self { trace_id, span_id, flags: flags & SAMPLED })
    }

    /// Which trace it is, as 32 hexadecimal digits.
    pub fn trace_id(&self) -> impl fmt::Display + Copy + use<> {
        Hex(self.trace_id)
    }
}

impl fmt::Display for TraceParent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "00-{}-{}-{:02x}", Hex(self.trace_id), Hex(self.span_id), self.flags)
    }
}

#[derive(Clone, Copy)]
struct Hex<const N: usize>([u8; N]);

impl<const N: usize> fmt::Display for Hex<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

fn nonzero<const N: usize>(bytes: [u8; N]) -> [u8; N] {
    if bytes == [0; N] { [1; N] } else { bytes }
}

/// Lower-case hexadecimal digits, exactly two for each byte.
fn hex<const N: usize>(digits: &[u8]) -> Option<[u8; N]> {
    let digit = |byte: u8| match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    };
    let mut bytes = [0; N];
    for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
        *byte = digit(pair[0])? << 4 | digit(pair[1])?;
    }
    (digits.len() == 2 * N).then_some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
    const SPAN: &str = "00f067aa0ba902b7";

    #[test]
    fn only_the_forms_of_the_standard_are_read() {
        let good = [
            format!("00-{TRACE}-{SPAN}-00"),
            format!("00-{TRACE}-{SPAN}-01"),
            format!("00-{TRACE}-{SPAN}-ff"),
            format!("01-{TRACE}-{SPAN}-01"),
            format!("cc-{TRACE}-{SPAN}-01-what-the-future-will-be-like"),
        ];
        for text in good {
            let parsed = TraceParent::parse(&text).unwrap_or_else(|| panic!("{text}"));
            assert_eq!(parsed.trace_id().to_string(), TRACE, "{text}");
        }
        let bad = [
            String::new(),
            format!("00-{TRACE}-{SPAN}"),
            format!("00-{TRACE}-{SPAN}-"),
            format!("00-{TRACE}-{SPAN}-0"),
            format!("00-{TRACE}-{SPAN}-01-"),
            format!("00-{TRACE}-{SPAN}-01-x"),
            format!("00-{TRACE}-{SPAN}-011"),
            format!("01-{TRACE}-{SPAN}-011"),
            format!("ff-{TRACE}-{SPAN}-01"),
            format!("0-{TRACE}-{SPAN}-01"),
            format!("0g-{TRACE}-{SPAN}-01"),
            format!("00-{}-{SPAN}-01", "0".repeat(32)),
            format!("00-{TRACE}-{}-01", "0".repeat(16)),
            format!("00-{}-{SPAN}-01", TRACE.to_uppercase()),
            format!("00-{TRACE}-{}-01", SPAN.to_uppercase()),
            format!("00-{TRACE}-{SPAN}-0A"),
            format!("00_{TRACE}-{SPAN}-01"),
            format!("00-{TRACE}_{SPAN}-01"),
            format!("00-{TRACE}-{SPAN}_01"),
            format!(" 00-{TRACE}-{SPAN}-01"),
            format!("00-{TRACE}-{SPAN}-01 "),
            format!("00-{}\u{fc}-{SPAN}-01", &TRACE[2..]),
            format!("00-{}g-{SPAN}-01", &TRACE[1..]),
            format!("00-{TRACE}-{SPAN}-01,00-{TRACE}-{SPAN}-01"),
        ];
        for text in bad {
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
        let child = first.child([9; 8]);
        assert_eq!(child.trace_id().to_string(), first.trace_id().to_string());
        assert_ne!(child, first);
        let unsampled = TraceParent::parse(&format!("00-{TRACE}-{SPAN}-00")).unwrap();
        assert!(unsampled.child([9; 8]).to_string().ends_with("-00"), "who began the trace decides");
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
        let zeros = TraceParent::new([0; TRACE_BYTES]).child([0; 8]);
        assert!(TraceParent::parse(&zeros.to_string()).is_some(), "{zeros}");
    }
}
