//! A task for each combination of values, with the syntax and the rules of `taskqueue task sweep`. The address holds the whole sweep;
//! the page shows its first tasks and their number, and a button creates exactly what is shown.

mod typed;

use std::time::Duration;

use askama::Template;
use taskqueue_core::derived_ids::DerivedIds;
use taskqueue_core::json::{Value, write_value};
use taskqueue_core::limits::TASK_DATA_BYTES;
use taskqueue_core::sweep::BROWSER_COMBINATIONS_MAX;
use taskqueue_core::{Definition, QueueName};
use tokio::sync::{Mutex, MutexGuard};
use tokio::time::Instant;

use self::typed::{Plan, Typed};
use super::create::{Batch, Outcome, Planned, write, write_error};
use super::one::with_other_flags;
use super::{Command, FormStep, Frame, Way, address, cut};
use crate::address::Query;
use crate::layout::{self, PageResult, Shell};
use crate::state::Dashboard;
use crate::visit::Visit;
use crate::{json_field, show};

/// Tasks that the preview shows.
const ROWS_SHOWN: usize = 10;
/// Keys that the preview shows; the args of a task with more are shown as a whole on its page.
const KEYS_SHOWN: usize = 12;
/// A longer sweep does not stand in the address after it was created.
const ADDRESS_CHARS: usize = 30_000;
/// Names that are checked for a preview. Before anything is created more of them are.
const NAMES_CHECKED: usize = 10_000;
const EXAMPLES: [(&str, &str, &str); 5] = [
    ("lr", "0.1, 0.01", "a list"),
    ("seed", "1..50", "integers, both ends included"),
    ("dropout", "0.1..0.5..0.1", "in steps, decimals exact"),
    ("lr", "log:1e-5..1e-1..5", "5 values on a logarithmic scale"),
    ("data", "\"1..5,x\"", "quotes make text of everything"),
];

#[derive(Template)]
#[template(path = "submit_sweep.html")]
struct SweepPage {
    shell: Shell,
    frame: Frame,
    typed: Typed,
    example_address: String,
    preview: Option<Preview>,
    outcome: Option<Outcome>,
    /// Whether not all of them had their turn.
    goes_on: bool,
    command: Command,
}

/// What would be created.
struct Preview {
    count: usize,
    /// `2 × 50`, for more than one key.
    product: String,
    keys: Vec<String>,
    more_keys: usize,
    /// The names of the first tasks, and their values.
    rows: Vec<(String, Vec<String>)>,
    has_name: bool,
    /// The form that creates it: exactly what is shown.
    hidden: Query,
    /// None if no flags can say it.
    command: Option<String>,
}

/// The builder, with a preview of what the address holds.
pub(super) async fn form(visit: &Visit, queue: &QueueName) -> PageResult {
    let mut typed = Typed::of(&visit.query);
    let plan = if typed.is_empty() { None } else { typed.plan(&visit.query) };
    show_form(visit, queue, typed, plan.as_ref(), None).await
}

/// Creates the sweep of a form, or goes on with it.
pub(super) async fn submit(visit: &Visit, queue: &QueueName, form: &Query) -> PageResult {
    let mut typed = Typed::of(form);
    let Some(plan) = typed.plan(form) else { return show_form(visit, queue, typed, None, None).await };
    if FormStep::of(form) != FormStep::Create {
        // A sweep that is too long for an address is previewed in this way.
        return show_form(visit, queue, typed, Some(&plan), None).await;
    }
    let so_far = Outcome::so_far(form);
    if so_far.done == 0
        && let Err(error) = check_names(&visit.dashboard, &plan, usize::MAX).await
    {
        typed.fields.name.error = Some(error);
        return show_form(visit, queue, typed, None, None).await;
    }
    let outcome = create_tasks(&visit.dashboard, queue, &plan, so_far).await;
    if outcome.done >= plan.sweep.count() && outcome.is_complete() {
        let mut next = typed.parameters();
        if next.to_string().len() > ADDRESS_CHARS {
            next = Query::default().and("way", "sweep");
        }
        let next = next.and("created", outcome.tally.created);
        return Ok(layout::done(visit, &next.at(&address(queue)), &outcome.tally.sentence()));
    }
    show_form(visit, queue, typed, Some(&plan), Some(outcome)).await
}

