//! What a running server does with its tokens file: it looks at it every second, takes a new content if that is valid, and keeps the
//! tokens that it has in every other case. Each change, and each problem, is logged once.

use std::path::{Path, PathBuf};
use std::time::Duration;

use taskqueue_server::auth::{SharedTokens, TokenDigest, digest};
use tokio::task::spawn_blocking;
use tokio::time::{MissedTickBehavior, interval};
use tracing::{info, warn};

use super::{FileToken, load, token_set};

/// A token that was taken out of the file still works for so long, and a new one does not yet.
const INTERVAL: Duration = Duration::from_secs(1);

/// Follows the file for ever. `text` is what the tokens were read from.
pub(crate) async fn watch(path: PathBuf, text: String, tokens: SharedTokens) {
    let mut latest = Latest::new(&text);
    drop(text);
    let mut ticks = interval(INTERVAL);
    // A disk that hung for a minute needs no sixty looks afterwards.
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let looked_at = path.clone();
        let looking = spawn_blocking(move || {
            let change = latest.look(load(&looked_at));
            (latest, change)
        });
        // An error means that the runtime is shutting down.
        let Ok((seen, change)) = looking.await else { return };
        latest = seen;
        match change {
            Some(Change::Tokens(read)) => {
                let count = read.len();
                tokens.replace(token_set(read));
                log_change(&path, &format!("the tokens file has changed; {count} tokens are accepted"));
            }
            Some(Change::Back) => log_change(&path, "the tokens file can be read again, and is as before"),
            Some(Change::Problem(problem)) => {
                warn!(problem, "the tokens file cannot be used; the tokens that were read last stay valid");
            }
            None => {}
        }
    }
}

fn log_change(path: &Path, sentence: &str) {
    info!(path = %path.display(), "{sentence}");
}

/// What there is to do after a look.
#[derive(Debug, PartialEq, Eq)]
enum Change {
    Tokens(Vec<FileToken>),
    /// The file is as it was when it was read last, after a problem.
    Back,
    Problem(String),
}

/// What was seen last. The whole text is read each time and compared by its digest: the times of a file are too coarse to tell two
/// changes within a few milliseconds apart, and a file system may not even have them.
struct Latest {
    /// Of the text that the tokens were taken from.
    taken: TokenDigest,
    problem: Option<String>,
}

impl Latest {
    fn new(text: &str) -> Self {
        Self { taken: digest(text.as_bytes()), problem: None }
    }

    fn look(&mut self, loaded: Result<(Vec<FileToken>, String), String>) -> Option<Change> {
        match loaded {
            Ok((tokens, text)) => {
                let (had_problem, digest) = (self.problem.take().is_some(), digest(text.as_bytes()));
                if self.taken == digest {
                    return had_problem.then_some(Change::Back);
                }
                self.taken = digest;
                Some(Change::Tokens(tokens))
            }
            Err(problem) if self.problem.as_ref() == Some(&problem) => None,
            Err(problem) => {
                self.problem = Some(problem.clone());
                Some(Change::Problem(problem))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_valid_change_is_taken_and_every_problem_is_told_once() {
        let good = |text: &str| Ok((Vec::new(), text.to_owned()));
        let bad = |problem: &str| Err(problem.to_owned());
        let mut latest = Latest::new("a");
        let taken = || Some(Change::Tokens(Vec::new()));
        let problem = |text: &str| Some(Change::Problem(text.to_owned()));
        let steps = [
            (good("a"), None),
            (good("b"), taken()),
            (good("b"), None),
            (bad("line 1"), problem("line 1")),
            (bad("line 1"), None),
            (bad("line 2"), problem("line 2")),
            (bad("gone"), problem("gone")),
            (good("b"), Some(Change::Back)),
            (good("b"), None),
            (bad("gone"), problem("gone")),
            (good("c"), taken()),
        ];
        for (step, (loaded, change)) in steps.into_iter().enumerate() {
            assert_eq!(latest.look(loaded), change, "step {step}");
        }
    }
}
