//! Where a value of a task stands: a column as everywhere (`args.lr`, `result.loss`, `status`), or one of the two times that only exist
//! here. And what the name of a path tells.

use crate::columns::Column;

/// Numbers of seconds: how long the last run took, and how long the task waited for it.
const TIMES: [&str; 2] = ["duration", "wait"];
/// The beginnings of paths, in the order in which they are offered. Everything else comes behind.
pub(super) const ROOTS: [&str; 5] = ["args.", "result.", "progress.", "metadata.", "last_run.worker."];

/// A path that was asked for.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Path {
    pub(super) text: String,
    /// None for a time.
    pub(super) column: Option<Column>,
}

impl Path {
    pub(super) fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        if is_time(text) {
            return Some(Self { text: text.to_owned(), column: None });
        }
        Column::parse(text).map(|column| Self { text: column.path().to_owned(), column: Some(column) })
    }
}

/// Whether this is one of the times that only exist here: no filter knows them, and they are shown as durations.
pub(super) fn is_time(path: &str) -> bool {
    TIMES.contains(&path)
}

/// The last key, in lower case and in words: `args.valLoss` is `val` and `loss`.
pub(super) fn words(path: &str) -> Vec<String> {
    let last = path.rsplit('.').next().unwrap_or_default();
    let mut words = vec![String::new()];
    let mut was_lower = false;
    for character in last.chars() {
        let begins = !character.is_alphanumeric() || (was_lower && character.is_uppercase());
        if begins && words.last().is_some_and(|word| !word.is_empty()) {
            words.push(String::new());
        }
        if let Some(word) = words.last_mut().filter(|_| character.is_alphanumeric()) {
            word.extend(character.to_lowercase());
        }
        was_lower = character.is_lowercase();
    }
    words.retain(|word| !word.is_empty());
    words
}

/// Whether this is the seed of a random generator: runs that differ in nothing else are repetitions.
pub(super) fn is_seed(path: &str) -> bool {
    path.starts_with("args.") && words(path).iter().any(|word| word == "seed" || word == "seeds")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_key_is_split_into_words() {
        assert_eq!(words("result.best.valLoss"), ["val", "loss"]);
        assert_eq!(words("result.top_1-acc"), ["top", "1", "acc"]);
        assert!(is_seed("args.model.random_seed") && !is_seed("result.seed") && !is_seed("args.seeded"));
    }
}
