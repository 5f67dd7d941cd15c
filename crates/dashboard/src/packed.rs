//! Texts one after the other in bytes, each behind its length: the form in which the storage hands over what is taken of each task, as
//! soon as it is read, so that no page of tasks is held whole.

/// Appends a text.
pub(crate) fn put(out: &mut Vec<u8>, text: &str) {
    // No value of a task is longer than that.
    let length = u32::try_from(text.len()).unwrap_or(0);
    out.extend_from_slice(&length.to_le_bytes());
    out.extend_from_slice(&text.as_bytes()[..length as usize]);
}

/// Appends what `write` appends, behind its length, as one part.
pub(crate) fn put_part(out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    out.extend_from_slice(&[0; 4]);
    write(out);
    let length = u32::try_from(out.len() - start - 4).unwrap_or(u32::MAX);
    out[start..start + 4].copy_from_slice(&length.to_le_bytes());
}

/// Reads what was put. Broken bytes end it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    pub(crate) fn byte(&mut self) -> Option<u8> {
        let (byte, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(*byte)
    }

    pub(crate) fn text(&mut self) -> Option<&'a str> {
        std::str::from_utf8(self.part()?.rest).ok()
    }

    /// What was put as one part.
    pub(crate) fn part(&mut self) -> Option<Self> {
        let (length, rest) = self.rest.split_first_chunk::<4>()?;
        let (part, rest) = rest.split_at_checked(u32::from_le_bytes(*length) as usize)?;
        self.rest = rest;
        Some(Self { rest: part })
    }
}
