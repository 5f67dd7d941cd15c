//! Where a configuration value comes from: the rule which token may be sent to which URL (docs/decisions/0023), whom a client trusts behind
//! `https://` (a pinned key or certificate authorities of its own, whose file is read when the client is made), and the configuration files:
//! their fields, how they are found, when they are refused or ignored, and the tokens that they hold or name, which no message shows. A
//! project file that another account may have written is ignored, because it would choose the server that gets this user's tasks.

use std::fs::{self, File, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};
use std::{fmt, io};

use rustix::fs::{Mode, OFlags, openat};
use rustix::process::geteuid;
use serde::Deserialize;
use taskqueue_client::Pin;

use crate::failure::Failure;
use crate::files::{check_private, describe_toml_error, open_at_once, read_bytes, read_text};
use crate::token;

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
const AUTHORITIES_BYTES: u64 = 1_048_576;

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
    open_at_once(path).and_then(|(file, _)| read_bytes(file, AUTHORITIES_BYTES)).map_err(Failure::cannot_read(name))
}

pub(super) const PROJECT_FILE: &str = "taskqueue.toml";
/// Relative to the user's configuration folder.
pub(super) const USER_FILE: &str = "taskqueue/config.toml";
/// Seven settings take a few hundred bytes; a larger file is something else.
const CONFIG_FILE_BYTES: u64 = 65_536;

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Content {
    pub(super) url: Option<String>,
    pub(super) queue: Option<String>,
    token: Option<String>,
    token_file: Option<PathBuf>,
    pub(super) allow_insecure_token: Option<bool>,
    pub(super) tls_pin: Option<String>,
    pub(super) tls_ca: Option<PathBuf>,
}

#[derive(Debug)]
pub(super) struct ConfigFile {
    pub(super) path: PathBuf,
    pub(super) content: Content,
}

impl ConfigFile {
    /// The nearest project file: in `directory` or a parent of it. Untrusted files are skipped with a warning.
    pub(super) fn find_upwards(directory: &Path, warnings: &mut Vec<String>) -> Result<Option<Self>, Failure> {
        for folder in directory.ancestors() {
            let path = folder.join(PROJECT_FILE);
            // Checked before it is opened, so that an ignored file can neither block nor cause an error, and again when it is open.
            let Some(metadata) = found(&path, fs::symlink_metadata(&path))? else { continue };
            let mut distrust = distrust_reason(&metadata);
            if distrust.is_none() {
                let Some((file, metadata)) = found(&path, open_at_once(&path))? else { continue };
                distrust = distrust_reason(&metadata);
                if distrust.is_none() {
                    return Self::parse(&path, file, &metadata).map(Some);
                }
            }
            warnings.extend(distrust.map(|reason| format!("{} is ignored: {reason}", path.display())));
        }
        Ok(None)
    }

    pub(super) fn read(path: &Path) -> Result<Option<Self>, Failure> {
        let Some((file, metadata)) = found(path, open_at_once(path))? else { return Ok(None) };
        Self::parse(path, file, &metadata).map(Some)
    }

    fn parse(path: &Path, file: File, metadata: &Metadata) -> Result<Self, Failure> {
        let text = read_text(file, CONFIG_FILE_BYTES).map_err(Failure::cannot_read(path.display()))?;
        let content = parse(&text)
            .map_err(|message| Failure::Usage(format!("{} is not a valid configuration: {message}", path.display())))?;
        if content.token.is_some() {
            check_private(path.display(), path, metadata)?;
        }
        Ok(Self { path: path.to_owned(), content })
    }

    /// Returns where the token is: in this file, or in one that it names relative to its folder. That of a project file must be inside.
    pub(super) fn token(&self, is_project: bool) -> Option<TokenLocation> {
        if let Some(text) = self.content.token.clone() {
            return Some(TokenLocation::Text(Secret::new(text)));
        }
        let (folder, path) = (self.folder().to_owned(), self.content.token_file.clone()?);
        Some(match is_project {
            true => TokenLocation::FileInside { folder, path, named_by: self.path.clone() },
            false => TokenLocation::File(folder.join(path)),
        })
    }

    pub(super) fn folder(&self) -> &Path {
        self.path.parent().unwrap_or(Path::new("."))
    }
}

/// None if there is no such file.
fn found<T>(path: &Path, result: io::Result<T>) -> Result<Option<T>, Failure> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => Ok(None),
        Err(error) => Err(Failure::cannot_read(path.display())(error)),
    }
}

fn parse(text: &str) -> Result<Content, String> {
    let content: Content = toml::from_str(text).map_err(|error| describe_toml_error(text, &error))?;
    match (&content.token, &content.token_file) {
        (Some(_), Some(_)) => Err("give token or token_file, not both".to_owned()),
        _ => Ok(content),
    }
}

/// The user's file: below `XDG_CONFIG_HOME`, or else below `.config` of the home folder.
pub(super) fn user_file(config_home: Option<PathBuf>, home: Option<PathBuf>) -> Option<PathBuf> {
    user_folder(config_home, home, ".config").map(|folder| folder.join(USER_FILE))
}

