//! Text to tokens. The lexer never fails: what is no token becomes [`Token::Invalid`], so that the parser
//! reports the leftmost error. Which words are keywords is the parser's business (after a dot none is).

use super::ast::Order;
use super::{At, Fault};
use crate::json::escaped_byte;

/// The smallest unit of a filter.
#[derive(Debug)]
pub(super) enum Token<'a> {
    /// A name or a keyword.
    Word(&'a str),
    /// A number without its sign.
    Number(&'a str),
    /// A string, unescaped.
    Text(String),
    Operator(Operator),
    /// One of `( ) [ ] , . -`.
    Symbol(char),
    Invalid(Fault),
    End,
}

/// The comparisons.
#[derive(Clone, Copy, Debug)]
pub(super) enum Operator {
    Equal,
    NotEqual,
    Order(Order),
}

/// The operators, and those of other languages with the operator to use instead. They are tried in this order: `===`
/// comes before `==`, its prefix.
const OPERATORS: [(&str, Result<Operator, &str>); 18] = [
    ("===", Err("==")),
    ("!==", Err("!=")),
    ("<>", Err("!=")),
    ("=<", Err("<=")),
    ("=>", Err(">=")),
    ("=!", Err("!=")),
    ("&&", Err("and")),
    ("||", Err("or")),
    ("==", Ok(Operator::Equal)),
    ("!=", Ok(Operator::NotEqual)),
    ("<=", Ok(Operator::Order(Order::LessOrEqual))),
    (">=", Ok(Operator::Order(Order::GreaterOrEqual))),
    ("<", Ok(Operator::Order(Order::Less))),
    (">", Ok(Operator::Order(Order::Greater))),
    ("=", Err("==")),
    ("&", Err("and")),
    ("|", Err("or")),
    ("!", Err("not")),
];

impl Operator {
    /// How the operator is written.
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Equal => "==",
            Self::NotEqual => "!=",
            Self::Order(order) => order.as_str(),
        }
    }

    /// The operator that says the same with both sides exchanged.
    pub(super) fn mirrored(self) -> Self {
        match self {
            Self::Order(Order::Less) => Self::Order(Order::Greater),
            Self::Order(Order::LessOrEqual) => Self::Order(Order::GreaterOrEqual),
            Self::Order(Order::Greater) => Self::Order(Order::Less),
            Self::Order(Order::GreaterOrEqual) => Self::Order(Order::LessOrEqual),
            Self::Equal | Self::NotEqual => self,
        }
    }
}

/// Reads one token after the other.
pub(super) struct Lexer<'a> {
    text: &'a str,
    /// In bytes, always at the start of a character.
    offset: usize,
}

