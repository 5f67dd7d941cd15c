//! Where a configuration value comes from, and the rule which token may be sent to which URL (docs/decisions/0023). No file
//! or variable is read here.

use std::fmt;
use std::path::PathBuf;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    BuiltIn,
    Flag(&'static str),
    Environment(&'static str),
    UserFile(PathBuf),
    /// A `taskqueue.toml`. It can come with a cloned or downloaded folder, so others may have written it.
    ProjectFile(PathBuf),
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BuiltIn => f.write_str("default"),
            Self::Flag(name) => write!(f, "flag {name}"),
            Self::Environment(name) => write!(f, "environment {name}"),
            Self::UserFile(path) | Self::ProjectFile(path) => write!(f, "file {}", path.display()),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Sourced<T> {
    pub(crate) value: T,
    pub(crate) source: Source,
}

impl<T> Sourced<T> {
    pub(super) fn new(value: T, source: Source) -> Self {
        Self { value, source }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TokenChoice<T> {
    /// The token that is sent to the URL.
    pub(super) sent: Option<Sourced<T>>,
    /// The sources of tokens that must not be sent to the URL.
    pub(super) withheld: Vec<Source>,
}

/// Which of `tokens`, sorted by precedence, is sent to a URL that comes from the source `url`.
pub(super) fn choose_token<T>(url: &Source, tokens: Vec<Sourced<T>>) -> TokenChoice<T> {
    let (allowed, withheld): (Vec<_>, Vec<_>) = tokens.into_iter().partition(|token| may_be_sent(&token.source, url));
    TokenChoice { sent: allowed.into_iter().next(), withheld: withheld.into_iter().map(|token| token.source).collect() }
}

/// The user controls flags, the environment and the user's file, and the default is local: any token may be sent to a URL
/// from there. A URL from a project file gets only the token of that same file.
fn may_be_sent(token: &Source, url: &Source) -> bool {
    match url {
        Source::BuiltIn | Source::Flag(_) | Source::Environment(_) | Source::UserFile(_) => true,
        Source::ProjectFile(_) => token == url,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(letter: char) -> Source {
        match letter {
            'd' => Source::BuiltIn,
            'f' => Source::Flag("--x"),
            'e' => Source::Environment("X"),
            'u' => Source::UserFile("/u".into()),
            'p' => Source::ProjectFile("/p/taskqueue.toml".into()),
            _ => Source::ProjectFile("/other/taskqueue.toml".into()),
        }
    }

    /// Every source of the URL with every set of sources that have a token. Expected: the letter of the token that is
    /// sent, a bar, the letters of those that are withheld.
    #[test]
    fn a_token_goes_to_its_users_urls_or_to_that_of_its_own_project_file() {
        let sets = ["", "u", "p", "pu", "e", "eu", "ep", "epu", "f", "fu", "fp", "fpu", "fe", "feu", "fep", "fepu"];
        let first = ["|", "u|", "p|", "p|", "e|", "e|", "e|", "e|", "f|", "f|", "f|", "f|", "f|", "f|", "f|", "f|"];
        let own = [
            "|", "|u", "p|", "p|u", "|e", "|eu", "p|e", "p|eu", "|f", "|fu", "p|f", "p|fu", "|fe", "|feu", "p|fe",
            "p|feu",
        ];
        let none = [
            "|", "|u", "|p", "|pu", "|e", "|eu", "|ep", "|epu", "|f", "|fu", "|fp", "|fpu", "|fe", "|feu", "|fep",
            "|fepu",
        ];
        let table = [('d', first), ('f', first), ('e', first), ('u', first), ('p', own), ('o', none)];
        for (url, expected) in table {
            for (set, expected) in sets.iter().zip(expected) {
                let tokens = set.chars().map(|letter| Sourced { value: letter, source: source(letter) }).collect();
                let choice = choose_token(&source(url), tokens);
                let letter = |wanted: &Source| set.chars().find(|letter| source(*letter) == *wanted).unwrap();
                let sent: String = choice.sent.iter().map(|sent| sent.value).collect();
                let withheld: String = choice.withheld.iter().map(letter).collect();
                assert_eq!(format!("{sent}|{withheld}"), expected, "URL {url}, tokens {set}");
            }
        }
    }
}