async fn preview(visit: &Visit, queue: &QueueName, typed: &mut Typed, plan: &Plan<'_>) -> Option<Preview> {
    if let Err(error) = check_names(&visit.dashboard, plan, NAMES_CHECKED).await {
        typed.fields.name.error = Some(error);
        return None;
    }
    let counts: Vec<(&str, usize)> = plan.sweep.axes().collect();
    let product: Vec<String> = counts.iter().map(|(_, count)| show::number(*count as u64)).collect();
    let row = |index: usize| {
        let definition = plan.definition_at(index).ok()?;
        let values = plan.sweep.values_at(index).into_iter().take(KEYS_SHOWN).map(value_text).collect();
        Some((definition.stored_bytes(), (cut(definition.name.as_deref().unwrap_or_default()), values)))
    };
    let rows = (0..plan.sweep.count().min(ROWS_SHOWN)).map(row).collect::<Option<Vec<_>>>()?;
    if rows.iter().any(|(bytes, _)| *bytes > TASK_DATA_BYTES) {
        typed.error = Some(json_field::too_large());
        return None;
    }
    Some(Preview {
        count: plan.sweep.count(),
        product: if counts.len() > 1 && !typed.is_zip { product.join(" × ") } else { String::new() },
        keys: counts.iter().take(KEYS_SHOWN).map(|(key, _)| cut(key)).collect(),
        more_keys: counts.len().saturating_sub(KEYS_SHOWN),
        rows: rows.into_iter().map(|(_, row)| row).collect(),
        has_name: plan.name.is_some(),
        hidden: typed.parameters(),
        command: command(queue, &visit.server_url(), typed, plan),
    })
}

fn value_text(value: &Value<'_>) -> String {
    let mut out = Vec::new();
    write_value(&mut out, value);
    cut(&String::from_utf8_lossy(&out))
}

/// The command that creates the same tasks, with the same ids, if there is one.
fn command(queue: &QueueName, url: &str, typed: &Typed, plan: &Plan<'_>) -> Option<String> {
    let command = show::command_line("task sweep", queue.as_str(), url)
        .each("--arg", typed.axes().map(|(key, values)| format!("{key}={values}")))
        .switch("--zip", typed.is_zip);
    let base = json_field::read(&typed.base.value).ok().filter(|base| !base.is_empty_object());
    let command = command.optional("--args", base.as_ref().map(|base| base.as_str())).optional("--name", typed.name());
    let command = with_other_flags(command, &plan.definition, plan.not_before)?;
    Some(command.optional("--batch", plan.batch).to_string())
}

/// A sweep to begin with.
fn example_parameters() -> Query {
    let query = Query::default().and("way", "sweep").and("key", "lr").and("values", "0.1, 0.01, 0.001");
    query.and("key", "seed").and("values", "1..5").and("name", "try-{lr}-{seed}")
}

/// A command to begin with.
fn example(queue: &QueueName, url: &str) -> String {
    let command = show::command_line("task sweep", queue.as_str(), url).flag("--arg", "lr=0.1,0.01");
    command.flag("--arg", "seed=1..50").flag("--name", "vit-{seed}").to_string()
}

/// The builder, with a preview of its plan and what became of its tasks.
async fn show_form(
    visit: &Visit,
    queue: &QueueName,
    mut typed: Typed,
    plan: Option<&Plan<'_>>,
    outcome: Option<Outcome>,
) -> PageResult {
    let preview = match plan {
        Some(plan) => preview(visit, queue, &mut typed, plan).await,
        None => None,
    };
    let (shell, frame) = Frame::new(visit, queue, Way::Sweep).await?;
    let command = match &preview {
        Some(preview) => Command::of(preview.command.clone()),
        None if typed.is_empty() => Command::example(example(queue, &visit.server_url())),
        None => Command::WRONG,
    };
    let page = SweepPage {
        shell,
        frame,
        example_address: example_parameters().at(&address(queue)),
        goes_on: outcome.as_ref().zip(plan).is_some_and(|(outcome, plan)| outcome.done < plan.sweep.count()),
        typed,
        preview,
        outcome,
        command,
    };
    layout::page(visit, &page)
}

/// After this time the answer says how far it came.
const TURN: Duration = Duration::from_secs(4);
/// How long a part of a sweep may take that was created before and is only counted again.
const COUNTING: Duration = Duration::from_secs(10);
const TOO_LARGE: &str =
    "This sweep takes too long for a browser. Use the command for it; what was created is not created again.";
/// How long names are checked before anything is created. Those behind are checked when it is their turn.
const CHECKING: Duration = Duration::from_secs(2);
/// After this time other requests have their turn on this thread.
const SLICE: Duration = Duration::from_millis(2);

