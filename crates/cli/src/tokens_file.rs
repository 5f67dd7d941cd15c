//! The file of `serve --tokens`: tokens with a name, their digests, and what they open. Here is which file may not be whole yet, and how a
//! token is added: the new content replaces the old one at once, so that a server never sees half of it and a crash leaves the old file.
//! Which file is refused is in `files.rs`. It is read strictly: a word that is misspelled must not open or close anything. Messages name the
//! line and never show a value of `sha256`, where somebody may have put the token itself.
//!
//! A running server looks at its file every second, takes a new content that it sees a second time if that is valid, and keeps the tokens that
//! it has in every other case. Each change, and each problem, is logged once. At SIGHUP it takes what is there at once, and logs what it finds
//! in any case.

use std::collections::HashMap;
use std::fmt::{self, Display};
use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use serde::Deserialize;
use taskqueue_core::access::{Grant, QueuePattern, Scope, Scopes, TOKEN_NAME_BYTES, TOKEN_QUEUES, is_token_name};
use taskqueue_core::time::Timestamp;
use taskqueue_server::auth::{NamedToken, SharedTokens, TokenDigest, TokenSet, digest};
use toml::{Spanned, Value};
use tracing::{info, warn};

use crate::files::{check_server_file, hex, read_server_file, replace_file, toml_line};
use crate::server_process::{Reloads, follow};

/// Before its path, in messages.
const NAME: &str = "the tokens file";

/// A content is taken when the file has had it for so long. Before that somebody may be writing it line by line, and a token whose line
/// `queues` is not written yet would open all of them.
const SETTLED: Duration = Duration::from_secs(1);

/// The number of times that a start looks at a file that is being changed.
const LOOKS_AT_START: usize = 10;

/// One entry of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FileToken {
    pub(crate) name: String,
    pub(crate) digest: TokenDigest,
    pub(crate) grant: Grant,
    pub(crate) expires_at: Option<Timestamp>,
}

/// Its lines in the file. Nothing in them needs to be escaped.
impl fmt::Display for FileToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |words: Vec<String>| words.iter().map(|word| format!("\"{word}\"")).collect::<Vec<_>>().join(", ");
        let scopes = list(self.grant.scopes.named().map(|scope| scope.to_string()).collect());
        let queues = list(self.grant.queues.iter().map(ToString::to_string).collect());
        let (name, digest) = (&self.name, hex(&self.digest));
        write!(f, "[[token]]\nname = \"{name}\"\nsha256 = \"{digest}\"\nscopes = [{scopes}]\nqueues = [{queues}]\n")?;
        self.expires_at.map_or(Ok(()), |end| writeln!(f, "expires_at = \"{end}\""))
    }
}

/// The tokens of the file as it is now.
///
/// # Errors
///
/// What is wrong with the file, for people, with its name.
pub(crate) fn load(path: &Path) -> Result<Vec<FileToken>, String> {
    tokens_of(path, &read_server_file(NAME, path)?.0)
}

/// The tokens of the file and the text that they were read from, when nobody is changing it.
///
/// # Errors
///
/// What is wrong with the file, for people, with its name.
pub(crate) async fn load_settled(path: &Path) -> Result<(Vec<FileToken>, String), String> {
    let mut before = None;
    for _ in 0..LOOKS_AT_START {
        let (text, modified) = read_server_file(NAME, path)?;
        if is_settled(before.as_deref(), &text, modified, SystemTime::now()) {
            return Ok((tokens_of(path, &text)?, text));
        }
        before = Some(text);
        tokio::time::sleep(SETTLED).await;
    }
    let name = path.display();
    Err(format!("the tokens file {name} is being changed all the time; write another file and rename it"))
}

/// Returns whether a text may be taken: the file was not changed lately, or had the same text when it was looked at before. A time in the
/// future says nothing.
fn is_settled(before: Option<&str>, text: &str, modified: SystemTime, now: SystemTime) -> bool {
    before == Some(text) || now.duration_since(modified).is_ok_and(|age| age >= SETTLED)
}

