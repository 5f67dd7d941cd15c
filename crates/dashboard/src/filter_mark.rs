//! Where in its field a filter cannot be read, and why. Shown by `parts.html` (`filter_error`) and, while somebody types, by
//! `assets/filter.js`.

use crate::selected::Unreadable;

/// Up to this column the mark stands under the field itself; further on the text around it is repeated.
const MARK_COLUMNS: usize = 44;
const MARK_CONTEXT: usize = 30;

pub(crate) struct FilterMark {
    /// The text around the place, if it is too far to the right to be marked under the field.
    pub(crate) around: Option<String>,
    /// Blanks up to the place.
    pub(crate) blanks: String,
    pub(crate) message: String,
}

impl FilterMark {
    pub(crate) fn new(text: &str, error: &Unreadable) -> Self {
        let message = error.message.clone();
        let Some(column) = error.column else { return Self { around: None, blanks: String::new(), message } };
        if column <= MARK_COLUMNS {
            return Self { around: None, blanks: " ".repeat(column - 1), message };
        }
        let skipped = column - 1 - MARK_CONTEXT;
        let around: String = text.chars().skip(skipped).take(MARK_CONTEXT + 12).collect();
        // A line end would put the mark under another line.
        let around = around.chars().map(|character| if character.is_control() { ' ' } else { character }).collect();
        Self { around: Some(around), blanks: " ".repeat(MARK_CONTEXT), message }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_stands_under_the_column_of_the_error() {
        let error = |column| Unreadable { parameter: "filter", column: Some(column), message: "wrong".to_owned() };
        let near = FilterMark::new("args.lr <== 1", &error(11));
        assert_eq!((near.around, near.blanks.len()), (None, 10));
        let text = format!("{}(", "a".repeat(99));
        let far = FilterMark::new(&text, &error(100));
        let around = far.around.unwrap();
        assert_eq!(around.chars().nth(far.blanks.len()), Some('('));
        let nowhere =
            FilterMark::new("", &Unreadable { parameter: "filter", column: None, message: "too large".to_owned() });
        assert_eq!((nowhere.around, nowhere.blanks.as_str()), (None, ""));
    }
}
