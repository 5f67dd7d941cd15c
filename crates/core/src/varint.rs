//! Numbers as bytes: seven bits to a byte, the lowest first; the highest bit of a byte says that another one follows.

/// Appends a number. One below 128 takes a byte, the largest ten.
#[inline]
pub fn write(bytes: &mut Vec<u8>, mut left: u64) {
    while left >= 0x80 {
        bytes.push(left as u8 | 0x80);
        left >>= 7;
    }
    bytes.push(left as u8);
}

/// Takes a number off the beginning; nothing if the bytes end too early or it is too large.
#[inline]
pub fn read(bytes: &mut &[u8]) -> Option<u64> {
    let (mut number, mut shift) = (0_u64, 0);
    loop {
        let byte = bytes.split_off_first()?;
        // The tenth byte has room for one bit.
        if shift == 63 && *byte > 1 {
            return None;
        }
        number |= u64::from(byte & 0x7f) << shift;
        if *byte < 0x80 {
            return Some(number);
        }
        shift += 7;
    }
}
