//! Which tasks a view shows or an action is for: those of a state, of a filter and of a name search, or single ones by id. The
//! parameters have the names that they have in the API (`status`, `filter`, `name_fuzzy`); with `archived=1` archived tasks are among
//! them. Single tasks are `id`, repeated. With `all` the ids do not count: then it is everything that matches.

use taskqueue_core::filter::FilterError;
use taskqueue_core::fuzzy::FuzzyName;
use taskqueue_core::grouping::{GroupQuery, TaskDimension};
use taskqueue_core::{QueueName, Refusal, Status, Task, TaskFilter, TaskId, TaskSelection};
use taskqueue_store::{Store, StoreError, StoreExt};

use crate::address::Query;
use crate::problem::Problem;
use crate::state::Dashboard;

/// Most single tasks: their ids fit into a filter, whatever stands beside them.
pub(crate) const IDS_MAX: usize = 200;
/// Selects every task.
const EVERY_TASK: &str = "status not in []";

/// What selects by a property, as it was given.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Selectors {
    pub(crate) status: Option<Status>,
    pub(crate) filter: Option<String>,
    pub(crate) name_fuzzy: Option<String>,
    /// Whether archived tasks are selected, too.
    pub(crate) archived: bool,
}

/// Why selectors select nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Unreadable {
    /// The parameter.
    pub(crate) parameter: &'static str,
    /// Where in it, from 1, in characters.
    pub(crate) column: Option<usize>,
    pub(crate) message: String,
}

impl From<FilterError> for Unreadable {
    fn from(error: FilterError) -> Self {
        match error {
            FilterError::TooLarge => Self { parameter: "filter", column: None, message: error.to_string() },
            FilterError::Invalid { column, message } => Self { parameter: "filter", column: Some(column), message },
        }
    }
}

impl From<Unreadable> for Problem {
    fn from(error: Unreadable) -> Self {
        let place = error.column.map(|column| format!(" at column {column}")).unwrap_or_default();
        Self::invalid(
            format!("The {} cannot be read{place}: {}", error.parameter, error.message),
            "Go back and mend it.",
        )
    }
}

impl Selectors {
    /// The parameters that they are read from.
    pub(crate) const PARAMETERS: [&str; 4] = ["status", "filter", "name_fuzzy", "archived"];

    /// Those of an address. What is blank selects nothing, and neither does a state that is none.
    pub(crate) fn read(query: &Query) -> Self {
        let text = |name| query.get(name).filter(|text| !text.trim().is_empty()).map(str::to_owned);
        Self {
            status: query.get("status").and_then(Status::parse),
            filter: text("filter"),
            name_fuzzy: text("name_fuzzy"),
            archived: query.get("archived") == Some("1"),
        }
    }

    /// Returns whether anything but the state selects.
    pub(crate) fn has_search(&self) -> bool {
        self.filter.is_some() || self.name_fuzzy.is_some()
    }

    /// The tasks that they select.
    pub(crate) fn selection(&self) -> Result<TaskSelection, Unreadable> {
        let filter = self.filter.as_deref().map(TaskFilter::parse).transpose()?;
        let fuzzy = |text: &String| FuzzyName::parse(text).map(|fuzzy| (text.clone(), fuzzy));
        let wrong = |message| Unreadable { parameter: "name", column: None, message };
        let name_fuzzy = self.name_fuzzy.as_ref().map(fuzzy).transpose().map_err(|error| wrong(error.to_string()))?;
        let include_archived = self.archived;
        Ok(TaskSelection { status: self.status, name_fuzzy, filter, include_archived, ..TaskSelection::default() })
    }

    /// Returns whether nothing is selected in particular, but perhaps archived tasks, too.
    pub(crate) fn is_unspecific(&self) -> bool {
        Self { archived: false, ..self.clone() } == Self::default()
    }

    /// Makes of them what takes reading their filter: a long one in its turn.
    pub(crate) async fn in_turn<T: Send + 'static>(
        &self,
        dashboard: &Dashboard,
        read: impl FnOnce(Self) -> T + Send + 'static,
    ) -> Result<T, Problem> {
        let (bytes, selectors) = (self.filter.as_ref().map_or(0, String::len), self.clone());
        dashboard.read_filter(bytes, move || read(selectors)).await
    }
}