/// A base directory of the user, as the XDG specification says: that of its variable, or else one in the home folder.
pub(crate) fn user_folder(variable: Option<PathBuf>, home: Option<PathBuf>, in_home: &str) -> Option<PathBuf> {
    // Relative paths are ignored.
    variable.filter(|path| path.is_absolute()).or_else(|| home.map(|home| home.join(in_home)))
}

const ROOT: u32 = 0;
const WRITE_FOR_ALL: u32 = 0o002;

/// Returns why a file is not trusted; none if it is.
pub(super) fn distrust_reason(metadata: &Metadata) -> Option<&'static str> {
    let links_have_no_mode = metadata.is_symlink();
    reason(metadata.uid(), if links_have_no_mode { 0 } else { metadata.mode() }, geteuid().as_raw())
}

fn reason(owner: u32, mode: u32, me: u32) -> Option<&'static str> {
    if owner != me && owner != ROOT {
        Some("it belongs to another account; if you trust it, copy it")
    } else if mode & WRITE_FOR_ALL != 0 {
        // Group write is allowed: many systems give each account its own group, and shared projects need it.
        Some("everybody may write to it; if it is yours, run: chmod o-w on it")
    } else {
        None
    }
}

/// The regular file at `path`, which is inside `folder` or relative to it.
fn open_inside(folder: &Path, path: &Path) -> io::Result<File> {
    let outside = || io::Error::other("it must stay inside the folder of the file that names it, without `..`");
    if path.components().any(|component| component == Component::ParentDir) {
        return Err(outside());
    }
    let folder = fs::canonicalize(folder)?;
    let resolved = fs::canonicalize(folder.join(path))?;
    let relative = resolved.strip_prefix(&folder).map_err(|_| outside())?;
    // Opening a pipe without a writer must not block.
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let mut file = File::open(&folder)?;
    // Links are resolved already; NOFOLLOW refuses a component that became a link since.
    for name in relative {
        file = openat(&file, Path::new(name), flags, Mode::empty())?.into();
    }
    if file.metadata()?.is_file() { Ok(file) } else { Err(io::Error::other("it must be a regular file")) }
}

#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Secret(String);

impl Secret {
    pub(super) fn new(text: String) -> Self {
        Self(text)
    }

    pub(crate) fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(hidden)")
    }
}

/// The place of a token. It is read only if it is sent.
#[derive(Clone, Debug)]
pub(super) enum TokenLocation {
    /// The token itself.
    Text(Secret),
    /// A file that the user has named.
    File(PathBuf),
    /// A file that a project file names. It must be inside the folder of the project file.
    FileInside { folder: PathBuf, path: PathBuf, named_by: PathBuf },
}

impl TokenLocation {
    pub(super) fn read(self) -> Result<Secret, Failure> {
        match self {
            Self::Text(secret) => Ok(secret),
            Self::File(path) => token::read_file(&path).map(Secret),
            Self::FileInside { folder, path, named_by } => {
                let named = format!("the token_file {} of {}", path.display(), named_by.display());
                let file = open_inside(&folder, &path).map_err(Failure::because(format!("{named} cannot be used")))?;
                token::read_open_file(file, &folder.join(path), &named).map(Secret)
            }
        }
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

    /// The letter of the source that is chosen, a bar, the letters of those that are ignored.
    fn chosen(url: char, found: &str, counts: fn(&Source, &Source) -> bool) -> String {
        let all = found.chars().map(|letter| Sourced { value: letter, source: source(letter) }).collect();
        let (chosen, ignored) = choose(&source(url), all, counts);
        let letter = |wanted: &Source| found.chars().find(|letter| source(*letter) == *wanted).unwrap();
        let (chosen, ignored) = (chosen.iter().map(|one| one.value), ignored.iter().map(letter));
        chosen.chain(['|']).chain(ignored).collect()
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
                assert_eq!(chosen(url, set, may_be_sent), expected, "URL {url}, tokens {set}");
            }
        }
    }

    #[test]
    fn a_file_decides_about_the_server_that_it_names_and_the_user_about_every_server() {
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
            assert_eq!(chosen(url, found, may_count), expected, "URL {url}, trust {found}");
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

    #[test]
    fn a_file_is_ours_when_only_this_account_or_root_can_have_written_it() {
        let ours = [(1000, 0o644, 1000), (1000, 0o664, 1000), (0, 0o644, 1000), (0, 0o644, 0)];
        for (owner, mode, me) in ours {
            assert!(reason(owner, mode, me).is_none(), "{owner} {mode:o} {me}");
        }
        let planted = [(1001, 0o600, 1000), (1000, 0o644, 0), (1000, 0o666, 1000), (0, 0o602, 1000), (0, 0o777, 0)];
        for (owner, mode, me) in planted {
            assert!(reason(owner, mode, me).is_some(), "{owner} {mode:o} {me}");
        }
    }
}
