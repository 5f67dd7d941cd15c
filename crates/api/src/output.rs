//! What runs print: the body that sends some of it, and the answer that gives what is kept.

use std::borrow::BorrowMut;
use std::sync::Arc;

use taskqueue_core::RunId;
use taskqueue_core::json::{ObjectWriter, Value};
use taskqueue_core::limits::OUTPUT_OFFSET_MAX;
use utoipa::ToSchema;

use crate::ErrorCode;
use crate::body::{Body, BodyErrors, Location, Members, field, request_body};
use crate::object_reader::{ObjectReader, Unreadable, WireValue};
use crate::schema;

request_body! {
    /// What a run printed.
    OutputRequest, InvalidRequest, checked by check_end;
    /// The claimant's token.
    #[schema(value_type = schema::RunId)]
    run_id: RunId = required(field::run_id),
    /// The number of bytes that the run has printed before it.
    offset: u64 = required(field::count),
    /// At most 65,536 bytes.
    #[schema(value_type = String)]
    text: Arc<str> = required(field::output_text),
}

/// An offset is a 64-bit integer in every answer, so the last byte has one, too.
fn check_end(request: &OutputRequest, body: &mut Members<'_, '_>) -> Option<()> {
    if request.offset + request.text.len() as u64 > OUTPUT_OFFSET_MAX {
        let (at, errors) = body.errors();
        return errors.refuse(&Location::Key(at, "offset"), "use an offset whose end is below 2^63");
    }
    Some(())
}

/// What is kept of what a run printed.
#[derive(Clone, Debug, PartialEq, Eq, ToSchema)]
pub struct Output {
    /// The attempt of the run.
    pub attempt: i64,
    /// The offset of the first byte of `text`.
    pub start: u64,
    /// The offset behind the last byte of `text`.
    pub end: u64,
    /// The text up to the end, a gap or the size of an answer; empty if there is nothing behind the offset.
    pub text: String,
    /// Whether the run is over. Its last bytes may still come.
    pub ended: bool,
}

impl Output {
    /// Appends an answer.
    pub fn write(out: &mut Vec<u8>, attempt: i64, start: u64, text: &str, ended: bool) {
        ObjectWriter::append_to(out)
            .integer("attempt", attempt)
            .integer("start", start)
            .integer("end", start + text.len() as u64)
            .text("text", text)
            .boolean("ended", ended)
            .end();
    }

    pub fn read(value: &Value<'_>) -> Result<Self, Unreadable> {
        let output = ObjectReader::of(value, "output")?;
        let (start, end, text) = (output.count("start")?, output.count("end")?, output.text("text")?);
        if start + text.len() as u64 != end {
            return Err(Unreadable("the offsets of the output do not fit its text".to_owned()));
        }
        let (attempt, ended) = (output.integer("attempt")?, output.boolean("ended")?);
        Ok(Self { attempt, start, end, text: text.to_owned(), ended })
    }
}

#[cfg(test)]
mod tests {
    use taskqueue_core::json;
    use taskqueue_core::limits::OUTPUT_TEXT_BYTES;

    use super::*;
    use crate::body::{decode, encode};

    fn request(offset: u64, text: &str) -> OutputRequest {
        OutputRequest { run_id: RunId::parse("r_abcdefghijkl").unwrap(), offset, text: text.into() }
    }

    fn back(request: &OutputRequest) -> Option<OutputRequest> {
        decode(&encode(request)).ok()
    }

    #[test]
    fn a_text_reads_back_up_to_its_size_and_up_to_the_last_offset() {
        const MOST: u64 = OUTPUT_OFFSET_MAX;
        let largest = "\u{1}".repeat(OUTPUT_TEXT_BYTES);
        let fits = [
            request(0, ""),
            request(7, "é\0\n\u{10ffff}"),
            request(0, &largest),
            request(MOST - 1, "x"),
            request(MOST, ""),
        ];
        for request in fits {
            assert_eq!(back(&request).as_ref(), Some(&request));
        }
        for request in [request(0, &(largest + "x")), request(MOST, "x"), request(MOST - 1, "é")] {
            assert_eq!(back(&request), None, "{}", request.offset);
        }
    }

    #[test]
    fn an_answer_has_its_five_fields_and_reads_back_only_if_its_offsets_fit() {
        let read = |text: &str| Output::read(&json::parse(text.as_bytes()).unwrap());
        let mut out = Vec::new();
        Output::write(&mut out, 2, 7, "é\"\n", true);
        let text = String::from_utf8(out).unwrap();
        assert_eq!(text, r#"{"attempt":2,"start":7,"end":11,"text":"é\"\n","ended":true}"#);
        let meant = Output { attempt: 2, start: 7, end: 11, text: "é\"\n".to_owned(), ended: true };
        assert_eq!(read(&text), Ok(meant));
        for (right, wrong) in [("11", "12"), ("7", "-7"), ("true", "null"), (r#""attempt""#, r#""try""#)] {
            assert!(read(&text.replacen(right, wrong, 1)).is_err(), "{wrong}");
        }
    }
}