/// The tokens in the text of the file.
fn tokens_of(path: &Path, text: &str) -> Result<Vec<FileToken>, String> {
    let name = path.display();
    if !text.is_empty() && !text.ends_with('\n') {
        return Err(format!(
            "the last line of the tokens file {name} has no end, so the file may not be whole; end it with a newline"
        ));
    }
    parse(text).map_err(|mistake| format!("the tokens file {name}, {mistake}"))
}

pub(crate) fn token_set(tokens: Vec<FileToken>) -> TokenSet {
    let named = tokens
        .into_iter()
        .map(|FileToken { name, digest, grant, expires_at }| (digest, NamedToken::new(&name, grant, expires_at)));
    named.collect()
}

/// The mode of a new file: everybody may read digests, which open nothing. The server may be another user.
const MODE: u32 = 0o644;

/// Another command replaces the file that this one waits for; nobody does that so often.
const TRIES: usize = 100;

/// Adds the token, and creates the file if it is missing. Two commands at a time add one after the other.
///
/// # Errors
///
/// Why not, for people. The file is as before.
pub(crate) fn append(path: &Path, token: &FileToken) -> Result<(), String> {
    let cannot_write = |error: io::Error| format!("cannot write the tokens file {}: {error}", path.display());
    let file = own(path).map_err(cannot_write)?;
    let metadata = file.metadata().map_err(cannot_write)?;
    check_server_file(&metadata).map_err(|problem| format!("the tokens file {} {problem}", path.display()))?;
    let (old, _) = read_server_file(NAME, path)?;
    let gap = if old.is_empty() || old.ends_with("\n\n") {
        ""
    } else if old.ends_with('\n') {
        "\n"
    } else {
        "\n\n"
    };
    let text = format!("{old}{gap}{token}");
    // Also finds a name that is taken, and mistakes that were there before.
    parse(&text).map_err(|mistake| format!("the tokens file {} with this token, {mistake}", path.display()))?;
    // A link stays one: its target is replaced.
    let target = fs::canonicalize(path).map_err(cannot_write)?;
    replace(&target, text.as_bytes(), &metadata).map_err(cannot_write)
}

/// Opens the file, or creates it empty, and waits until no other command changes it.
fn own(path: &Path) -> io::Result<File> {
    for _ in 0..TRIES {
        let mut options = OpenOptions::new();
        options.read(true).append(true).mode(MODE);
        let file = match options.create_new(true).open(path) {
            // Whatever the umask of the command is: that is meant for the token, which it prints.
            Ok(made) => made.set_permissions(Permissions::from_mode(MODE)).map(|()| made)?,
            // Also a link to nothing.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                options.create_new(false).create(true).open(path)?
            }
            Err(error) => return Err(error),
        };
        file.lock()?;
        let (ours, current) = (file.metadata()?, fs::metadata(path)?);
        if (ours.dev(), ours.ino()) == (current.dev(), current.ino()) {
            return Ok(file);
        }
    }
    Err(io::Error::other("it is being replaced all the time"))
}

/// Puts a new file in the place of the old one, with its mode and owner.
fn replace(target: &Path, text: &[u8], old: &fs::Metadata) -> io::Result<()> {
    let name = target.file_name().unwrap_or_default().to_string_lossy();
    let new = target.with_file_name(format!(".{name}.{}.new", std::process::id()));
    replace_file(target, &new, |mut file| {
        file.write_all(text)?;
        let made = file.metadata()?;
        if (made.uid(), made.gid()) != (old.uid(), old.gid()) {
            fchown(&file, Some(old.uid()), Some(old.gid()))?;
        }
        file.set_permissions(Permissions::from_mode(old.mode() & 0o7777))?;
        file.sync_all()
    })
}

