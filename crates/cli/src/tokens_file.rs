//! The file of `serve --tokens`: tokens with a name, their digests, and what they open. Here is which file may not be whole yet, and how a
//! token is added: the new content replaces the old one at once, so that a server never sees half of it and a crash leaves the old file.
//! Which file is refused is in `files.rs`, its content in `parse.rs`, what a running server does when it changes in `reload.rs`.

mod parse;
mod reload;

use std::fmt;
use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt, fchown};
use std::path::Path;
use std::time::{Duration, SystemTime};

use taskqueue_core::access::Grant;
use taskqueue_core::time::Timestamp;
use taskqueue_server::auth::{NamedToken, TokenDigest, TokenSet};

pub(crate) use self::reload::watch;
use crate::files::{check_server_file, hex, read_server_file, replace_file};

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
    parse::parse(text).map_err(|mistake| format!("the tokens file {name}, {mistake}"))
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
    parse::parse(&text).map_err(|mistake| format!("the tokens file {} with this token, {mistake}", path.display()))?;
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
}
