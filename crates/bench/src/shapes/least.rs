//! What an answer holds at least. A request that finds nothing is cheap whatever it may cost, so a row whose answer holds less than it says
//! fails, instead of showing nothing.

use super::fields::Size;
use crate::client::Answer;

/// Numbers are products, of which each factor is that of the full size: a small run has fewer tasks, and each has less in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Least {
    /// Nothing that was stored for it.
    Anything,
    Bytes(&'static [usize]),
    /// This text, so many times.
    Times(&'static str, &'static [usize]),
    /// A number behind this text.
    Number(&'static str, &'static [usize]),
}

impl Least {
    /// How the answer falls short of it.
    pub(super) fn lacking_in(self, answer: &Answer, size: Size) -> Option<String> {
        let (what, found, factors) = match self {
            Self::Anything => return None,
            Self::Bytes(factors) => ("bytes", answer.body().len(), factors),
            Self::Times(text, factors) => (text, answer.text().matches(text).count(), factors),
            Self::Number(text, factors) => (text, number_behind(text, &answer.text()), factors),
        };
        // The least that a size makes of a number is two, and that may be more than it was.
        let expected = factors.iter().map(|factor| size.of(*factor).min(*factor)).product();
        (found < expected).then(|| format!("{what}: {found} in the answer instead of {expected}"))
    }
}

/// The number behind the first place of a text; 0 if there is none.
fn number_behind(text: &str, answer: &str) -> usize {
    let rest = answer.split_once(text).map_or("", |(_, rest)| rest);
    // People read it with commas between its digits.
    let digits = rest.chars().take_while(|c| c.is_ascii_digit() || *c == ',').filter(char::is_ascii_digit);
    digits.collect::<String>().parse().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_that_holds_less_than_its_row_says_is_told() {
        let answer = Answer::of(200, "", r#"{"count":1,234,"items":["r1","r2","r3"]}"#);
        let held = [
            Least::Anything,
            Least::Bytes(&[64, 640]),
            Least::Times("\"r", &[128]),
            Least::Times("\"r1\"", &[1]),
            Least::Number("\"count\":", &[1_234]),
        ];
        for least in held {
            assert_eq!(least.lacking_in(&answer, Size::Small), None, "{least:?}");
        }
        let lacking = [
            (Least::Bytes(&[6_400, 64]), "bytes: 40 in the answer instead of 200"),
            (Least::Times("\"r", &[256]), "\"r: 3 in the answer instead of 4"),
            (Least::Number("\"none\":", &[1]), "\"none\":: 0 in the answer instead of 1"),
        ];
        for (least, told) in lacking {
            assert_eq!(least.lacking_in(&answer, Size::Small).as_deref(), Some(told));
        }
    }
}
