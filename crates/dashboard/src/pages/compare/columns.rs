//! Which columns the table has, which of their values is the best, and what all tasks have in common.

use std::cmp::{Ordering, Reverse};

use super::collection::{Collection, PathIndex, Row};
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
        if matches!(self, Self::Lower) { "lower is better" } else { "higher is better" }
    }

    /// Returns whether `a` is a better value than `b`.
    pub(super) fn prefers(self, a: &Value, b: &Value) -> bool {
        let wanted = if self == Self::Lower { Ordering::Less } else { Ordering::Greater };
        a.compare(b) == wanted
    }
}

/// A path, with what its values are.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Column<'c> {
    pub(super) path: PathIndex,
    pub(super) text: &'c str,
    /// Tasks that have a value there.
    present: usize,
    /// Tasks that have a number there.
    numbers: usize,
    first: Option<&'c Value>,
    /// Whether not all tasks have the same value there.
    pub(super) differs: bool,
    pub(super) better: Option<Better>,
}

impl<'c> Column<'c> {
    /// The paths of a collection, by their index.
    fn all(collection: &'c Collection, view: &View) -> Vec<Self> {
        let paths = (0..).zip(&collection.paths);
        let mut all: Vec<Self> = paths.map(|(path, text)| Self { path, text, ..Self::default() }).collect();
        for (path, value) in collection.cells() {
            let column = &mut all[path];
            column.present += 1;
            column.numbers += usize::from(value.number.is_some());
            let first = *column.first.get_or_insert(value);
            column.differs = column.differs || first.key() != value.key();
        }
        for column in &mut all {
            column.differs |= column.present < collection.rows.len();
            column.better = column.goal(view);
        }
        all
    }

    /// Returns which of its values are good ones, as far as that is said or known.
    fn goal(&self, view: &View) -> Option<Better> {
        let is_in = |paths: &[Path]| paths.iter().any(|path| path.text == self.text);
        match () {
            () if !self.is_numeric() => None,
            () if is_in(&view.lower) => Some(Better::Lower),
            () if is_in(&view.higher) => Some(Better::Higher),
            () if self.is_result() || self.text.starts_with("progress.") => Better::by_name(self.text),
            () => None,
        }
    }

    /// Returns whether it can be drawn and averaged: some numbers, and nearly nothing else (such as `"NaN"`).
    pub(super) fn is_numeric(&self) -> bool {
        self.numbers > 0 && self.numbers * 2 > self.present
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

    /// Returns whether it holds numbers that came out.
    pub(super) fn is_measured(&self) -> bool {
        self.is_numeric() && !self.is_arg()
    }
}

/// What a view makes of the tasks that were read.
pub(super) struct Columns<'c> {
    pub(super) collection: &'c Collection,
    /// All paths, by their index.
    all: Vec<Column<'c>>,
    pub(super) shown: Vec<Column<'c>>,
    /// The paths that have values: of args, of results, and so on, each in alphabetical order.
    pub(super) filled: Vec<Column<'c>>,
    /// What all tasks have in common, by path.
    pub(super) constants: Vec<(&'c str, &'c Value)>,
    /// The number that all of this is about: the first result for which it is known what is good, or the first one.
    pub(super) target: Option<Column<'c>>,
}

impl<'c> Columns<'c> {
    pub(super) fn new(collection: &'c Collection, view: &View) -> Self {
        let all = Column::all(collection, view);
        let mut filled: Vec<Column<'_>> = all.iter().filter(|column| column.present > 0).copied().collect();
        filled.sort_by_key(|column| {
            (ROOTS.iter().position(|root| column.text.starts_with(root)).unwrap_or(ROOTS.len()), column.text)
        });
        let find = |path: &Path| collection.path(&path.text).map(|path| all[path as usize]);
        let named: Vec<Column<'_>> = view.columns.iter().filter_map(find).collect();
        let shown = if named.is_empty() { usual(&filled, collection.rows.len()) } else { named };
        let is_shown = |column: &Column<'_>| shown.iter().any(|shown| shown.path == column.path);
        let is_constant = |column: &&Column<'_>| (column.is_arg() || column.is_result()) && !column.differs;
        let constants = filled.iter().filter(is_constant).filter(|column| !is_shown(column));
        let constants = constants.filter_map(|column| Some((column.text, column.first?))).collect();
        let target = view.y.as_ref().map_or_else(|| usual_target(&filled), find).filter(Column::is_numeric);
        Self { collection, all, shown, filled, constants, target }
    }

    pub(super) fn column(&self, path: &str) -> Option<Column<'c>> {
        Some(self.all[self.collection.path(path)? as usize])
    }

    /// The best value of a column, if it is known what is good.
    pub(super) fn best(&self, column: &Column<'_>) -> Option<&'c Value> {
        let better = column.better?;
        self.numbers(column).reduce(|best, value| if better.prefers(value, best) { value } else { best })
    }

    /// The numbers in a column.
    pub(super) fn numbers(&self, column: &Column<'_>) -> impl Iterator<Item = &'c Value> {
        self.collection.rows.iter().filter_map(|row| self.number(row, column.path))
    }

    /// The value of a task at a path, if it is a number.
    pub(super) fn number(&self, row: &Row, path: PathIndex) -> Option<&'c Value> {
        self.collection.value(row, path).filter(|value| value.number.is_some())
    }

    /// The args that differ.
    pub(super) fn differing_args(&self) -> impl Iterator<Item = Column<'c>> {
        self.filled.iter().filter(|column| column.is_arg() && column.differs).copied()
    }

    /// The args that differ, but no seed.
    pub(super) fn args_but_seed(&self) -> impl Iterator<Item = Column<'c>> {
        self.differing_args().filter(|column| !is_seed(column.text))
    }

    /// The numeric arg that differs and has most different values; no seed, unless there is no other.
    pub(super) fn main_arg(&self) -> Option<Column<'c>> {
        let rank = |column: &Column<'_>| (is_seed(column.text), Reverse(self.collection.different(column.path)));
        self.differing_args().filter(Column::is_numeric).min_by_key(rank)
    }
}

/// Args that differ, numbers of results, and how long it took.
fn usual<'c>(filled: &[Column<'c>], tasks: usize) -> Vec<Column<'c>> {
    let args = filled.iter().filter(|column| column.is_arg() && column.differs).take(USUAL_ARGS);
    let is_told = |column: &&Column<'_>| column.is_result() && column.is_numeric() && (column.differs || tasks == 1);
    let results = filled.iter().filter(is_told).take(USUAL_RESULTS);
    let duration = filled.iter().filter(|column| column.text.starts_with("duration"));
    args.chain(results).chain(duration).copied().collect()
}

fn usual_target<'c>(filled: &[Column<'c>]) -> Option<Column<'c>> {
    let results = || filled.iter().filter(|column| column.is_numeric() && column.is_result());
    let duration = || filled.iter().find(|column| column.text == "duration");
    results().find(|column| column.better.is_some()).or_else(|| results().next()).or_else(duration).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_good_is_told_by_the_name() {
        let cases: [(&[&str], Option<Better>); 4] = [
            (&["result.loss", "result.val_loss", "result.evalPerplexity"], Some(Better::Lower)),
            (&["result.accuracy_time"], Some(Better::Lower)),
            (&["result.best.f1", "result.top_1-acc"], Some(Better::Higher)),
            (&["result.epochs", "result.glossary"], None),
        ];
        for (paths, expected) in cases {
            for path in paths {
                assert_eq!(Better::by_name(path), expected, "{path}");
            }
        }
    }
}