/// Follows the file for ever. `text` is what the tokens were read from.
pub(crate) async fn watch(path: PathBuf, text: String, tokens: SharedTokens, reloads: Reloads) {
    let latest = SeenText::new(&text);
    drop(text);
    let looked_at = path.clone();
    let look = move |latest: &mut SeenText, is_asked| {
        let (found, parse) =
            (read_server_file(NAME, &looked_at).map(|(text, _)| text), |text: &str| tokens_of(&looked_at, text));
        if is_asked { latest.look_now(found, parse) } else { latest.look(found, parse) }
    };
    let tell = |change| match change {
        Some(FileChange::Tokens(read)) => {
            let count = read.len();
            tokens.replace(token_set(read));
            log_change(&path, &format!("the tokens file has changed; {count} tokens are accepted"));
        }
        Some(FileChange::Back) => log_change(&path, "the tokens file was read again, and is as before"),
        Some(FileChange::Problem(problem)) => {
            warn!(problem, "the tokens file cannot be used; the tokens that were read last stay valid");
        }
        None => {}
    };
    follow(latest, Some(SETTLED), reloads, look, tell).await;
}

fn log_change(path: &Path, sentence: &str) {
    info!(path = %path.display(), "{sentence}");
}

/// The outcome of a look at the file.
#[derive(Debug, PartialEq, Eq)]
enum FileChange {
    Tokens(Vec<FileToken>),
    /// The file is as it was when it was read last, after a problem or because somebody asked.
    Back,
    Problem(String),
}

/// The state of the file when it was looked at last. The whole text is read each time and compared by its digest: the times of a file
/// are too coarse to tell two changes within a few milliseconds apart, and a file system may not even have them. Only a text that is
/// new is understood.
struct SeenText {
    /// The digest of the text that the tokens were taken from.
    taken: TokenDigest,
    /// The digest of the text that was looked at last, if it is another one. Somebody may still be writing it.
    new: Option<TokenDigest>,
    /// The digest of the text that was looked at last, if it has a mistake.
    mistaken: Option<TokenDigest>,
    problem: Option<String>,
}

impl SeenText {
    fn new(text: &str) -> Self {
        Self { taken: digest(text.as_bytes()), new: None, mistaken: None, problem: None }
    }

    fn look(
        &mut self,
        text: Result<String, String>,
        parse: impl FnOnce(&str) -> Result<Vec<FileToken>, String>,
    ) -> Option<FileChange> {
        let text = match text {
            Ok(text) => text,
            Err(problem) => {
                self.new = None;
                return self.tell(problem, None);
            }
        };
        let digest = digest(text.as_bytes());
        if self.taken == digest {
            (self.new, self.mistaken) = (None, None);
            return self.problem.take().map(|_| FileChange::Back);
        }
        if self.new.replace(digest) != Some(digest) {
            return None;
        }
        if self.mistaken == Some(digest) {
            return None;
        }
        match parse(&text) {
            Ok(tokens) => {
                *self = Self { taken: digest, new: None, mistaken: None, problem: None };
                Some(FileChange::Tokens(tokens))
            }
            Err(problem) => self.tell(problem, Some(digest)),
        }
    }

    /// A look that somebody asked for: nobody is still writing what is there, and what it finds is told whether it is news or not.
    fn look_now(
        &mut self,
        text: Result<String, String>,
        parse: impl FnOnce(&str) -> Result<Vec<FileToken>, String>,
    ) -> Option<FileChange> {
        self.new = text.as_ref().ok().map(|text| digest(text.as_bytes()));
        (self.mistaken, self.problem) = (None, None);
        Some(self.look(text, parse).unwrap_or(FileChange::Back))
    }

    fn tell(&mut self, problem: String, mistaken: Option<TokenDigest>) -> Option<FileChange> {
        self.mistaken = mistaken;
        let is_news = self.problem.as_ref() != Some(&problem);
        self.problem = Some(problem.clone());
        is_news.then_some(FileChange::Problem(problem))
    }
}

/// Most tokens of a file. Each of ten thousand workers can have its own.
const TOKENS: usize = 10_000;

/// The part of a wrong word that a message shows.
const SHOWN_CHARS: usize = 40;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Content {
    #[serde(default)]
    token: Vec<Entry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    name: Spanned<String>,
    sha256: Spanned<String>,
    scopes: Spanned<Vec<Spanned<String>>>,
    queues: Option<Spanned<Vec<Spanned<String>>>>,
    expires_at: Option<Spanned<Value>>,
}

