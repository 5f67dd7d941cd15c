//! What a running server does with its tokens file: it looks at it every second, takes a new content that it sees a second time if that
//! is valid, and keeps the tokens that it has in every other case. Each change, and each problem, is logged once. At SIGHUP it takes
//! what is there at once, and logs what it finds in any case.

use std::path::{Path, PathBuf};

use taskqueue_server::auth::{SharedTokens, TokenDigest, digest};
use tracing::{info, warn};

use super::{FileToken, NAME, SETTLED, token_set, tokens_of};
use crate::files::read_server_file;
use crate::server_process::{Reloads, follow};

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

#[cfg(test)]
mod tests {
    use super::*;

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
}
