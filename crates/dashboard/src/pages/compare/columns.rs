//! Which columns the table has, which of their values is the best, and what all tasks have in common.

use std::cmp::{Ordering, Reverse};

use super::collection::{Collection, Facts, PathIndex, Row};
use super::value::{Path, ROOTS, Value, is_seed, words};
use super::view::View;

/// Columns that appear without being asked for.
const USUAL_ARGS: usize = 12;
const USUAL_RESULTS: usize = 8;

/// Words in names of numbers that should be small, and of those that should be large.
const LOWER: &str = "loss error err time perplexity ppl latency mse mae rmse wer cer fid nll cost regret duration wait seconds \
    bpb bpc divergence";
const HIGHER: &str = "acc accuracy score f1 auc auroc bleu rouge throughput precision recall map iou miou dice r2 reward return \
    psnr ssim top1 top5 speedup";

/// Which values are good ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Better {
    Lower,
    Higher,
}

impl Better {
    /// By the name alone.
    fn by_name(path: &str) -> Option<Self> {
        // The last word says what it is: `loss_time` is a time.
        let is_in = |list: &str, word: &str| list.split(' ').any(|known| known == word);
        words(path).iter().rev().find_map(|word| match word.as_str() {
            word if is_in(LOWER, word) => Some(Self::Lower),
            word if is_in(HIGHER, word) => Some(Self::Higher),
            _ => None,
        })
    }

    pub(super) const fn words(self) -> &'static str {
        match self {
            Self::Lower => "lower is better",
            Self::Higher => "higher is better",
        }
    }

    /// Returns whether `a` is a better value than `b`.
    pub(super) fn prefers(self, a: &Value, b: &Value) -> bool {
        let wanted = if self == Self::Lower { Ordering::Less } else { Ordering::Greater };
        a.compare(b) == wanted
    }
}

/// A path, with what its values are.
#[derive(Clone, Debug)]
pub(super) struct Column {
    pub(super) path: PathIndex,
    pub(super) text: String,
    pub(super) is_numeric: bool,
    pub(super) differs: bool,
    pub(super) better: Option<Better>,
}

impl Column {
    fn new(path: PathIndex, text: &str, facts: &Facts<'_>, view: &View) -> Self {
        let is_in = |paths: &[Path]| paths.iter().any(|path| path.text == text);
        let better = match () {
            () if !facts.is_numeric() => None,
            () if is_in(&view.lower) => Some(Better::Lower),
            () if is_in(&view.higher) => Some(Better::Higher),
            () if text.starts_with("result.") || text.starts_with("progress.") => Better::by_name(text),
            () => None,
        };
        Self { path, is_numeric: facts.is_numeric(), differs: facts.differs, better, text: text.to_owned() }
    }

    pub(super) fn is_arg(&self) -> bool {
        self.text.starts_with("args.")
    }

    /// Returns whether it tells tasks apart.
    pub(super) fn is_distinctive(&self) -> bool {
        self.differs && (self.is_arg() || self.text.starts_with("metadata."))
    }

    pub(super) fn is_result(&self) -> bool {
        self.text.starts_with("result.")
    }
}

/// What a view makes of the tasks that were read.
pub(super) struct Columns<'c> {
    pub(super) collection: &'c Collection,
    /// All paths, by their index.
    all: Vec<Column>,
    pub(super) shown: Vec<Column>,
    /// The paths that have values: of args, of results, and so on, each in alphabetical order.
    pub(super) filled: Vec<Column>,
    /// What all tasks have in common, by path.
    pub(super) constants: Vec<(&'c str, &'c Value)>,
    /// The number that all of this is about: the first result for which it is known what is good, or the first one.
    pub(super) target: Option<Column>,
}