/// All tokens of the file, in its order.
pub(super) fn parse(text: &str) -> Result<Vec<FileToken>, String> {
    let content: Content = toml::from_str(text).map_err(|error| {
        let start = error.span().map_or(0, |span| span.start);
        mistake(text, start, without_values(error.message()))
    })?;
    if content.token.len() > TOKENS {
        return Err(mistake(text, text.len(), format!("there are more than {TOKENS} tokens")));
    }
    let (mut names, mut digests) = (HashMap::new(), HashMap::new());
    let mut tokens = Vec::with_capacity(content.token.len());
    for entry in content.token {
        let (name_at, digest_at) = (entry.name.span().start, entry.sha256.span().start);
        let token = read_entry(text, &entry)?;
        // A token that is being exchanged has two entries, of which the old one ends first (docs/decisions/0054).
        if let Some(first) = names.insert((token.name.clone(), token.expires_at), name_at) {
            let message = format!(
                "the name {} is already in line {}; two tokens of one name need different ends (expires_at)",
                token.name,
                toml_line(text, first)
            );
            return Err(mistake(text, name_at, message));
        }
        if let Some(first) = digests.insert(token.digest, digest_at) {
            let message = format!("the same token is already in line {}", toml_line(text, first));
            return Err(mistake(text, digest_at, message));
        }
        tokens.push(token);
    }
    Ok(tokens)
}

fn read_entry(text: &str, entry: &Entry) -> Result<FileToken, String> {
    let Entry { name, sha256, scopes, queues, expires_at } = entry;
    let rule = || format!("a name has 1 to {TOKEN_NAME_BYTES} of A-Z a-z 0-9 - _ . : / + @");
    let name = read(text, name, |name| is_token_name(name).then(|| name.clone()).ok_or_else(rule))?;
    let digest = read(text, sha256, |digits| read_digest(digits))?;
    let scopes = read_scopes(text, scopes)?;
    let queues = match queues {
        Some(queues) => read_queues(text, queues)?,
        None => QueuePattern::parse("*").into_iter().collect(),
    };
    let rule = "expires_at is a time with its zone, such as 2027-01-31T00:00:00Z";
    let expires_at = expires_at.as_ref().map(|end| read(text, end, |end| read_time(end).ok_or(rule)));
    Ok(FileToken { name, digest, grant: Grant { scopes, queues }, expires_at: expires_at.transpose()? })
}

/// Reads a value of the file. A mistake in it is told with its line.
fn read<T, R, E: Display>(text: &str, value: &Spanned<T>, read: impl FnOnce(&T) -> Result<R, E>) -> Result<R, String> {
    read(value.get_ref()).map_err(|message| mistake(text, value.span().start, message))
}

fn read_digest(text: &str) -> Result<TokenDigest, &'static str> {
    const FORM: &str = "sha256 is the SHA-256 of the token in 64 hexadecimal digits; taskqueue token create prints it";
    let mut read = [0; 32];
    if text.len() != 64 || !text.bytes().all(|digit| digit.is_ascii_hexdigit()) {
        return Err(FORM);
    }
    for (index, byte) in read.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&text[2 * index..2 * index + 2], 16).map_err(|_| FORM)?;
    }
    if read == digest(b"") {
        return Err("this is the SHA-256 of nothing, so the token was empty when it was made");
    }
    Ok(read)
}

fn read_scopes(text: &str, scopes: &Spanned<Vec<Spanned<String>>>) -> Result<Scopes, String> {
    const KNOWN: &str = "read, submit, work and admin";
    let unknown = |scope: &str| format!("there is no scope {}; there are {KNOWN}", shown(scope));
    let scope = |scope: &String| Scope::parse(scope).ok_or_else(|| unknown(scope));
    let found: Scopes = scopes.get_ref().iter().map(|word| read(text, word, scope)).collect::<Result<_, _>>()?;
    if found.is_empty() {
        return Err(mistake(text, scopes.span().start, format!("name at least one scope of {KNOWN}")));
    }
    Ok(found)
}

