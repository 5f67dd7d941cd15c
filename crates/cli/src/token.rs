//! Reads the token from a file or the environment, never from the command line. No message shows it.

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use taskqueue_server::auth::Token;
use tracing::{info, warn};

use crate::failure::Failure;
use crate::files::{check_private, is_credential, open_at_once, read_text};
use crate::server_process::{Reloads, follow};

/// The environment variable that holds the token.
pub(crate) const VARIABLE: &str = "TASKQUEUE_TOKEN";
/// More than any server accepts in the head of a request.
const FILE_BYTES: u64 = 65_536;

/// The server's token from `file` or from `variable`, which is the value of [`VARIABLE`].
pub(crate) fn load(file: Option<&Path>, variable: Option<OsString>) -> Result<Option<Token>, Failure> {
    Ok(load_text(file, variable)?.map(|(token, _)| token))
}

/// The server's token with its text, for those who keep a copy of it.
pub(crate) fn load_text(file: Option<&Path>, variable: Option<OsString>) -> Result<Option<(Token, String)>, Failure> {
    let (text, source) = match (file, variable) {
        (None, None) => return Ok(None),
        (Some(_), Some(_)) => {
            return Err(Failure::Usage(format!("both --token-file and {VARIABLE} give a token; use one of them")));
        }
        (Some(path), None) => (Some(read_file(path)?), path.display().to_string()),
        (None, Some(value)) => (value.into_string().ok(), VARIABLE.to_owned()),
    };
    let token = parse(text.as_deref(), &source)?;
    Ok(text.map(|text| (token, text)))
}

/// Reads the file of a running server again at each SIGHUP, for ever. A file that cannot be used changes nothing.
pub(crate) async fn watch(path: PathBuf, token: Token, reloads: Reloads) {
    let looked_at = path.clone();
    let tell = |read: Result<Token, Failure>| match read {
        Ok(read) => {
            let found =
                if token.replace(&read) { "holds another token, the only one from now on" } else { "is as before" };
            info!(path = %path.display(), "the token file was read again, and {found}");
        }
        Err(failure) => {
            let reason = failure.message().unwrap_or_default();
            warn!(reason, "the token file cannot be used; the token that was read last stays valid");
        }
    };
    follow((), None, reloads, move |(), _| again_from_file(&looked_at), tell).await;
}

/// Reads the file again. What was a pipe at the start has no writer by now, and opening it must not block.
fn again_from_file(path: &Path) -> Result<Token, Failure> {
    let text = read_opened(open_at_once(path).map(|(file, _)| file), path)?;
    parse(Some(&text), &path.display().to_string())
}

pub(crate) fn read_file(path: &Path) -> Result<String, Failure> {
    read_opened(File::open(path), path)
}

fn read_opened(opened: io::Result<File>, path: &Path) -> Result<String, Failure> {
    let name = format!("the token file {}", path.display());
    read_open_file(opened.map_err(Failure::cannot_read(&name))?, path, &name)
}

/// Refuses a file that others have access to. Removes the line end that editors and `echo` add.
pub(crate) fn read_open_file(file: File, path: &Path, name: &str) -> Result<String, Failure> {
    let metadata = file.metadata().map_err(Failure::cannot_read(name))?;
    if !is_credential(path, &metadata) {
        check_private(name, path, &metadata)?;
    }
    let mut text = read_text(file, FILE_BYTES).map_err(Failure::cannot_read(name))?;
    text.truncate(without_line_end(text.as_bytes()).len());
    Ok(text)
}

pub(crate) fn without_line_end(text: &[u8]) -> &[u8] {
    text.strip_suffix(b"\n").map_or(text, |line| line.strip_suffix(b"\r").unwrap_or(line))
}

fn parse(text: Option<&str>, source: &str) -> Result<Token, Failure> {
    text.and_then(Token::parse).ok_or_else(|| {
        let empty = text.is_some_and(str::is_empty);
        let problem = if empty { "is empty" } else { "has characters other than visible ASCII" };
        Failure::Refused(format!("the token in {source} {problem}; make one with: openssl rand -hex 32"))
    })
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::ffi::OsStringExt;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn write(path: &Path, content: &[u8]) {
        fs::write(path, content).unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(0o600)).unwrap();
    }

    fn outcome(loaded: Result<Option<Token>, Failure>) -> &'static str {
        match loaded {
            Ok(None) => "none",
            Ok(Some(_)) => "token",
            Err(Failure::Usage(_)) => "usage",
            Err(_) => "refused",
        }
    }

    #[test]
    fn a_token_file_holds_one_line_of_visible_ascii() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("token");
        let cases: [(&[&[u8]], &str); 3] = [
            (&[b"secret", b"secret\n", b"secret\r\n", b"!~"], "token"),
            (&[b"", b"\n", b"two words\n", b"secret\n\n", b"tab\there", "schlüssel".as_bytes()], "refused"),
            (&[b"\xff\xfe"], "refused"),
        ];
        for (contents, expected) in cases {
            for content in contents {
                write(&path, content);
                assert_eq!(outcome(load(Some(&path), None)), expected, "{content:?}");
            }
        }
        assert_eq!(outcome(load(Some(&directory.path().join("missing")), None)), "refused");
    }

    #[test]
    fn the_environment_is_the_other_source_and_both_together_are_a_mistake() {
        let cases = [
            (None, "none"),
            (Some(OsString::from("secret")), "token"),
            (Some(OsString::new()), "refused"),
            (Some(OsString::from("secret\n")), "refused"),
            (Some(OsString::from_vec(vec![0xff])), "refused"),
        ];
        for (variable, expected) in cases {
            assert_eq!(outcome(load(None, variable.clone())), expected, "{variable:?}");
        }
        assert_eq!(outcome(load(Some(Path::new("missing")), Some("secret".into()))), "usage");
    }

    #[test]
    fn no_message_shows_the_token() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("token");
        write(&path, b"hush hush");
        for loaded in [load(Some(&path), None), load(None, Some("hush hush".into()))] {
            let failure = loaded.map(|_| ()).unwrap_err();
            assert!(failure.message().is_some_and(|message| !message.contains("hush")), "{failure:?}");
        }
    }
}
