//! The state of the page: what its address asks for. Everything that is not asked for is chosen by what the tasks hold.
//!
//! All controls are in one form. Its buttons cannot carry the whole address, which may hold a thousand ids: they carry what they change
//! (`set`, `and`, `apply`), and the answer leads to the address that results.

use std::collections::HashSet;

use taskqueue_core::filter::Expression;
use taskqueue_core::{Status, TaskFilter, TaskId, TaskSelection};

use super::value::Path;
use crate::address::Query;
use crate::selected::{Selectors, Unreadable};

/// Tasks that can be chosen one by one.
const IDS: usize = 1_000;
/// Tasks that are read without a filter, unless more are asked for.
const USUAL_TASKS: usize = 1_000;
/// Tasks that are read at most.
pub(super) const MOST_TASKS: usize = 5_000;
pub(super) const COLUMNS: usize = 30;
/// Axes of the parallel coordinates.
pub(super) const AXES: usize = 8;
/// Paths that tasks are grouped by.
const GROUP_PATHS: usize = 20;
/// The value of `group` for all args that differ but seeds.
const BUT_SEED: &str = "args-but-seed";
/// The value of `status` for tasks of every state: without one only what has succeeded is compared.
const EVERY_STATE: &str = "all";
/// Changes that one address carries: a button carries one.
const CHANGES: usize = 4;

/// Returns whether a scale is to be logarithmic; nothing if the numbers decide.
fn read_scale(word: Option<&str>) -> Option<bool> {
    word.filter(|word| ["linear", "log"].contains(word)).map(|word| word == "log")
}

/// What tasks are grouped by.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Grouping {
    /// Every arg that differs, but no seed.
    ArgsButSeed,
    By(Vec<Path>),
}

/// What an address asks for.
#[derive(Debug)]
pub(super) struct View {
    /// The parameters that count.
    pub(super) query: Query,
    pub(super) selectors: Selectors,
    /// What they select; what has succeeded if there are none.
    pub(super) selection: Result<TaskSelection, Unreadable>,
    pub(super) ids: Vec<TaskId>,
    pub(super) columns: Vec<Path>,
    pub(super) sort: Option<Path>,
    pub(super) is_descending: Option<bool>,
    pub(super) lower: Vec<Path>,
    pub(super) higher: Vec<Path>,
    pub(super) x: Option<Path>,
    pub(super) y: Option<Path>,
    /// Whether a scale is logarithmic; nothing if the numbers decide.
    pub(super) x_scale: Option<bool>,
    pub(super) y_scale: Option<bool>,
    pub(super) color: Option<Path>,
    pub(super) axes: Vec<Path>,
    pub(super) grouping: Option<Grouping>,
    pub(super) page: usize,
    pub(super) most: usize,
    /// What of the address was not understood, in sentences.
    pub(super) complaints: Vec<String>,
}

impl View {
    pub(super) fn parse(query: &Query) -> Self {
        let mut complaints = Vec::new();
        let mut paths = |name: &str, most: usize| {
            let mut paths: Vec<Path> = Vec::new();
            // A list with commas is as good as a repeated parameter.
            for text in query.all(name).flat_map(|text| text.split(',')).filter(|text| !text.trim().is_empty()) {
                match Path::parse(text) {
                    Some(path) if paths.contains(&path) => {}
                    Some(_) if paths.len() == most => {
                        complaints.push(format!("At most {most} paths are taken for {name}."));
                        break;
                    }
                    Some(path) => paths.push(path),
                    None => complaints.push(complaint(text)),
                }
            }
            paths
        };
        let grouping = match query.filled("group") {
            Some(BUT_SEED) => Some(Grouping::ArgsButSeed),
            _ => Some(paths("group", GROUP_PATHS)).filter(|given| !given.is_empty()).map(Grouping::By),
        };
        let mut one = |name: &str| paths(name, 1).pop();
        let (sort, x, y, color) = (one("sort"), one("x"), one("y"), one("color"));
        let (columns, axes) = (paths("column", COLUMNS), paths("axis", AXES));
        let (lower, higher) = (paths("lower", COLUMNS), paths("higher", COLUMNS));
        let ids = ids_of(query, &mut complaints);
        let mut selectors = Selectors::read(query);
        if ids.is_empty() && is_untouched(query, &selectors) {
            selectors.status = Some(Status::Succeeded);
        }
        complaints.truncate(5);
        let usual = if selectors.has_search() { MOST_TASKS } else { USUAL_TASKS };
        Self {
            query: query.clone(),
            ids,
            columns,
            sort,
            is_descending: query.filled("order").map(|word| word == "descending"),
            lower,
            higher,
            x,
            y,
            x_scale: read_scale(query.get("x_scale")),
            y_scale: read_scale(query.get("y_scale")),
            color,
            axes,
            grouping,
            page: query.get("page").and_then(|page| page.parse().ok()).unwrap_or(1).max(1),
            most: query.get("read").and_then(|most| most.parse().ok()).unwrap_or(usual).clamp(1, MOST_TASKS),
            selection: selectors.selection(),
            selectors,
            complaints,
        }
    }