/// The same tasks with one more condition. Their filter was read alone: a wrong one becomes no other one between parentheses.
pub(crate) fn and(selection: TaskSelection, condition: &str) -> Result<TaskSelection, Unreadable> {
    let text = match &selection.filter {
        Some(filter) => format!("({}) and {condition}", filter.text()),
        None => condition.to_owned(),
    };
    Ok(TaskSelection { filter: Some(TaskFilter::parse(&text)?), ..selection })
}

/// State and filter as one filter. The name search is in no filter.
pub(crate) fn as_filter(selection: TaskSelection) -> Result<TaskFilter, Unreadable> {
    let text = match (selection.status, selection.filter) {
        (None, Some(filter)) => return Ok(filter),
        (None, None) => EVERY_TASK.to_owned(),
        (Some(status), None) => format!("status == \"{}\"", status.as_str()),
        (Some(status), Some(filter)) => format!("status == \"{}\" and ({})", status.as_str(), filter.text()),
    };
    Ok(TaskFilter::parse(&text)?)
}

/// What an action is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    /// These tasks.
    Tasks(Vec<TaskId>),
    /// Everything that matches.
    Matching(Selectors),
}

impl Target {
    /// Reads it from an address or a form. None if nothing is chosen: that never means everything.
    pub(crate) fn read(query: &Query) -> Option<Self> {
        let mut ids: Vec<TaskId> = Vec::new();
        for id in query.all("id").filter_map(TaskId::parse) {
            if ids.len() < IDS_MAX && !ids.contains(&id) {
                ids.push(id);
            }
        }
        let is_everything = query.has("all");
        let chosen = (!ids.is_empty()).then_some(Self::Tasks(ids));
        if is_everything { Some(Self::Matching(Selectors::read(query))) } else { chosen }
    }

    /// Returns whether archived tasks are among what it selects. Who chose single tasks saw what they are.
    pub(crate) fn includes_archived(&self) -> bool {
        match self {
            Self::Tasks(_) => true,
            Self::Matching(selectors) => selectors.archived,
        }
    }
}

/// Returns a task; nothing if there is none of this id.
pub(crate) async fn find_task(store: &dyn Store, queue: &QueueName, id: TaskId) -> Result<Option<Task>, StoreError> {
    match store.get_task(queue, id).await {
        Err(StoreError::Refused(Refusal::TaskNotFound { .. })) => Ok(None),
        found => found.map(Some),
    }
}

/// Counts the tasks of each state, in the order of [`Status::ALL`].
pub(crate) async fn count_by_status(
    store: &dyn Store,
    queue: &QueueName,
    selection: TaskSelection,
) -> Result<[u64; 5], StoreError> {
    let query = GroupQuery { selection, dimensions: vec![TaskDimension::Status], limit: 5, after: None };
    let mut counts = [0; 5];
    for group in store.group_tasks(queue, query).await?.groups {
        if let Some(status) = group.key.first().and_then(|word| Status::parse(word)) {
            counts[status as usize] += group.count;
        }
    }
    Ok(counts)
}

/// The filter that selects these tasks.
pub(crate) fn filter_of(ids: &[TaskId]) -> Result<TaskFilter, Unreadable> {
    let ids: Vec<String> = ids.iter().map(|id| format!("\"{}\"", id.as_str())).collect();
    Ok(TaskFilter::parse(&format!("id in [{}]", ids.join(",")))?)
}

/// The bytes of these ids in filters.
pub(crate) fn bytes_of(ids: &[TaskId]) -> usize {
    ids.iter().map(|id| id.as_str().len()).sum()
}

/// Up to this column the mark stands under the field itself; further on the text around it is repeated.
const MARK_COLUMNS: usize = 44;
const MARK_CONTEXT: usize = 30;

pub(crate) struct FilterMark {
    /// The text around the place, if it is too far to the right to be marked under the field.
    pub(crate) around: Option<String>,
    /// Blanks up to the place.
    pub(crate) blanks: String,
    pub(crate) message: String,
}