fn read_queues(text: &str, queues: &Spanned<Vec<Spanned<String>>>) -> Result<Vec<QueuePattern>, String> {
    if queues.get_ref().is_empty() || queues.get_ref().len() > TOKEN_QUEUES {
        let message = format!("give 1 to {TOKEN_QUEUES} patterns, or leave queues out, which means all");
        return Err(mistake(text, queues.span().start, message));
    }
    let wrong =
        |pattern: &str| format!("{} fits no queue; use a queue name, with * for any characters", shown(pattern));
    let pattern = |pattern: &String| QueuePattern::parse(pattern).ok_or_else(|| wrong(pattern));
    queues.get_ref().iter().map(|word| read(text, word, pattern)).collect()
}

/// A text, or a time of TOML itself.
fn read_time(value: &Value) -> Option<Timestamp> {
    match value {
        Value::String(text) => Timestamp::parse(text),
        Value::Datetime(time) => Timestamp::parse(&time.to_string()),
        _ => None,
    }
}

/// Returns a mistake with its line.
fn mistake(text: &str, start: usize, message: impl Display) -> String {
    format!("line {}: {message}", toml_line(text, start))
}

/// A wrong word in quotes, on one line, not too long.
fn shown(word: &str) -> String {
    let short: String = word.chars().take(SHOWN_CHARS).collect();
    format!("{short:?}{}", if short.len() < word.len() { "..." } else { "" })
}