impl<'a> Lexer<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self { text, offset: 0 }
    }

    /// The next token; behind the last one always [`Token::End`].
    pub(super) fn next(&mut self) -> At<Token<'a>> {
        self.take_while(|b| matches!(b, b' ' | b'\t' | b'\n' | b'\r'));
        At { offset: self.offset, value: self.token() }
    }

    fn token(&mut self) -> Token<'a> {
        let rest = self.rest();
        match rest.as_bytes() {
            [] => Token::End,
            [b'"' | b'\'', ..] => self.string().map_or_else(Token::Invalid, Token::Text),
            [b'0'..=b'9', ..] | [b'.', b'0'..=b'9', ..] => Token::Number(self.number()),
            [b'a'..=b'z' | b'A'..=b'Z' | b'_', ..] => {
                Token::Word(self.take_while(|b| b.is_ascii_alphanumeric() || b == b'_'))
            }
            [symbol @ (b'(' | b')' | b'[' | b']' | b',' | b'.' | b'-'), ..] => {
                self.offset += 1;
                Token::Symbol(char::from(*symbol))
            }
            _ => self.operator(),
        }
    }

    fn operator(&mut self) -> Token<'a> {
        let rest = self.rest();
        let message = match OPERATORS.iter().find(|(text, _)| rest.starts_with(text)) {
            Some((text, Ok(operator))) => {
                self.offset += text.len();
                return Token::Operator(*operator);
            }
            Some((text, Err(ours))) => format!("`{text}` is not an operator, did you mean `{ours}`?"),
            None => format!("unexpected character `{}`", rest.chars().next().unwrap_or_default().escape_debug()),
        };
        Token::Invalid(Fault::new(self.offset, message))
    }

    /// The longest number at this place; the first character is a digit, or a dot before a digit.
    fn number(&mut self) -> &'a str {
        let start = self.offset;
        self.digits();
        if self.rest().starts_with('.') {
            self.offset += 1;
            self.digits();
        }
        let exponent = match self.rest().as_bytes() {
            [b'e' | b'E', b'+' | b'-', b'0'..=b'9', ..] => 2,
            [b'e' | b'E', b'0'..=b'9', ..] => 1,
            _ => 0,
        };
        if exponent > 0 {
            self.offset += exponent;
            self.digits();
        }
        &self.text[start..self.offset]
    }

    fn digits(&mut self) {
        self.take_while(|b| b.is_ascii_digit());
    }

    fn string(&mut self) -> Result<String, Fault> {
        let opening = self.offset;
        let quote = self.next_char();
        let mut text = String::new();
        loop {
            let at = self.offset;
            match self.next_char() {
                None => return Err(Fault::new(opening, "the string has no closing quote")),
                c if c == quote => return Ok(text),
                Some('\\') => {
                    text.push(self.escape().ok_or_else(|| Fault::new(at, "invalid escape in the string"))?);
                }
                Some(c) if c < ' ' => {
                    let name = c.escape_debug();
                    return Err(Fault::new(at, format!("control characters must be escaped in strings: `{name}`")));
                }
                Some(c) => text.push(c),
            }
        }
    }

    /// Returns what an escape stands for, read behind its backslash.
    fn escape(&mut self) -> Option<char> {
        match self.next_char()? {
            c @ ('\'' | '/') => Some(c),
            'u' => self.code_point(),
            c => u8::try_from(c).ok().and_then(escaped_byte).map(char::from),
        }
    }

    /// Four hexadecimal digits, or two surrogates as `XXXX\uXXXX`.
    fn code_point(&mut self) -> Option<char> {
        let first = self.code_unit()?;
        if !(0xD800..0xDC00).contains(&first) {
            return char::from_u32(first.into());
        }
        if !self.rest().starts_with("\\u") {
            return None;
        }
        self.offset += 2;
        char::decode_utf16([first, self.code_unit()?]).next()?.ok()
    }

    fn code_unit(&mut self) -> Option<u16> {
        let digits = self.rest().get(..4)?;
        // `from_str_radix` alone would also accept a sign.
        let unit = digits.bytes().all(|b| b.is_ascii_hexdigit()).then(|| u16::from_str_radix(digits, 16).ok())??;
        self.offset += 4;
        Some(unit)
    }

    fn next_char(&mut self) -> Option<char> {
        let c = self.rest().chars().next()?;
        self.offset += c.len_utf8();
        Some(c)
    }

    /// Takes the ASCII bytes that `accept` wants.
    fn take_while(&mut self, accept: fn(u8) -> bool) -> &'a str {
        let rest = self.rest();
        let taken = &rest[..rest.bytes().position(|b| !accept(b)).unwrap_or(rest.len())];
        self.offset += taken.len();
        taken
    }

    fn rest(&self) -> &'a str {
        &self.text[self.offset..]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens(text: &str) -> Vec<String> {
        let mut lexer = Lexer::new(text);
        let mut found = Vec::new();
        loop {
            match lexer.next().value {
                Token::End => return found,
                Token::Invalid(fault) => {
                    found.push(format!("! {}", fault.message));
                    return found;
                }
                Token::Word(word) => found.push(format!("word {word}")),
                Token::Number(number) => found.push(format!("number {number}")),
                Token::Text(text) => found.push(format!("text {text}")),
                Token::Operator(operator) => found.push(operator.as_str().to_owned()),
                Token::Symbol(symbol) => found.push(symbol.to_string()),
            }
        }
    }

    #[test]
    fn tokens_are_as_long_as_possible_and_separate_themselves() {
        let cases: [(&str, &[&str]); 16] = [
            ("", &[]),
            (" \t\r\n", &[]),
            ("a.b", &["word a", ".", "word b"]),
            ("notin", &["word notin"]),
            ("_9 x_", &["word _9", "word x_"]),
            ("1and", &["number 1", "word and"]),
            ("1e5and", &["number 1e5", "word and"]),
            ("1else", &["number 1", "word else"]),
            ("1e+x", &["number 1", "word e", "! unexpected character `+`"]),
            ("1.and", &["number 1.", "word and"]),
            ("1..5", &["number 1.", "number .5"]),
            ("01.5e-07", &["number 01.5e-07"]),
            (".5E+1.", &["number .5E+1", "."]),
            ("a.5", &["word a", "number .5"]),
            ("-.5", &["-", "number .5"]),
            ("<=>=<>", &["<=", ">=", "! `<>` is not an operator, did you mean `!=`?"]),
        ];
        for (text, expected) in cases {
            assert_eq!(tokens(text), expected, "{text:?}");
        }
    }

    #[test]
    fn strings_take_exactly_the_json_escapes_and_both_quotes() {
        let cases: [(&[&str], Result<&str, usize>); 13] = [
            (&[r#""""#], Ok("")),
            (&[r#"'a"b'"#], Ok("a\"b")),
            (&[r#""it's""#], Ok("it's")),
            (&[r#""\"\'\\\/\b\f\n\r\t""#], Ok("\"'\\/\u{8}\u{c}\n\r\t")),
            (&[r#""\u00e4\u00E4\u0000""#], Ok("ää\0")),
            (&[r#""\ud83d\ude00""#], Ok("😀")),
            (&["\"\u{7f}ä\u{2028}\""], Ok("\u{7f}ä\u{2028}")),
            (&[r#""\q""#, r#""\u12""#, r#""\u+123""#, r#""\u12ä""#, r#""\ud83d""#, r#""\ud83d\n""#], Err(1)),
            (&[r#""\ud83d\u0041""#, r#""\ude00""#], Err(1)),
            (&[r#""ä\x41""#], Err(3)),
            (&["\"a\tb\"", "\"a\nb\"", "\"a\0b\""], Err(2)),
            (&[r#""abc"#, r#""abc'"#, r#""abc\""#], Err(0)),
            (&[r#""abc\"#], Err(4)),
        ];
        for (texts, expected) in cases {
            for text in texts {
                let found = match Lexer::new(text).next().value {
                    Token::Text(text) => Ok(text),
                    Token::Invalid(fault) => Err(fault.offset),
                    other => panic!("{text}: {other:?}"),
                };
                assert_eq!(found, expected.map(str::to_owned), "{text}");
            }
        }
    }

    #[test]
    fn anything_else_outside_strings_is_no_token() {
        for c in "\u{a0}\u{3000}\u{feff}\u{b}\0é１+*/%{};:?\\$`~^@#".chars() {
            let text = c.to_string();
            let found = Lexer::new(&text).next().value;
            assert!(matches!(&found, Token::Invalid(fault) if fault.message.contains("unexpected character")), "{c:?}");
        }
    }
}
