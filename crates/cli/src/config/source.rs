//! Where a configuration value comes from, the rule which token may be sent to which URL (docs/decisions/0023), and whom a client trusts
//! behind `https://`: a pinned key or certificate authorities of its own, whose file is read when the client is made.

use std::fmt;
use std::path::{Path, PathBuf};

use taskqueue_client::Pin;

use crate::failure::Failure;
use crate::files::{open_at_once, read_bytes};

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

/// Returns the first of these, sorted by precedence, that counts for a URL from the source `url`, and the sources of those that do not.
/// `counts` tells it by its source and that of the URL.
pub(super) fn choose<T>(
    url: &Source,
    found: Vec<Sourced<T>>,
    counts: fn(&Source, &Source) -> bool,
) -> (Option<Sourced<T>>, Vec<Source>) {
    let (chosen, ignored): (Vec<_>, Vec<_>) = found.into_iter().partition(|one| counts(&one.source, url));
    (chosen.into_iter().next(), ignored.into_iter().map(|one| one.source).collect())
}

/// Returns whether a token may be sent. The user controls flags, the environment and the user's file, and the default is local: any token may be sent to a URL
/// from there. A URL from a project file gets only the token of that same file.
pub(super) fn may_be_sent(token: &Source, url: &Source) -> bool {
    matches!(url, Source::BuiltIn | Source::Flag(_) | Source::Environment(_) | Source::UserFile(_)) || token == url
}

/// All authorities of an operating system take a quarter of it.
const FILE_BYTES: u64 = 1_048_576;

/// The trust that replaces that in the authorities of the operating system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Trust {
    /// Servers with one of these keys.
    Pins(Vec<Pin>),
    /// A file with certificate authorities.
    Authorities(PathBuf),
}

impl Trust {
    /// Reads what one source says: a pin, several with commas between them, or a file; relative to `folder`.
    pub(super) fn of(
        pins: Option<&str>,
        authorities: Option<&Path>,
        folder: &Path,
        source: &Source,
    ) -> Result<Option<Sourced<Self>>, Failure> {
        let trust = match (pins, authorities) {
            (None, None) => return Ok(None),
            (Some(_), Some(_)) => {
                let message = format!("{source} gives both a TLS pin and a file of TLS authorities; give one of them");
                return Err(Failure::Usage(message));
            }
            (Some(text), None) => {
                // Several pins are for the time in which a server gets another key.
                let pins: Result<_, &'static str> = text.split(',').map(|pin| pin.trim().parse()).collect();
                let wrong = |rule| Failure::Usage(format!("the TLS pin from {source} cannot be used: {rule}"));
                Self::Pins(pins.map_err(wrong)?)
            }
            (None, Some(path)) => Self::Authorities(folder.join(path)),
        };
        Ok(Some(Sourced::new(trust, source.clone())))
    }

    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Pins(_) => "tls_pin",
            Self::Authorities(_) => "tls_ca",
        }
    }

    pub(crate) fn text(&self) -> String {
        match self {
            Self::Pins(pins) => pins.iter().map(Pin::to_string).collect::<Vec<_>>().join(","),
            Self::Authorities(path) => path.display().to_string(),
        }
    }
}

/// Returns whether what a source trusts counts. A flag and the environment are about the server of this command. A file is about the server that it names itself: a
/// `taskqueue.toml` that somebody else wrote must not decide who may pretend to be a server for which the user has a token.
pub(super) fn may_count(trust: &Source, url: &Source) -> bool {
    matches!(trust, Source::BuiltIn | Source::Flag(_) | Source::Environment(_)) || trust == url
}

/// Reads a file of authorities.
pub(crate) fn read_authorities(path: &Path, source: &Source) -> Result<Vec<u8>, Failure> {
    let name = format!("the file of TLS authorities {} ({source})", path.display());
    open_at_once(path).and_then(|(file, _)| read_bytes(file, FILE_BYTES)).map_err(Failure::cannot_read(name))
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
                let (sent, withheld) = choose(&source(url), tokens, may_be_sent);
                let letter = |wanted: &Source| set.chars().find(|letter| source(*letter) == *wanted).unwrap();
                let sent: String = sent.iter().map(|sent| sent.value).collect();
                let withheld: String = withheld.iter().map(letter).collect();
                assert_eq!(format!("{sent}|{withheld}"), expected, "URL {url}, tokens {set}");
            }
        }
    }

    #[test]
    fn a_file_decides_about_the_server_that_it_names_and_the_user_about_every_server() {
        let source = |letter| match letter {
            'd' => Source::BuiltIn,
            'f' => Source::Flag("--x"),
            'e' => Source::Environment("X"),
            'u' => Source::UserFile("/u".into()),
            'p' => Source::ProjectFile("/p/taskqueue.toml".into()),
            _ => Source::ProjectFile("/other/taskqueue.toml".into()),
        };
        // The source of the URL, the sources that say whom to trust by precedence, the one that counts, those ignored.
        let cases = [
            ('d', "", "|"),
            ('d', "pu", "|pu"),
            ('f', "fepu", "f|pu"),
            ('f', "pu", "|pu"),
            ('f', "eu", "e|u"),
            ('e', "p", "|p"),
            ('e', "ep", "e|p"),
            ('u', "u", "u|"),
            ('u', "pu", "u|p"),
            ('p', "pu", "p|u"),
            ('p', "u", "|u"),
            ('p', "fp", "f|"),
            ('o', "pu", "|pu"),
        ];
        for (url, found, expected) in cases {
            let all = found.chars().map(|letter| Sourced { value: letter, source: source(letter) }).collect();
            let (counts, ignored) = choose(&source(url), all, may_count);
            let letter = |wanted: &Source| found.chars().find(|letter| source(*letter) == *wanted).unwrap();
            let counts: String = counts.iter().map(|trust| trust.value).collect();
            let ignored: String = ignored.iter().map(letter).collect();
            assert_eq!(format!("{counts}|{ignored}"), expected, "URL {url}, trust {found}");
        }
    }

    #[test]
    fn one_source_names_pins_or_a_file_and_not_both() {
        let (source, folder) = (Source::Environment("X"), Path::new("/etc"));
        let of = |pins, file: Option<&str>| Trust::of(pins, file.map(Path::new), folder, &source);
        let pin = format!("sha256:{}", "ab".repeat(32));
        assert_eq!(of(None, None), Ok(None));
        assert_eq!(of(Some(&pin), None).unwrap().unwrap().value.text(), pin);
        let two = format!("{pin}, sha256:{}", "cd".repeat(32));
        assert_eq!(of(Some(&two), None).unwrap().unwrap().value.text(), two.replace(' ', ""));
        assert_eq!(of(None, Some("ca.pem")).unwrap().unwrap().value.text(), "/etc/ca.pem");
        for wrong in [of(Some("sha256:00"), None), of(Some(""), None), of(Some(&pin), Some("ca.pem"))] {
            assert!(matches!(wrong, Err(Failure::Usage(_))), "{wrong:?}");
        }
    }
}
