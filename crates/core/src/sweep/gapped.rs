//! Args that are the same for all tasks of a sweep but for some values: their text, written once, with a gap for each value. To make
//! the args of a task, only its values are written.

use crate::json::{JsonObject, Value, write_string, write_value};

#[derive(Debug)]
pub(super) struct Gapped {
    /// Each text with the axis whose value stands behind it, in the order of the text.
    pieces: Vec<(String, usize)>,
    end: String,
}

impl Gapped {
    /// The object with a gap at each of these paths, at which it has something.
    pub(super) fn new(object: &Value<'_>, paths: &[&[&str]]) -> Self {
        let mut writer = Writer { pieces: Vec::new(), out: Vec::new() };
        writer.write(object, paths.iter().copied().enumerate().collect());
        let (end, pieces) = (text(writer.out), writer.pieces);
        Self { pieces, end }
    }

    /// With the value of each axis.
    pub(super) fn filled(&self, values: &[&Value<'_>]) -> JsonObject {
        let mut out =
            Vec::with_capacity(self.end.len() + self.pieces.iter().map(|(piece, _)| piece.len() + 16).sum::<usize>());
        for (piece, axis) in &self.pieces {
            out.extend_from_slice(piece.as_bytes());
            write_value(&mut out, values[*axis]);
        }
        out.extend_from_slice(self.end.as_bytes());
        JsonObject::from_canonical(&text(out))
    }
}

/// Values are written as UTF-8.
fn text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap_or_default()
}

struct Writer {
    pieces: Vec<(String, usize)>,
    out: Vec<u8>,
}

impl Writer {
    /// Writes a value in which these axes have their gaps, each with the rest of its path.
    fn write(&mut self, value: &Value<'_>, axes: Vec<(usize, &[&str])>) {
        match (value, &axes[..]) {
            (_, [(axis, [])]) => self.pieces.push((text(std::mem::take(&mut self.out)), *axis)),
            (Value::Object(members), [_, ..]) => {
                for (number, (key, member)) in members.iter().enumerate() {
                    self.out.push(if number == 0 { b'{' } else { b',' });
                    write_string(&mut self.out, key);
                    self.out.push(b':');
                    let inner = |&(axis, path): &(usize, _)| split(path, key).map(|rest| (axis, rest));
                    self.write(member, axes.iter().filter_map(inner).collect());
                }
                self.out.push(b'}');
            }
            _ => write_value(&mut self.out, value),
        }
    }
}

/// The rest of a path that begins with this key.
fn split<'p, 's>(path: &'p [&'s str], key: &str) -> Option<&'p [&'s str]> {
    path.split_first().filter(|(first, _)| **first == key).map(|(_, rest)| rest)
}