/// The message of the parser without the values that it quotes, on one line.
fn without_values(message: &str) -> String {
    let parts = message.split('"').enumerate().map(|(index, part)| if index % 2 == 0 { part } else { "..." });
    parts.collect::<Vec<_>>().join("\"").replace('\n', "; ")
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;
    use std::thread;

    use taskqueue_core::access::{QueuePattern, Scope};

    use super::*;

    #[test]
    fn a_file_whose_last_line_has_no_end_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tokens.toml");
        let whole = format!("[[token]]\nname = \"a\"\nsha256 = \"{}\"\nscopes = [\"read\"]\n", "a".repeat(64));
        for (text, tokens) in [("", Ok(0)), (&*whole, Ok(1)), (whole.trim_end(), Err("has no end"))] {
            let read = tokens_of(&path, text).map(|tokens| tokens.len());
            match (&read, tokens) {
                (Ok(read), Ok(tokens)) => assert_eq!(*read, tokens, "{text:?}"),
                (Err(problem), Err(part)) => assert!(problem.contains(part), "{text:?}: {problem}"),
                other => panic!("{text:?}: {other:?}"),
            }
        }
    }

    #[test]
    fn a_text_is_taken_when_the_file_has_had_it_for_a_second() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000);
        let cases = [
            (None, -5_000, true),
            (None, -1_000, true),
            (None, -999, false),
            (None, 0, false),
            // The clock was set back, or the file is another machine's.
            (None, 5_000, false),
            (Some("other"), -999, false),
            (Some("other"), -1_000, true),
            (Some("text"), 0, true),
            (Some("text"), 5_000, true),
        ];
        for (before, millis, expected) in cases {
            let modified = SystemTime::UNIX_EPOCH + Duration::from_millis((1_000_000_i64 + millis).unsigned_abs());
            assert_eq!(is_settled(before, "text", modified, now), expected, "{before:?} {millis}");
        }
    }

    fn token(number: u8) -> FileToken {
        let queues = QueuePattern::parse("*").into_iter().collect();
        let grant = Grant { scopes: [Scope::Read].into_iter().collect(), queues };
        FileToken { name: format!("n{number}"), digest: [number; 32], grant, expires_at: None }
    }

    fn names(path: &Path) -> Vec<String> {
        load(path).unwrap().into_iter().map(|token| token.name).collect()
    }

    #[test]
    fn a_token_is_added_behind_what_is_there_and_a_taken_name_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let (path, link) = (folder.path().join("tokens.toml"), folder.path().join("link"));
        append(&path, &token(1)).unwrap();
        fs::write(&path, format!("# ours\n{}", token(1).to_string().trim_end())).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o640)).unwrap();
        symlink("tokens.toml", &link).unwrap();
        append(&link, &token(2)).unwrap();
        assert_eq!(names(&path), ["n1", "n2"]);
        assert!(fs::read_to_string(&path).unwrap().starts_with("# ours\n[[token]]\nname = \"n1\""));
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o7777, 0o640);
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert!(append(&path, &token(2)).unwrap_err().contains("the name n2 is already in line"));
        assert_eq!(names(&path), ["n1", "n2"]);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2, "nothing is left behind");
    }

    #[test]
    fn a_file_with_mistakes_or_for_others_to_change_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tokens.toml");
        fs::write(&path, "[[tokens]]\n").unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
        assert!(append(&path, &token(1)).unwrap_err().contains("line 1: unknown field"));
        fs::write(&path, "").unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o622)).unwrap();
        assert!(append(&path, &token(1)).unwrap_err().contains("can be changed by others"));
        assert_eq!(fs::read_to_string(&path).unwrap(), "");
    }

    #[test]
    fn tokens_that_are_added_at_once_are_all_there() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tokens.toml");
        thread::scope(|scope| {
            for number in 1..=8 {
                let path = &path;
                scope.spawn(move || append(path, &token(number)).unwrap());
            }
        });
        let mut names = names(&path);
        names.sort();
        assert_eq!(names, ["n1", "n2", "n3", "n4", "n5", "n6", "n7", "n8"]);
    }

    #[test]
    fn only_a_valid_change_is_taken_and_every_problem_is_told_once() {
        let parse = |text: &str| match text.strip_prefix("bad ") {
            Some(mistake) => Err(mistake.to_owned()),
            None => Ok(Vec::new()),
        };
        let mut latest = SeenText::new("a");
        let taken = || Some(FileChange::Tokens(Vec::new()));
        let problem = |text: &str| Some(FileChange::Problem(text.to_owned()));
        let steps = [
            (Ok("a"), None),
            // Seen once, it may not be whole yet.
            (Ok("b"), None),
            (Ok("b and more"), None),
            (Ok("b and more"), taken()),
            (Ok("b"), None),
            (Ok("b"), taken()),
            (Ok("b"), None),
            (Ok("bad line 1"), None),
            (Ok("bad line 1"), problem("line 1")),
            (Ok("bad line 1"), None),
            (Ok("bad line 2"), None),
            (Ok("bad line 2"), problem("line 2")),
            (Err("gone"), problem("gone")),
            (Err("gone"), None),
            (Ok("bad line 2"), None),
            (Ok("bad line 2"), problem("line 2")),
            (Ok("b"), Some(FileChange::Back)),
            (Ok("b"), None),
            (Ok("bad line 2"), None),
            (Ok("b"), None),
            (Ok("c"), None),
            (Ok("c"), taken()),
            (Err("gone"), problem("gone")),
            (Ok("c"), Some(FileChange::Back)),
        ];
        for (step, (read, change)) in steps.into_iter().enumerate() {
            let read = read.map(str::to_owned).map_err(str::to_owned);
            assert_eq!(latest.look(read, parse), change, "step {step}");
        }
    }

    #[test]
    fn who_asks_is_told_what_there_is_and_it_counts_at_once() {
        let parse = |text: &str| if text == "bad" { Err("bad".to_owned()) } else { Ok(Vec::new()) };
        let mut latest = SeenText::new("a");
        let mut look =
            |read: Result<&str, &str>| latest.look_now(read.map(str::to_owned).map_err(str::to_owned), parse).unwrap();
        assert_eq!(look(Ok("a")), FileChange::Back);
        assert_eq!(look(Ok("b")), FileChange::Tokens(Vec::new()));
        for _ in 0..2 {
            assert_eq!(look(Ok("bad")), FileChange::Problem("bad".to_owned()));
            assert_eq!(look(Err("gone")), FileChange::Problem("gone".to_owned()));
        }
        assert_eq!(look(Ok("b")), FileChange::Back);
        assert_eq!(latest.look(Ok("b".to_owned()), parse), None);
    }

    #[test]
    fn a_text_that_was_seen_is_not_understood_again() {
        let mut latest = SeenText::new("a");
        let never = |text: &str| -> Result<Vec<FileToken>, String> { panic!("{text}") };
        assert_eq!(latest.look(Ok("a".to_owned()), never), None);
        assert_eq!(latest.look(Ok("b".to_owned()), never), None);
        assert!(latest.look(Ok("b".to_owned()), |_| Err("no".to_owned())).is_some());
        assert_eq!(latest.look(Ok("b".to_owned()), never), None);
    }

    const A: &str = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
    const B: &str = "BBbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb";
    const EMPTY: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

    fn entry(name: &str, sha256: &str, rest: &str) -> String {
        format!("[[token]]\nname = \"{name}\"\nsha256 = \"{sha256}\"\n{rest}\n")
    }

    #[test]
    fn a_token_has_a_name_a_digest_scopes_and_perhaps_queues_and_an_end() {
        let text = entry("gpu-1", A, "scopes = [\"work\", \"read\"]\nqueues = [\"exp-*\", \"x\"]")
            + "expires_at = \"2027-01-31T01:00:00+01:00\"\n"
            + &entry("boss", B, "scopes = [\"admin\"]\nexpires_at = 2027-01-31T00:00:00Z");
        let tokens = parse(&text).unwrap();
        let end = Timestamp::parse("2027-01-31T00:00:00Z");
        assert_eq!(tokens.iter().map(|token| token.name.as_str()).collect::<Vec<_>>(), ["gpu-1", "boss"]);
        assert_eq!(tokens.iter().map(|token| token.digest).collect::<Vec<_>>(), [[0xaa; 32], [0xbb; 32]]);
        assert_eq!(tokens.iter().map(|token| token.expires_at).collect::<Vec<_>>(), [end, end]);
        let queues = |index: usize| tokens[index].grant.queues.iter().map(QueuePattern::as_str).collect::<Vec<_>>();
        assert_eq!((queues(0), queues(1)), (vec!["exp-*", "x"], vec!["*"]));
        assert_eq!(tokens[0].grant.scopes, [Scope::Read, Scope::Work].into_iter().collect());
    }

    #[test]
    fn the_lines_that_are_printed_for_the_file_are_read_back() {
        let text = entry("a", A, "scopes = [\"work\"]\nqueues = [\"exp-*\", \"b\"]\nexpires_at = 2027-01-31T00:00:00Z")
            + &entry("b", B, "scopes = [\"read\", \"submit\"]");
        let tokens = parse(&text).unwrap();
        let written: String = tokens.iter().map(ToString::to_string).collect();
        assert_eq!(parse(&written).unwrap(), tokens, "{written}");
    }

    #[test]
    fn a_file_without_tokens_is_fine() {
        for text in ["", "# none yet\n", "token = []\n"] {
            assert_eq!(parse(text), Ok(Vec::new()), "{text:?}");
        }
    }

    #[test]
    fn every_mistake_is_named_with_its_line() {
        let good = "scopes = [\"read\"]";
        let many = format!("{good}\nqueues = [{}]", "\"a\",".repeat(65));
        let cases = [
            ("[[token]\n".to_owned(), 1, ""),
            ("\n\n[[tokens]]\n".to_owned(), 3, "unknown field"),
            (entry("a", A, &format!("{good}\nscope = 1")), 5, "unknown field `scope`"),
            (entry("a", A, ""), 1, "missing field `scopes`"),
            (format!("[[token]]\nname = \"a\"\n{good}\n"), 1, "missing field `sha256`"),
            (entry("a b", A, good), 2, "a name has 1 to 64"),
            (entry("", A, good), 2, "a name has 1 to 64"),
            (entry("a", "abc", good), 3, "64 hexadecimal digits"),
            (entry("a", &A.replace('a', "g"), good), 3, "64 hexadecimal digits"),
            (entry("a", &A.replacen("aa", "é", 1), good), 3, "64 hexadecimal digits"),
            (entry("a", EMPTY, good), 3, "SHA-256 of nothing"),
            (entry("a", A, "scopes = []"), 4, "at least one scope"),
            (entry("a", A, "scopes = [\n\"read\",\n\"write\"]"), 6, "no scope \"write\""),
            (entry("a", A, "scopes = \"read\""), 4, "invalid type"),
            (entry("a", A, &format!("{good}\nqueues = []")), 5, "leave queues out"),
            (entry("a", A, &many), 5, "1 to 64 patterns"),
            (entry("a", A, &format!("{good}\nqueues = [\"a\", \"b?\"]")), 5, "\"b?\" fits no queue"),
            (entry("a", A, &format!("{good}\nexpires_at = \"tomorrow\"")), 5, "a time with its zone"),
            (entry("a", A, &format!("{good}\nexpires_at = 2027-01-31")), 5, "a time with its zone"),
            (entry("a", A, &format!("{good}\nexpires_at = 2027-01-31T00:00:00")), 5, "a time with its zone"),
            (entry("a", A, &format!("{good}\nexpires_at = 7")), 5, "a time with its zone"),
            (entry("a", A, good) + &entry("a", B, good), 6, "the name a is already in line 2"),
            (entry("a", A, good) + &entry("b", &A.to_uppercase(), good), 7, "the same token is already in line 3"),
            ("token = 1".to_owned(), 1, "invalid type"),
        ];
        for (text, line, expected) in cases {
            let mistake = parse(&text).expect_err(&text);
            let message =
                mistake.strip_prefix(&format!("line {line}: ")).unwrap_or_else(|| panic!("{text}\n{mistake}"));
            assert!(message.contains(expected) && !message.contains('\n'), "{text}\n{mistake}");
        }
    }

    #[test]
    fn tokens_of_one_name_need_different_ends() {
        let end = |time: &str| format!("scopes = [\"read\"]\nexpires_at = {time}");
        let (never, first, later) =
            ("scopes = [\"read\"]".to_owned(), end("2027-01-31T00:00:00Z"), end("2027-02-07T00:00:00Z"));
        // The same moment, written in another zone.
        let same = end("\"2027-01-31T01:00:00+01:00\"");
        let cases = [
            (&never, &never, false),
            (&first, &never, true),
            (&never, &first, true),
            (&first, &later, true),
            (&first, &first, false),
            (&first, &same, false),
        ];
        for (one, other, accepted) in cases {
            let parsed = parse(&(entry("a", A, one) + &entry("a", B, other)));
            assert_eq!(parsed.is_ok(), accepted, "{one} {other}: {parsed:?}");
            match parsed {
                Ok(tokens) => assert!(tokens.len() == 2 && tokens[0].expires_at != tokens[1].expires_at),
                Err(mistake) => assert!(mistake.contains("need different ends"), "{mistake}"),
            }
        }
        let same_token = entry("a", A, &first) + &entry("a", A, &later);
        assert!(parse(&same_token).unwrap_err().contains("the same token is already"));
    }

    #[test]
    fn a_token_in_the_place_of_its_digest_is_not_shown() {
        for text in [
            entry("a", "tq_secret", "scopes = [\"read\"]"),
            "[[token]]\nname = \"a\"\nsha256 = [\"tq_secret\"]\nscopes = [\"read\"]\n".to_owned(),
            "[[token]]\nname = [\"tq_secret\"]\n".to_owned(),
            "token = \"tq_secret\"".to_owned(),
        ] {
            let mistake = parse(&text).unwrap_err();
            assert!(!mistake.contains("secret"), "{mistake}");
        }
    }

    #[test]
    fn so_many_tokens_and_no_more() {
        let tokens = |count: usize| -> String {
            (0..count).map(|n| format!("[[token]]\nname=\"{n}\"\nsha256=\"{n:064}\"\nscopes=[\"read\"]\n")).collect()
        };
        assert_eq!(parse(&tokens(TOKENS)).unwrap().len(), TOKENS);
        assert!(parse(&tokens(TOKENS + 1)).unwrap_err().contains("more than 10000"));
    }
}