    /// Returns whether the address has this value for a parameter.
    pub(super) fn has(&self, name: &str, value: &str) -> bool {
        self.query.get(name).unwrap_or_default() == value
    }

    /// Returns whether tasks are grouped by a path that was named.
    pub(super) fn is_grouped_by(&self, text: &str) -> bool {
        matches!(&self.grouping, Some(Grouping::By(paths)) if paths.iter().any(|path| path.text == text))
    }

    pub(super) fn is_grouped_by_args(&self) -> bool {
        self.grouping == Some(Grouping::ArgsButSeed)
    }

    /// Every path that is named.
    pub(super) fn paths(&self) -> Vec<Path> {
        let one = [&self.sort, &self.x, &self.y, &self.color].into_iter().flatten();
        let group: &[Path] = if let Some(Grouping::By(paths)) = &self.grouping { paths } else { &[] };
        let many = [&self.columns, &self.axes, &self.lower, &self.higher].into_iter().flatten();
        one.chain(many).chain(group).cloned().collect()
    }
}

fn complaint(text: &str) -> String {
    let shown: String = text.chars().take(60).collect();
    format!("“{shown}” is no path. Write args.lr, result.loss, metadata.batch, progress.step, or duration.")
}

/// Returns whether an address asks for no tasks in particular, but perhaps for single ones.
fn is_untouched(query: &Query, selectors: &Selectors) -> bool {
    let asks_for_all = query.has("all") || query.get("status") == Some(EVERY_STATE);
    selectors.is_unspecific() && !asks_for_all
}

/// The tasks that were chosen; none if everything that matches is meant.
fn ids_of(query: &Query, complaints: &mut Vec<String>) -> Vec<TaskId> {
    if query.has("all") {
        return Vec::new();
    }
    let mut ids: Vec<TaskId> = Vec::new();
    for text in query.all("id").filter(|text| !text.is_empty()) {
        match TaskId::parse(text) {
            Some(_) if ids.len() == IDS => {
                complaints.push(format!("Only the first {IDS} chosen tasks are compared. Use a filter for more."));
                break;
            }
            Some(id) => ids.push(id),
            None => complaints.push("One of the chosen tasks has no valid id.".to_owned()),
        }
    }
    let mut seen = HashSet::new();
    ids.retain(|id| seen.insert(*id));
    ids
}

/// Lists that are chosen in menus: they change only when the button of their menu is used (`apply`).
const LISTS: [(&str, &str); 3] = [("column", "set.column"), ("axis", "set.axis"), ("group", "set.group")];
/// The parameters of a view besides those that select its tasks. The list of tasks leads here with others, too.
const PARAMETERS: [&str; 15] = [
    "id", "read", "column", "sort", "order", "lower", "higher", "x", "y", "x_scale", "y_scale", "color", "axis",
    "group", "page",
];

/// The parameters that an address means which carries changes or empty fields; none if it is as it should be.
pub(super) fn changed(query: &Query) -> Option<Query> {
    // All that match instead of the chosen ones; and chosen ones whatever state they have by now.
    let (takes_all, has_ids) = (query.has("all"), query.filled("id").is_some());
    let is_moot = |name: &str| (name == "id" && takes_all) || (name == "status" && has_ids && !takes_all);
    let is_known = |name: &&str| PARAMETERS.contains(name) || Selectors::PARAMETERS.contains(name);
    let is_kept = |(name, value): &(&str, &str)| !value.is_empty() && is_known(name) && !is_moot(name);
    if query.iter().all(|parameter| is_kept(&parameter)) {
        return None;
    }
    let mut result = query.clone();
    for change in query.all("set").take(CHANGES).map(Query::parse) {
        let names: HashSet<&str> = change.iter().map(|(name, _)| name).collect();
        let others = result.iter().filter(|(name, _)| !names.contains(name));
        result = others.chain(change.iter()).collect();
        result = if change.has("page") { result } else { result.without("page") };
    }
    for (list, field) in LISTS.into_iter().filter(|(list, _)| query.get("apply") == Some(list)) {
        let values = query.all(field).chain(query.filled("add").filter(|_| list == "column"));
        result = values.fold(result.without(list).without("page"), |result, value| result.and(list, value));
    }
    for part in query.all("and").take(CHANGES) {
        let filter = and(&result, part);
        result = result.without("page").with("filter", filter);
    }
    let kept: Query = result.iter().filter(is_kept).collect();
    // All that match without a filter are those of every state.
    Some(if takes_all && Selectors::read(&kept).is_unspecific() { kept.with("status", EVERY_STATE) } else { kept })
}

