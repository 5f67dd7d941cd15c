//! `outcomes.outcome`: what came out of a task. In this order: the version; flags ([`RESULT`] to [`NO_RUN`]); of an error,
//! when it was recorded and its attempt; of the last run, its attempt; of the progress, when it was recorded and its attempt;
//! the length of each text except the run id; the texts: result, id of the run that failed, type, message and traceback of the
//! error, the worker of the last run, the progress. What there is not takes no bytes.

use rusqlite::{Row, RowIndex};
use taskqueue_core::filter::LastErrorFields;
use taskqueue_core::task::{Failure, LastError, LastRun, Progress};
use taskqueue_core::{JsonObject, Outcome, RunId, Timestamp};

use super::packed::{Packer, Unpacker, Unreadable, run_id};

const RESULT: u8 = 1;
const ERROR: u8 = 1 << 1;
const TRACEBACK: u8 = 1 << 2;
const LAST_RUN: u8 = 1 << 3;
const PROGRESS: u8 = 1 << 4;
/// The error has no id of a run.
const NO_RUN: u8 = 1 << 5;

const EMPTY: &str = "{}";

/// `outcomes.outcome`, borrowed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PackedOutcome<'a> {
    pub(crate) result: &'a str,
    pub(crate) last_error: Option<LastErrorFields<'a>>,
    /// The attempt, and the worker as JSON.
    pub(crate) last_run: Option<(i64, &'a str)>,
    pub(crate) progress: Option<PackedProgress<'a>>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct PackedProgress<'a> {
    /// As JSON.
    pub(crate) value: &'a str,
    pub(crate) updated_at: Timestamp,
    pub(crate) attempt: i64,
}

impl<'a> PackedOutcome<'a> {
    /// The outcome of a task that has none: no row.
    pub(crate) const NONE: Self = Self { result: EMPTY, last_error: None, last_run: None, progress: None };

    pub(crate) fn of(outcome: &'a Outcome) -> Self {
        Self {
            result: outcome.result.as_str(),
            last_error: outcome.last_error.as_ref().map(LastError::fields),
            last_run: outcome.last_run.as_ref().map(|run| (run.attempt, run.worker.as_str())),
            progress: outcome.progress.as_ref().map(|progress| PackedProgress {
                value: progress.value.as_str(),
                updated_at: progress.updated_at,
                attempt: progress.attempt,
            }),
        }
    }

    /// The outcome in a column, which is null if the task has none.
    pub(crate) fn of_row(row: &'a Row<'_>, column: impl RowIndex) -> rusqlite::Result<Self> {
        match row.get_ref(column)?.as_blob_or_null()? {
            None => Ok(Self::NONE),
            Some(bytes) => Ok(Self::unpack(bytes)?),
        }
    }

    pub(crate) fn pack(&self) -> Vec<u8> {
        let result = Some(self.result).filter(|result| *result != EMPTY);
        let (error, traceback) = (self.last_error, self.last_error.and_then(|error| error.traceback));
        let worker = self.last_run.map(|(_, worker)| worker);
        let errors = error.map(|error| [Some(error.kind), Some(error.message), traceback]).unwrap_or_default();
        let progress = self.progress.map(|progress| progress.value);
        let texts = [result, errors[0], errors[1], errors[2], worker, progress];
        let mut packer = Packer::new(64 + texts.iter().flatten().map(|text| text.len()).sum::<usize>());
        let flag = |is_set: bool, flag: u8| if is_set { flag } else { 0 };
        packer.byte(
            flag(result.is_some(), RESULT)
                | flag(error.is_some(), ERROR)
                | flag(traceback.is_some(), TRACEBACK)
                | flag(worker.is_some(), LAST_RUN)
                | flag(progress.is_some(), PROGRESS)
                | flag(error.is_some_and(|error| error.run_id.is_none()), NO_RUN),
        );
        if let Some(error) = error {
            packer.time(error.occurred_at);
            packer.int(error.attempt);
        }
        if let Some((attempt, _)) = self.last_run {
            packer.int(attempt);
        }
        if let Some(progress) = self.progress {
            packer.time(progress.updated_at);
            packer.int(progress.attempt);
        }
        for text in texts.into_iter().flatten() {
            packer.length(text);
        }
        packer.text(result.unwrap_or_default());
        packer.text(error.and_then(|error| error.run_id).unwrap_or_default());
        for text in texts[1..].iter().flatten() {
            packer.text(text);
        }
        packer.into_bytes()
    }

    pub(crate) fn unpack(bytes: &'a [u8]) -> Result<Self, Unreadable> {
        let mut packed = Unpacker::new(bytes)?;
        let flags = packed.byte()?;
        let has = |flag: u8| flags & flag != 0;
        let error = if has(ERROR) { Some((packed.time()?, packed.int()?)) } else { None };
        let last_run = if has(LAST_RUN) { Some(packed.int()?) } else { None };
        let progress = if has(PROGRESS) { Some((packed.time()?, packed.int()?)) } else { None };
        let mut length = |is_there: bool| if is_there { packed.length().map(Some) } else { Ok(None) };
        let result = length(has(RESULT))?;
        let (kind, message, traceback) = (length(has(ERROR))?, length(has(ERROR))?, length(has(TRACEBACK))?);
        let (worker, progress_length) = (length(has(LAST_RUN))?, length(has(PROGRESS))?);
        let mut texts = packed.texts()?;
        let mut text = |length: Option<usize>| texts.next(length.unwrap_or(0));
        let result = if has(RESULT) { text(result)? } else { EMPTY };
        let last_error = match error {
            None => None,
            Some((occurred_at, attempt)) => {
                let run_id = if has(NO_RUN) { None } else { Some(text(Some(RunId::LENGTH))?) };
                let (kind, message) = (text(kind)?, text(message)?);
                let traceback = if has(TRACEBACK) { Some(text(traceback)?) } else { None };
                Some(LastErrorFields { kind, message, traceback, occurred_at, attempt, run_id })
            }
        };
        let last_run = last_run.map(|attempt| text(worker).map(|worker| (attempt, worker))).transpose()?;
        let progress = progress.map(|(updated_at, attempt)| {
            text(progress_length).map(|value| PackedProgress { value, updated_at, attempt })
        });
        let progress = progress.transpose()?;
        if texts.rest().is_empty() { Ok(Self { result, last_error, last_run, progress }) } else { Err(Unreadable) }
    }

    pub(crate) fn outcome(&self) -> Result<Outcome, Unreadable> {
        let last_error = match self.last_error {
            None => None,
            Some(LastErrorFields { kind, message, traceback, occurred_at, attempt, run_id: id }) => {
                let failure =
                    Failure { kind: kind.into(), message: message.into(), traceback: traceback.map(Into::into) };
                Some(LastError { failure, occurred_at, attempt, run_id: id.map(run_id).transpose()? })
            }
        };
        let last_run =
            self.last_run.map(|(attempt, worker)| LastRun { attempt, worker: JsonObject::from_canonical(worker) });
        let progress = self.progress.map(|PackedProgress { value, updated_at, attempt }| Progress {
            value: JsonObject::from_canonical(value),
            updated_at,
            attempt,
        });
        Ok(Outcome { result: JsonObject::from_canonical(self.result), last_error, last_run, progress })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use taskqueue_core::ids::RunId;

    use super::*;

    fn text() -> impl Strategy<Value = String> {
        "\\PC{0,40}"
    }

    fn failure() -> impl Strategy<Value = LastError> {
        let texts = (text(), text(), proptest::option::of(text()));
        (texts, any::<i64>(), any::<i64>(), proptest::option::of(any::<[u8; 9]>())).prop_map(
            |(texts, at, attempt, run)| LastError {
                failure: Failure { kind: texts.0.into(), message: texts.1.into(), traceback: texts.2.map(Into::into) },
                occurred_at: Timestamp::from_micros(at),
                attempt,
                run_id: run.map(RunId::from_bytes),
            },
        )
    }

    fn object() -> impl Strategy<Value = JsonObject> {
        "\\{(\"[a-zé]{1,9}\":1)?\\}".prop_map(|text| JsonObject::from_canonical(&text))
    }

    fn last_run() -> impl Strategy<Value = LastRun> {
        (any::<i64>(), object()).prop_map(|(attempt, worker)| LastRun { attempt, worker })
    }

    fn progress() -> impl Strategy<Value = Progress> {
        (object(), any::<i64>(), any::<i64>()).prop_map(|(value, at, attempt)| Progress {
            value,
            updated_at: Timestamp::from_micros(at),
            attempt,
        })
    }

    proptest! {
        #[test]
        fn what_was_packed_is_unpacked(
            result in object(),
            last_error in proptest::option::of(failure()),
            last_run in proptest::option::of(last_run()),
            progress in proptest::option::of(progress()),
        ) {
            let outcome = Outcome { result, last_error, last_run, progress };
            let bytes = PackedOutcome::of(&outcome).pack();
            prop_assert_eq!(PackedOutcome::unpack(&bytes).unwrap().outcome(), Ok(outcome));
            for end in 0..bytes.len() {
                prop_assert!(PackedOutcome::unpack(&bytes[..end]).is_err());
            }
        }

        #[test]
        fn bytes_of_any_kind_do_not_panic(bytes in proptest::collection::vec(any::<u8>(), 0..100)) {
            let _ = PackedOutcome::unpack(&bytes);
        }
    }

    /// Files hold these bytes: this layout never changes.
    #[test]
    fn version_1_looks_like_this() {
        let whole = PackedOutcome {
            result: r#"{"a":1}"#,
            last_error: Some(LastErrorFields {
                kind: "Error",
                message: "no",
                traceback: Some("line 1"),
                occurred_at: Timestamp::from_micros(0x0102_0304_0506_0708),
                attempt: 3,
                run_id: Some("r_failed000001"),
            }),
            last_run: Some((4, r#"{"b":2}"#)),
            progress: None,
        };
        let expected = [
            &[1, 0b1111, 8, 7, 6, 5, 4, 3, 2, 1, 6, 8, 14, 10, 4, 12, 14][..],
            b"{\"a\":1}r_failed000001Errornoline 1{\"b\":2}",
        ];
        assert_eq!(whole.pack(), expected.concat());
        assert_eq!(PackedOutcome::NONE.pack(), [1, 0]);
        let updated_at = Timestamp::from_micros(7);
        let progress = Some(PackedProgress { value: r#"{"step":3}"#, updated_at, attempt: 2 });
        let expected = [&[1, 0b1_0000, 7, 0, 0, 0, 0, 0, 0, 0, 4, 20][..], b"{\"step\":3}"];
        assert_eq!(PackedOutcome { progress, ..PackedOutcome::NONE }.pack(), expected.concat());
        let last_error = whole.last_error.map(|error| LastErrorFields { traceback: None, run_id: None, ..error });
        let expected = [&[1, 0b10_0010, 8, 7, 6, 5, 4, 3, 2, 1, 6, 10, 4][..], b"Errorno"];
        assert_eq!(PackedOutcome { last_error, ..PackedOutcome::NONE }.pack(), expected.concat());
    }
}
