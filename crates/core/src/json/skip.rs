//! Passes over a value of a body without making a tree of it: its form is checked as by `parse`, at any depth.

use super::parse::{ParseError, Reader};

impl<'a> Reader<'a> {
    /// Passes over a value, if need be behind white space, and gives its text.
    pub fn skip(&mut self) -> Result<&'a str, ParseError> {
        self.skip_space();
        let start = self.at;
        let mut open = Open::default();
        loop {
            let opened = match self.skip_space() {
                Some(b'{') => Some(Container::Object),
                Some(b'[') => Some(Container::Array),
                _ => None,
            };
            match opened {
                Some(container) => {
                    self.at += 1;
                    if self.skip_space() != Some(container.end()) {
                        open.push(container);
                        self.begin_entry(container)?;
                        continue;
                    }
                    self.at += 1;
                }
                None => drop(self.scalar()?),
            }
            // A value has ended, and perhaps containers with it.
            loop {
                let Some(container) = open.innermost() else { return Ok(&self.text[start..self.at]) };
                if self.has_more(container.end())? {
                    break self.begin_entry(container)?;
                }
                open.pop();
            }
        }
    }

    /// The bytes from here to the end of the body.
    pub fn bytes_left(&self) -> usize {
        self.text.len() - self.at
    }

    /// The place, in bytes from the start of the body.
    pub fn position(&self) -> usize {
        self.at
    }

    /// Goes to a place that [`Reader::position`] gave.
    pub fn go_to(&mut self, position: usize) {
        self.at = position;
    }

    fn begin_entry(&mut self, container: Container) -> Result<(), ParseError> {
        match container {
            Container::Object => self.key().map(drop),
            Container::Array => Ok(()),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Container {
    Array,
    Object,
}

impl Container {
    fn end(self) -> u8 {
        match self {
            Self::Array => b']',
            Self::Object => b'}',
        }
    }
}

/// The containers that are open, a bit for each: a body may have as many of them as bytes.
#[derive(Default)]
struct Open {
    words: Vec<u64>,
    depth: usize,
}

impl Open {
    fn push(&mut self, container: Container) {
        let (word, bit) = (self.depth / 64, self.depth % 64);
        if word == self.words.len() {
            self.words.push(0);
        }
        let is_object = u64::from(container == Container::Object);
        self.words[word] = self.words[word] & !(1 << bit) | is_object << bit;
        self.depth += 1;
    }

    fn pop(&mut self) {
        self.depth -= 1;
    }

    fn innermost(&self) -> Option<Container> {
        let last = self.depth.checked_sub(1)?;
        let is_object = self.words[last / 64] >> (last % 64) & 1 == 1;
        Some(if is_object { Container::Object } else { Container::Array })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::parse;

    fn skipped(text: &str) -> Result<&str, ParseError> {
        let mut reader = Reader::new(text.as_bytes())?;
        let skipped = reader.skip()?;
        reader.end()?;
        Ok(skipped)
    }

    #[test]
    fn what_is_passed_over_has_the_form_that_reading_it_would_ask_for() {
        let values = "null true -0.5e3 1e400 \"a\\ud800\" [] {} [[],{}] {\"a\":[1,{\"b\":null}],\"\":{}} [ { [1 [1, [1,] [,] \
             {\"a\" {\"a\": {\"a\":1, {\"a\":1,} {1:2} [1} {\"a\":1] ] } []] {}} \"a \"\\x\" 01 nul [{]} \
             [[1],[2],{\"a\":{}}]x";
        for text in values.split(' ').chain([" [ 1 , { \"a\" : [ ] } ] ", "", "{\"a\" 1}", "[1 2]"]) {
            let expected = parse(text.as_bytes()).map(|_| text.trim());
            assert_eq!(skipped(text), expected, "{text}");
        }
    }

    #[test]
    fn a_value_of_any_depth_is_passed_over() {
        for levels in [63, 64, 65, 257, 1_000_000] {
            for (open, close) in [("[", "]"), ("{\"a\":", "}"), ("[{\"a\":", "}]")] {
                let text = format!("{}1{}", open.repeat(levels), close.repeat(levels));
                assert_eq!(skipped(&text), Ok(text.as_str()));
                assert!(skipped(&text[..text.len() - 1]).is_err());
            }
        }
    }
}