impl<'c> Columns<'c> {
    pub(super) fn new(collection: &'c Collection, view: &View) -> Self {
        let facts = collection.facts();
        let column = |((path, text), facts): ((PathIndex, &String), &Facts<'_>)| Column::new(path, text, facts, view);
        let all: Vec<Column> = (0..).zip(&collection.paths).zip(&facts).map(column).collect();
        let fact = |column: &Column| &facts[column.path as usize];
        let mut filled: Vec<Column> = all.iter().filter(|column| fact(column).present > 0).cloned().collect();
        let rank = |text: &str| ROOTS.iter().position(|root| text.starts_with(root)).unwrap_or(ROOTS.len());
        filled.sort_by(|a, b| rank(&a.text).cmp(&rank(&b.text)).then_with(|| a.text.cmp(&b.text)));
        let named = view.columns.iter().filter_map(|path| collection.path(&path.text));
        let named: Vec<Column> = named.map(|path| all[path as usize].clone()).collect();
        let shown = if named.is_empty() { usual(&filled, collection.rows.len()) } else { named };
        let is_shown = |path: PathIndex| shown.iter().any(|column| column.path == path);
        let is_constant =
            |column: &&Column| (column.is_arg() || column.is_result()) && !column.differs && !is_shown(column.path);
        let constant = |column: &Column| Some((collection.paths[column.path as usize].as_str(), fact(column).first?));
        let constants = filled.iter().filter(is_constant).filter_map(constant).collect();
        let target = match &view.y {
            Some(path) => collection.path(&path.text).map(|path| &all[path as usize]),
            None => usual_target(&filled),
        };
        let target = target.filter(|column| column.is_numeric).cloned();
        Self { collection, all, shown, filled, constants, target }
    }

    pub(super) fn column(&self, path: &str) -> Option<&Column> {
        Some(&self.all[self.collection.path(path)? as usize])
    }

    /// The best value of a column, if it is known what is good.
    pub(super) fn best(&self, column: &Column) -> Option<&'c Value> {
        let better = column.better?;
        let values = self.collection.rows.iter().filter_map(|row| self.number(row, column.path));
        values.reduce(|best, value| if better.prefers(value, best) { value } else { best })
    }

    /// The value of a task at a path, if it is a number.
    pub(super) fn number(&self, row: &Row, path: PathIndex) -> Option<&'c Value> {
        self.collection.value(row, path).filter(|value| value.number.is_some())
    }

    /// The args that differ.
    pub(super) fn differing_args(&self) -> impl Iterator<Item = &Column> {
        self.filled.iter().filter(|column| column.is_arg() && column.differs)
    }

    /// The args that differ, but no seed.
    pub(super) fn args_but_seed(&self) -> impl Iterator<Item = &Column> {
        self.differing_args().filter(|column| !is_seed(&column.text))
    }

    /// The numeric arg that differs and has most different values; no seed, unless there is no other.
    pub(super) fn main_arg(&self) -> Option<&Column> {
        let rank = |column: &&Column| (is_seed(&column.text), Reverse(self.collection.different(column.path)));
        self.differing_args().filter(|column| column.is_numeric).min_by_key(rank)
    }
}

/// Args that differ, numbers of results, and how long it took.
fn usual(filled: &[Column], tasks: usize) -> Vec<Column> {
    let args = filled.iter().filter(|column| column.is_arg() && column.differs).take(USUAL_ARGS);
    let is_told = |column: &&Column| column.is_result() && column.is_numeric && (column.differs || tasks == 1);
    let results = filled.iter().filter(is_told).take(USUAL_RESULTS);
    let duration = filled.iter().filter(|column| column.text.starts_with("duration"));
    args.chain(results).chain(duration).cloned().collect()
}

fn usual_target(filled: &[Column]) -> Option<&Column> {
    let results = || filled.iter().filter(|column| column.is_numeric && column.is_result());
    let duration = || filled.iter().find(|column| column.text == "duration");
    results().find(|column| column.better.is_some()).or_else(|| results().next()).or_else(duration)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_good_is_told_by_the_name() {
        let cases = [
            ("result.loss", Some(Better::Lower)),
            ("result.val_loss", Some(Better::Lower)),
            ("result.evalPerplexity", Some(Better::Lower)),
            ("result.best.f1", Some(Better::Higher)),
            ("result.top_1-acc", Some(Better::Higher)),
            ("result.accuracy_time", Some(Better::Lower)),
            ("result.epochs", None),
            ("result.glossary", None),
        ];
        for (path, expected) in cases {
            assert_eq!(Better::by_name(path), expected, "{path}");
        }
    }
}
