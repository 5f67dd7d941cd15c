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

/// A column of the table.
#[derive(Clone, Debug)]
pub(super) struct Column {
    pub(super) path: PathIndex,
    pub(super) text: String,
    pub(super) is_numeric: bool,
    pub(super) differs: bool,
    pub(super) better: Option<Better>,
}

/// What a view makes of the tasks that were read.
pub(super) struct Columns<'c> {
    pub(super) collection: &'c Collection,
    pub(super) facts: Vec<Facts<'c>>,
    pub(super) shown: Vec<Column>,
    /// The paths that have values: of args, of results, and so on, each in alphabetical order.
    order: Vec<PathIndex>,
    /// What all tasks have in common, by path.
    pub(super) constants: Vec<(&'c str, &'c Value)>,
    /// The number that all of this is about: the first result for which it is known what is good, or the first one.
    pub(super) target: Option<Column>,
}

impl<'c> Columns<'c> {
    pub(super) fn new(collection: &'c Collection, view: &View) -> Self {
        let facts = collection.facts();
        let column = |path: PathIndex| column(collection, &facts, view, path);
        let named: Vec<Column> =
            view.columns.iter().filter_map(|path| collection.path(&path.text)).map(column).collect();
        let order = order(collection, &facts);
        let usual = || usual(collection, &facts, &order);
        let shown = if named.is_empty() { usual().into_iter().map(column).collect() } else { named };
        let is_common = |path: PathIndex| is_at(collection, path, "args.") || is_at(collection, path, "result.");
        let is_shown = |path: PathIndex| shown.iter().any(|column: &Column| column.path == path);
        let is_constant = |path: &&PathIndex| is_common(**path) && !facts[**path as usize].differs && !is_shown(**path);
        let constant =
            |path: &PathIndex| Some((collection.paths[*path as usize].as_str(), facts[*path as usize].first?));
        let constants = order.iter().filter(is_constant).filter_map(constant).collect();
        let target = target(collection, &facts, view, &order);
        Self { collection, shown, order, constants, target, facts }
    }

    pub(super) fn column(&self, path: &Path, view: &View) -> Option<Column> {
        Some(column(self.collection, &self.facts, view, self.collection.path(&path.text)?))
    }

    pub(super) fn column_at(&self, path: PathIndex, view: &View) -> Column {
        column(self.collection, &self.facts, view, path)
    }

    /// The paths that have values, of args first.
    pub(super) fn paths(&self) -> impl Iterator<Item = (PathIndex, &'c str, &Facts<'c>)> {
        let with_facts =
            |path: &PathIndex| (*path, self.collection.paths[*path as usize].as_str(), &self.facts[*path as usize]);
        self.order.iter().map(with_facts)
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

    /// The args that differ, but no seed.
    pub(super) fn args_but_seed(&self) -> impl Iterator<Item = PathIndex> {
        let differing =
            self.paths().filter(|(_, text, facts)| text.starts_with("args.") && facts.differs && !is_seed(text));
        differing.map(|(path, _, _)| path)
    }

    /// Returns how many args differ.
    pub(super) fn differing_args(&self) -> usize {
        self.paths().filter(|(_, text, facts)| text.starts_with("args.") && facts.differs).count()
    }
}

fn column(collection: &Collection, facts: &[Facts<'_>], view: &View, path: PathIndex) -> Column {
    let text = collection.paths[path as usize].clone();
    let facts = &facts[path as usize];
    let is_in = |paths: &[Path]| paths.iter().any(|path| path.text == text);
    let better = match () {
        () if !facts.is_numeric() => None,
        () if is_in(&view.lower) => Some(Better::Lower),
        () if is_in(&view.higher) => Some(Better::Higher),
        () if text.starts_with("result.") || text.starts_with("progress.") => Better::by_name(&text),
        () => None,
    };
    Column { path, is_numeric: facts.is_numeric(), differs: facts.differs, better, text }
}

fn is_at(collection: &Collection, path: PathIndex, root: &str) -> bool {
    collection.paths[path as usize].starts_with(root)
}

fn order(collection: &Collection, facts: &[Facts<'_>]) -> Vec<PathIndex> {
    let mut order: Vec<PathIndex> =
        (0..collection.paths.len() as PathIndex).filter(|path| facts[*path as usize].present > 0).collect();
    let rank = |text: &str| ROOTS.iter().position(|root| text.starts_with(root)).unwrap_or(ROOTS.len());
    order
        .sort_by_cached_key(|path| (rank(&collection.paths[*path as usize]), collection.paths[*path as usize].clone()));
    order
}

/// Args that differ, numbers of results, and how long it took.
fn usual(collection: &Collection, facts: &[Facts<'_>], order: &[PathIndex]) -> Vec<PathIndex> {
    let facts = |path: &PathIndex| &facts[*path as usize];
    let args = order.iter().filter(|path| is_at(collection, **path, "args.") && facts(path).differs).take(USUAL_ARGS);
    let is_told = |path: &PathIndex| facts(path).is_numeric() && (facts(path).differs || collection.rows.len() == 1);
    let results = order.iter().filter(|path| is_at(collection, **path, "result.") && is_told(path)).take(USUAL_RESULTS);
    let duration = order.iter().filter(|path| is_at(collection, **path, "duration"));
    args.chain(results).chain(duration).copied().collect()
}

fn target(collection: &Collection, facts: &[Facts<'_>], view: &View, order: &[PathIndex]) -> Option<Column> {
    let column = |path: PathIndex| column(collection, facts, view, path);
    if let Some(path) = &view.y {
        return collection.path(&path.text).map(column).filter(|column| column.is_numeric);
    }
    let is_result = |column: &Column| column.is_numeric && column.text.starts_with("result.");
    let results = || order.iter().map(|path| column(*path)).filter(is_result);
    let with_better = results().find(|column| column.better.is_some());
    let duration = || collection.path("duration").map(column).filter(|column| column.is_numeric);
    with_better.or_else(|| results().next()).or_else(duration)
}

/// Numeric args that differ: those that are no seeds first, and of these the ones with most different values.
pub(super) fn numeric_args(columns: &Columns<'_>) -> Vec<PathIndex> {
    let is_numeric_arg =
        |text: &str, facts: &Facts<'_>| text.starts_with("args.") && facts.differs && facts.is_numeric();
    let differing = columns.paths().filter(|(_, text, facts)| is_numeric_arg(text, facts));
    let ranked = differing.map(|(path, text, _)| (is_seed(text), Reverse(columns.collection.different(path)), path));
    let mut ranked: Vec<(bool, Reverse<usize>, PathIndex)> = ranked.collect();
    ranked.sort_by_key(|(seed, different, _)| (*seed, *different));
    ranked.into_iter().map(|(_, _, path)| path).collect()
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