/// Returns whether each of the first `most` tasks gets a name, and if not, why; of many large ones those that there is time for.
async fn check_names(dashboard: &Dashboard, plan: &Plan<'_>, most: usize) -> Result<(), String> {
    if !plan.name.as_ref().is_some_and(|name| name.has_placeholders()) {
        return Ok(());
    }
    let mut slice = Slice::begin(dashboard).await;
    for index in 0..plan.sweep.count().min(most) {
        definition(plan, index)?;
        slice.pause_if_due().await;
        if slice.worked() >= CHECKING {
            break;
        }
    }
    Ok(())
}

fn definition(plan: &Plan<'_>, index: usize) -> Result<Definition, String> {
    plan.definition_at(index).map_err(|error| format!("Task {}: {error}", show::number(index as u64 + 1)))
}

/// A short time in which the tasks of a sweep are made, while no other sweep does it. Each may be a megabyte, and this thread serves
/// others.
struct Slice<'d> {
    all: &'d Mutex<()>,
    mine: Option<MutexGuard<'d, ()>>,
    began: Instant,
    /// In the slices before this one.
    worked: Duration,
}

impl<'d> Slice<'d> {
    async fn begin(dashboard: &'d Dashboard) -> Self {
        let all = &dashboard.sweeping;
        Self { all, mine: Some(all.lock().await), began: Instant::now(), worked: Duration::ZERO }
    }

    /// Returns how long it has worked: what it waits for others does not count.
    fn worked(&self) -> Duration {
        self.worked + self.began.elapsed()
    }

    async fn pause_if_due(&mut self) {
        if self.began.elapsed() >= SLICE {
            self.pause(tokio::task::yield_now()).await;
        }
    }

    /// Lets others go on while something else is waited for.
    async fn pause<T>(&mut self, meanwhile: impl Future<Output = T>) -> T {
        self.worked = self.worked();
        self.mine = None;
        let answer = meanwhile.await;
        (self.mine, self.began) = (Some(self.all.lock().await), Instant::now());
        answer
    }
}

/// Creates what is not done yet, until the turn is over or something stops it, which is told.
async fn create_tasks(
    dashboard: &Dashboard,
    queue: &QueueName,
    plan: &Plan<'_>,
    Outcome { done: done_before, mut tally, .. }: Outcome,
) -> Outcome {
    let (began, mut ids, mut batch) = (Instant::now(), DerivedIds::new(plan.batch), Batch::default());
    let (mut done, mut stopped, mut slice) = (done_before, None, Slice::begin(dashboard).await);
    let count = plan.sweep.count();
    for index in 0..count {
        slice.pause_if_due().await;
        let definition = match definition(plan, index) {
            Ok(definition) => definition,
            Err(error) => {
                stopped = Some(error);
                break;
            }
        };
        // The ids of equal tasks depend on how many came before, so those that are done are counted, too.
        let id = ids.next(&definition);
        if index < done_before {
            if slice.worked() < COUNTING {
                continue;
            }
            stopped = Some(TOO_LARGE.to_owned());
            break;
        }
        let (number, not_before, times) = (index as u64 + 1, plan.not_before, plan.times);
        let task = Planned { number, id, is_derived: true, definition, not_before, times };
        if !batch.push(task) && index + 1 < count {
            continue;
        }
        if let Err(error) = slice.pause(write(dashboard, queue, std::mem::take(&mut batch), &mut tally)).await {
            stopped = Some(write_error(&error));
            break;
        }
        done = index + 1;
        if began.elapsed() >= TURN {
            break;
        }
    }
    Outcome { done, tally, stopped }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_makes_the_same_tasks_with_the_same_ids() {
        let form = Query::parse(
            "key=lr&values=0.1,0.01&key=&values=&key=seed&values=1..3&base=%7B%22m%22:1%7D&name=v-{seed}&routes=gpu&batch=b&zip=",
        );
        let mut typed = Typed::of(&form);
        let plan = typed.plan(&form).expect("a plan");
        let queue = QueueName::parse("exp").expect("a name");
        let expected = "taskqueue task sweep --queue exp --url http://h:1 --arg lr=0.1,0.01 --arg seed=1..3 --args '{\"m\":1}' --name 'v-{seed}' --route gpu --batch b";
        assert_eq!(command(&queue, "http://h:1", &typed, &plan).as_deref(), Some(expected));
        assert_eq!(plan.sweep.count(), 6);
        let first = plan.definition_at(0).expect("a task");
        assert_eq!(first.metadata.as_str(), r#"{"batch":"b"}"#, "as by the command line");
    }
}
