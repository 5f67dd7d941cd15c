//! The file of `serve --tokens`: tokens with a name, their digests, and what they open. Here is which file may not be whole yet; which one
//! is refused is in `server_file.rs`, its content in `parse.rs`, what a running server does when it changes in `reload.rs`.

mod append;
mod parse;
mod reload;

use std::fmt;
use std::path::Path;
use std::time::{Duration, SystemTime};

use taskqueue_core::access::Grant;
use taskqueue_core::time::Timestamp;
use taskqueue_server::auth::{NamedToken, TokenDigest, TokenSet};

pub(crate) use self::append::append;
pub(crate) use self::reload::watch;
use crate::server_file;

/// Before its path, in messages.
const NAME: &str = "the tokens file";

/// A content is taken when the file has had it for so long. Before that somebody may be writing it line by line, and a token whose line
/// `queues` is not written yet would open all of them.
const SETTLED: Duration = Duration::from_secs(1);

/// How often a start looks at a file that is being changed.
const LOOKS_AT_START: usize = 10;

/// One entry of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FileToken {
    pub(crate) name: String,
    pub(crate) digest: TokenDigest,
    pub(crate) grant: Grant,
    pub(crate) expires_at: Option<Timestamp>,
}

impl FileToken {
    pub(crate) fn digest_text(&self) -> String {
        self.digest.iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

/// Its lines in the file. Nothing in them needs to be escaped.
impl fmt::Display for FileToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |words: Vec<String>| words.iter().map(|word| format!("\"{word}\"")).collect::<Vec<_>>().join(", ");
        let scopes = list(self.grant.scopes.named().map(|scope| scope.to_string()).collect());
        let queues = list(self.grant.queues.iter().map(ToString::to_string).collect());
        let (name, digest) = (&self.name, self.digest_text());
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
    tokens_of(path, &server_file::read(NAME, path)?.0)
}

/// The tokens of the file and the text that they were read from, when nobody is changing it.
///
/// # Errors
///
/// What is wrong with the file, for people, with its name.
pub(crate) async fn load_settled(path: &Path) -> Result<(Vec<FileToken>, String), String> {
    let mut before = None;
    for _ in 0..LOOKS_AT_START {
        let (text, modified) = server_file::read(NAME, path)?;
        if is_settled(before.as_deref(), &text, modified, SystemTime::now()) {
            return Ok((tokens_of(path, &text)?, text));
        }
        before = Some(text);
        tokio::time::sleep(SETTLED).await;
    }
    let name = path.display();
    Err(format!("the tokens file {name} is being changed all the time; write another file and rename it"))
}

/// Whether a text may be taken: the file was not changed lately, or had the same text when it was looked at before. A time in the
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
    parse::parse(text).map_err(|mistake| format!("the tokens file {name}, {mistake}"))
}

pub(crate) fn token_set(tokens: Vec<FileToken>) -> TokenSet {
    let named = tokens
        .into_iter()
        .map(|FileToken { name, digest, grant, expires_at }| (digest, NamedToken::new(&name, grant, expires_at)));
    named.collect()
}

#[cfg(test)]
mod tests {
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
}
