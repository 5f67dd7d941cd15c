//! Texts one after the other in bytes, each behind its length.

/// Appends a text.
pub(super) fn put(out: &mut Vec<u8>, text: &str) {
    // What is put here has been cut to less.
    let length = u32::try_from(text.len()).unwrap_or(0);
    out.extend_from_slice(&length.to_le_bytes());
    out.extend_from_slice(&text.as_bytes()[..length as usize]);
}

/// Reads what was put.
pub(super) struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    pub(super) fn byte(&mut self) -> Option<u8> {
        let (byte, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(*byte)
    }

    pub(super) fn text(&mut self) -> Option<String> {
        let (length, rest) = self.rest.split_first_chunk::<4>()?;
        let (text, rest) = rest.split_at_checked(u32::from_le_bytes(*length) as usize)?;
        self.rest = rest;
        String::from_utf8(text.to_vec()).ok()
    }
}