/// The bytes of an address that filters are read of.
pub(super) fn filter_bytes(query: &Query) -> usize {
    ["filter", "and", "set"].into_iter().flat_map(|name| query.all(name)).map(str::len).sum()
}

/// The filter of a view and one more part. A view that shows what has succeeded because nothing was asked for goes on to.
fn and(query: &Query, part: &str) -> String {
    let selectors = Selectors::read(query);
    let is_untouched = is_untouched(query, &selectors) && !query.has("id");
    let filter = selectors.filter.or_else(|| is_untouched.then(|| "status == \"succeeded\"".to_owned()));
    let Some(filter) = filter else { return part.to_owned() };
    let is_any = TaskFilter::parse(&filter).is_ok_and(|filter| matches!(filter.expression(), Expression::Any(_)));
    if is_any { format!("({}) and {part}", filter.trim()) } else { format!("{} and {part}", filter.trim()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_button_changes_what_it_names_and_leads_to_a_clean_address() {
        let query = Query::parse("x=&filter=a&column=args.a&column=args.b&page=3&set=sort%3Dargs.a%26order%3D");
        let expected = Some("filter=a&column=args.a&column=args.b&sort=args.a");
        assert_eq!(changed(&query).map(|query| query.to_string()).as_deref(), expected);
        assert_eq!(changed(&Query::parse("filter=a&page=2")), None);
        let menu =
            Query::parse("column=args.a&set.column=args.b&set.column=args.c&add=args.d&set.axis=args.e&apply=column");
        let expected = Some("column=args.b&column=args.c&column=args.d");
        assert_eq!(changed(&menu).map(|query| query.to_string()).as_deref(), expected);
        let from_list = Query::parse("status=running&id=t_exampletask0&order_by=name&cursor=x");
        assert_eq!(changed(&from_list).map(|query| query.to_string()).as_deref(), Some("id=t_exampletask0"));
        let all = Query::parse("status=running&id=t_exampletask0&all=1");
        assert_eq!(changed(&all).map(|query| query.to_string()).as_deref(), Some("status=running"));
        let every = changed(&Query::parse("id=t_exampletask0&all=1")).unwrap_or_default();
        assert_eq!(every.to_string(), "status=all");
        assert_eq!(changed(&every), None);
        let page = Query::parse("filter=a&page=3&set=page%3D4");
        assert_eq!(changed(&page).map(|query| query.to_string()).as_deref(), Some("filter=a&page=4"));
    }

    #[test]
    fn all_that_match_are_neither_the_chosen_ones_nor_only_what_has_succeeded() {
        for address in ["id=t_exampletask0&all=1", "status=all"] {
            let view = View::parse(&Query::parse(address));
            assert_eq!((view.ids.len(), view.selectors.status), (0, None), "{address}");
        }
        assert_eq!(View::parse(&Query::default()).selectors.status, Some(Status::Succeeded));
    }

    #[test]
    fn an_address_carries_a_few_changes_because_each_is_as_much_work_as_the_address_is_long() {
        let many: String = (0..1_000).map(|n| format!("set=x%3Dargs.x{n}&and=args.y{n}==1&")).collect();
        let changed = changed(&Query::parse(&many)).unwrap_or_default();
        assert_eq!(changed.get("x"), Some(format!("args.x{}", CHANGES - 1).as_str()));
        assert_eq!(changed.get("filter").unwrap_or_default().matches("args.y").count(), CHANGES);
    }

    #[test]
    fn a_value_is_added_to_the_filter() {
        let with = |filter: &str| {
            let query = Query::default().and("filter", filter).and("and", "args.lr == 0.1");
            changed(&query).and_then(|query| query.get("filter").map(str::to_owned)).unwrap_or_default()
        };
        assert_eq!(with("priority == 1"), "priority == 1 and args.lr == 0.1");
        assert_eq!(with("name == \"a\" or name == \"b\""), "(name == \"a\" or name == \"b\") and args.lr == 0.1");
        assert_eq!(with(""), "status == \"succeeded\" and args.lr == 0.1");
        assert!(TaskFilter::parse(&with("")).is_ok());
    }

    #[test]
    fn an_address_has_bounds_and_complaints() {
        let columns: String = (0..100).map(|n| format!("&column=args.c{n}")).collect();
        let view = View::parse(&Query::parse(&format!("x=lr&read=999999&page=0{columns}")));
        assert_eq!((view.columns.len(), view.most, view.page), (COLUMNS, MOST_TASKS, 1));
        assert_eq!(view.complaints.len(), 2, "{:?}", view.complaints);
        let ids: String = (0..1_500).map(|n| format!("id=t_{n:012}&")).collect();
        assert_eq!(View::parse(&Query::parse(&ids)).ids.len(), IDS);
    }
}