impl FilterMark {
    pub(crate) fn new(text: &str, error: &Unreadable) -> Self {
        let message = error.message.clone();
        let Some(column) = error.column else { return Self { around: None, blanks: String::new(), message } };
        if column <= MARK_COLUMNS {
            return Self { around: None, blanks: " ".repeat(column - 1), message };
        }
        let skipped = column - 1 - MARK_CONTEXT;
        let around: String = text.chars().skip(skipped).take(MARK_CONTEXT + 12).collect();
        // A line end would put the mark under another line.
        let around = around.chars().map(|character| if character.is_control() { ' ' } else { character }).collect();
        Self { around: Some(around), blanks: " ".repeat(MARK_CONTEXT), message }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use taskqueue_core::definition::Definition;
    use taskqueue_core::task::{Lifecycle, Outcome};

    use super::*;

    /// A task without an outcome.
    pub(crate) fn task(definition: Definition, lifecycle: Lifecycle) -> Task {
        let (queue, id) = (QueueName::parse("q").unwrap(), TaskId::parse("t_abcdefghijkl").unwrap());
        Task { queue, id, definition, lifecycle, outcome: Outcome::empty() }
    }

    fn target(query: &str) -> Option<Target> {
        Target::read(&Query::parse(query))
    }

    #[test]
    fn a_state_and_a_filter_are_one_filter_and_a_wrong_one_stays_wrong() {
        let selection = |query: &str| Selectors::read(&Query::parse(query)).selection();
        let filter = |query: &str| selection(query).and_then(as_filter).map(|filter| filter.text().to_owned());
        assert_eq!(filter(""), Ok("status not in []".to_owned()));
        assert_eq!(filter("status=failed"), Ok("status == \"failed\"".to_owned()));
        assert_eq!(filter("filter=args.a==1+or+args.b==2"), Ok("args.a==1 or args.b==2".to_owned()));
        let expected = Ok("status == \"failed\" and (args.a==1 or args.b==2)".to_owned());
        assert_eq!(filter("status=failed&filter=args.a==1+or+args.b==2"), expected);
        let archived = |query: &str| {
            let both = selection(query).and_then(|selection| and(selection, "archived == true"))?;
            Ok::<_, Unreadable>(both.filter.map(|filter| filter.text().to_owned()))
        };
        assert_eq!(archived(""), Ok(Some("archived == true".to_owned())));
        assert_eq!(archived("filter=a.b"), Err(filter("filter=a.b").unwrap_err()), "wrong alone");
        let expected = "(args.a==1 or args.b==2) and archived == true".to_owned();
        assert_eq!(archived("filter=args.a==1+or+args.b==2"), Ok(Some(expected)));
        let wrong = filter("status=failed&filter=priority==1)+or+(priority==2").unwrap_err();
        assert_eq!((wrong.parameter, wrong.column), ("filter", Some(12)));
    }

    #[test]
    fn single_tasks_count_unless_everything_is_meant() {
        let id = TaskId::parse("t_exampletask0").unwrap();
        assert_eq!(target("id=t_exampletask0&id=t_exampletask0&id=x&status=failed"), Some(Target::Tasks(vec![id])));
        let failed = Selectors { status: Some(Status::Failed), ..Selectors::default() };
        assert_eq!(target("id=t_exampletask0&all=1&status=failed"), Some(Target::Matching(failed)));
        assert_eq!(target("all=1&status=what&filter=+"), Some(Target::Matching(Selectors::default())));
        for nothing in ["", "status=failed", "id=x&status=failed", "filter=args.a==1"] {
            assert_eq!(target(nothing), None, "{nothing}");
        }
        let archived = target("all=1&archived=1");
        assert_eq!(archived, Some(Target::Matching(Selectors { archived: true, ..Selectors::default() })));
        assert!(archived.is_some_and(|target| target.includes_archived()));
        let many: Vec<String> = (0..300).map(|n| format!("id=t_{n:012}")).collect();
        let Some(Target::Tasks(ids)) = target(&many.join("&")) else { panic!("ids") };
        assert_eq!(ids.len(), IDS_MAX);
        assert!(filter_of(&ids).is_ok());
    }

    #[test]
    fn a_mark_stands_under_the_column_of_the_error() {
        let error = |column| Unreadable { parameter: "filter", column: Some(column), message: "wrong".to_owned() };
        let near = FilterMark::new("args.lr <== 1", &error(11));
        assert_eq!((near.around, near.blanks.len()), (None, 10));
        let text = format!("{}(", "a".repeat(99));
        let far = FilterMark::new(&text, &error(100));
        let around = far.around.unwrap();
        assert_eq!(around.chars().nth(far.blanks.len()), Some('('));
        let nowhere =
            FilterMark::new("", &Unreadable { parameter: "filter", column: None, message: "too large".to_owned() });
        assert_eq!((nowhere.around, nowhere.blanks.as_str()), (None, ""));
    }
}
