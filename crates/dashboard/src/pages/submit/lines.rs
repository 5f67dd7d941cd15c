//! Many tasks as lines of JSON, each as `taskqueue task submit --from` takes it. All lines are checked before anything is created.

use askama::Template;
use taskqueue_api::task::Creation;
use taskqueue_api::task_line::{LineReader, LineTask};
use taskqueue_core::QueueName;
use taskqueue_core::batch_label::labelled;
use taskqueue_core::definition::check_stored_size;
use taskqueue_core::derived_ids::DerivedIds;
use taskqueue_core::fields::TimeComparison;
use taskqueue_core::shell::CommandLine;

use super::create::{Batch, Outcome, Planned, Refusals, Tally, write, write_error};
use super::{COMMAND_BYTES, Command, FormStep, Frame, Way, address, cut};
use crate::address::Query;
use crate::field::{self, Field};
use crate::layout::{self, PageResult, Shell};
use crate::state::{Dashboard, on_own_thread};
use crate::visit::{FormTurn, Visit};
use crate::{json_field, show};

/// The largest text of lines.
pub(super) const LINES_BYTES: usize = 8 * 1024 * 1024;
/// Tasks that a form may have; files with more are for the command line.
const TASKS_MAX: u64 = 10_000;
/// Wrong lines and tasks that are shown.
const ERRORS_SHOWN: usize = 20;
const ROWS_SHOWN: usize = 10;
/// Characters that are shown of what is wrong with a line.
const REASON_CHARS: usize = 400;

#[derive(Template)]
#[template(path = "submit_lines.html")]
struct LinesPage {
    shell: Shell,
    frame: Frame,
    lines: Field,
    batch: Field,
    report: Option<Report>,
    outcome: Option<Outcome>,
    command: Command,
}

/// What the lines are.
#[derive(Debug, Default)]
struct Report {
    valid: u64,
    wrong: Refusals,
    /// The first tasks.
    first: Vec<Planned>,
    /// The lines themselves, if a shell takes them.
    text: Option<String>,
}

/// The form.
pub(super) async fn form(visit: &Visit, queue: &QueueName) -> PageResult {
    show_form(visit, queue, (Field::default(), Field::of(&visit.query, "batch")), None, None).await
}

/// Checks the lines, and creates their tasks if all are right, or those that are if that is wanted.
pub(super) async fn submit(visit: &Visit, queue: &QueueName, form: Query, turn: FormTurn<'_>) -> PageResult {
    let step = FormStep::of(&form);
    let (mut lines, mut batch) = (Field::of(&form, "lines"), Field::of(&form, "batch"));
    let expected: Option<u64> = form.get("expect").and_then(|text| text.parse().ok());
    drop(form);
    let label = batch.read(field::name).flatten().filter(|label| !label.trim().is_empty());
    let text = lines.value;
    let (text, checked) = on_own_thread(move || {
        let checked = check(&text, label.as_deref());
        (text, checked)
    })
    .await?;
    drop(turn);
    let for_shell = (text.len() <= COMMAND_BYTES).then(|| text.clone());
    // A page is not made huge by a text that cannot be taken.
    lines.value = if step == FormStep::Watch || text.len() > LINES_BYTES { String::new() } else { text };
    let (report, tasks) = match checked {
        Ok((report, tasks)) => (Report { text: for_shell, ..report }, tasks),
        Err(error) => {
            lines.error = Some(error);
            return show_form(visit, queue, (lines, batch), None, None).await;
        }
    };
    let is_wanted = match step {
        FormStep::Create => report.wrong.count == 0,
        FormStep::CreateValid => true,
        FormStep::Check | FormStep::Watch => false,
    };
    // The lines may have changed since the button was made that says how many will be created.
    let is_expected = expected == Some(report.valid);
    if is_wanted && !is_expected {
        lines.error = Some(
            "The lines have changed since they were checked. Look at them, and press the button again.".to_owned(),
        );
    }
    if !is_wanted || !is_expected || tasks.is_empty() || batch.error.is_some() {
        return show_form(visit, queue, (lines, batch), Some(report), None).await;
    }
    let outcome = create(&visit.dashboard, queue, tasks).await;
    if outcome.is_complete() {
        let next = Query::default().and("way", "lines").and("created", outcome.tally.created);
        return Ok(layout::done(visit, &next.at(&address(queue)), &outcome.tally.sentence()));
    }
    show_form(visit, queue, (lines, batch), Some(report), Some(outcome)).await
}

async fn create(dashboard: &Dashboard, queue: &QueueName, tasks: Vec<Planned>) -> Outcome {
    let (mut tally, mut batch) = (Tally::default(), Batch::default());
    let count = tasks.len();
    for (index, task) in tasks.into_iter().enumerate() {
        if !batch.push(task) && index + 1 < count {
            continue;
        }
        if let Err(error) = write(dashboard, queue, std::mem::take(&mut batch), &mut tally).await {
            return Outcome { tally, stopped: Some(write_error(&error)), done: index };
        }
    }
    Outcome { tally, stopped: None, done: count }
}

type Checked = Result<(Report, Vec<Planned>), String>;

/// The tasks of the lines, and what is wrong with the others. The error is about the text as a whole.
fn check(text: &str, batch: Option<&str>) -> Checked {
    if text.len() > LINES_BYTES {
        let most = show::bytes(LINES_BYTES as u64);
        return Err(format!("This is more than {most}. The command line takes files of any size."));
    }
    let (mut report, mut tasks) = (Report::default(), Vec::new());
    let mut reader = LineReader::new(None, Creation::default(), DerivedIds::new(batch));
    for (number, line) in (1..).zip(text.split('\n')) {
        if line.trim_ascii().is_empty() {
            continue;
        }
        if report.valid + report.wrong.count == TASKS_MAX {
            let most = show::number(TASKS_MAX);
            return Err(format!("These are more than {most} lines. The command line takes files of any size."));
        }
        match planned(&mut reader, number, line, batch) {
            Ok(task) => {
                if report.first.len() < ROWS_SHOWN {
                    report.first.push(task.clone());
                }
                report.valid += 1;
                tasks.push(task);
            }
            Err(reason) => report.wrong.add(number, reason.chars().take(REASON_CHARS).collect(), ERRORS_SHOWN),
        }
    }
    if report.valid + report.wrong.count == 0 {
        return Err("Paste or choose at least one line.".to_owned());
    }
    Ok((report, tasks))
}

fn planned(reader: &mut LineReader, number: u64, line: &str, batch: Option<&str>) -> Result<Planned, String> {
    json_field::check_length(line)?;
    let mut task = reader.read(line.as_bytes()).map_err(|error| error.to_string())?;
    task.definition.metadata = labelled(task.definition.metadata, batch);
    check_stored_size(task.definition.stored_bytes(), "{}".len(), 0).map_err(|_| json_field::too_large())?;
    let LineTask { id, is_derived, definition, not_before } = task;
    Ok(Planned { number, id, is_derived, definition, not_before, times: TimeComparison::Exact })
}

fn routes(task: &Planned) -> String {
    cut(&task.definition.routes.iter().collect::<Vec<_>>().join(", "))
}

/// The command that takes lines from a file, or from where it is called.
fn command(queue: &QueueName, url: &str, from: &str, batch: Option<&str>) -> CommandLine {
    show::command_line("task submit", queue.as_str(), url).optional("--batch", batch).flag("--from", from)
}

/// The command with the lines themselves. All of them are JSON objects, so none is the word that ends them.
fn with_lines(queue: &QueueName, url: &str, lines: &str, batch: Option<&str>) -> String {
    let lines = lines.replace("\r\n", "\n");
    format!("{} <<'END'\n{}\nEND", command(queue, url, "-", batch), lines.trim_end())
}

async fn show_form(
    visit: &Visit,
    queue: &QueueName,
    (lines, batch): (Field, Field),
    report: Option<Report>,
    outcome: Option<Outcome>,
) -> PageResult {
    let url = visit.server_url();
    let command = match &report {
        _ if batch.error.is_some() => Command::WRONG,
        Some(report) if report.wrong.count > 0 => Command::WRONG,
        Some(report) => Command::of(report.text.as_deref().map(|text| with_lines(queue, &url, text, batch.filled()))),
        None if lines.error.is_some() => Command::WRONG,
        None => Command::example(command(queue, &url, "tasks.jsonl", batch.filled()).to_string()),
    };
    let (shell, frame) = Frame::new(visit, queue, Way::Lines).await?;
    let page = LinesPage { shell, frame, lines, batch, report, outcome, command };
    layout::page(visit, &page)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_wrong_line_is_told_by_its_number_and_the_others_are_tasks() {
        let text = "{\"args\":{\"x\":1}}\r\n\r\n{\"lr\":1}\n{\"args\":\n{\"id\":\"t_abcdefghijkl\",\"name\":\"a\\u0007b\"}\n{\"priority\":7}";
        let (report, tasks) = check(text, None).expect("a report");
        assert_eq!((report.valid, report.wrong.count), (2, 3));
        assert_eq!(report.wrong.first.iter().map(|(line, _)| *line).collect::<Vec<_>>(), [3, 4, 5]);
        assert!(report.wrong.first[0].1.contains("lr is no field of a task"), "{:?}", report.wrong);
        assert_eq!(tasks.iter().map(|task| task.number).collect::<Vec<_>>(), [1, 6]);
        assert!(check(" \n\r\n", None).is_err());
    }

    #[test]
    fn the_same_lines_get_the_same_ids_and_another_label_gives_others() {
        let ids = |batch| {
            let (_, tasks) = check("{\"args\":{\"x\":1}}\n{\"args\":{\"x\":1}}\n", batch).expect("tasks");
            tasks.iter().map(|task| task.id).collect::<Vec<_>>()
        };
        assert_eq!(ids(None), ids(None));
        assert_ne!(ids(None)[0], ids(None)[1]);
        assert_ne!(ids(None), ids(Some("again")));
        let (_, labelled) = check("{}", Some("again")).expect("tasks");
        assert_eq!(labelled[0].definition.metadata.as_str(), r#"{"batch":"again"}"#, "as by the command line");
    }

    #[test]
    fn the_command_has_the_lines_that_are_in_the_form() {
        let queue = QueueName::parse("exp").expect("a name");
        let said = with_lines(&queue, "http://h:1", "{\"name\":\"it's $HOME\"}\r\n{}\r\n", Some("b"));
        let expected = "taskqueue task submit --queue exp --url http://h:1 --batch b --from=- <<'END'\n{\"name\":\"it's $HOME\"}\n{}\nEND";
        assert_eq!(said, expected);
    }

    #[test]
    fn what_is_too_much_is_refused_as_a_whole_and_a_large_task_by_its_line() {
        let many = "{}\n".repeat(TASKS_MAX as usize);
        assert_eq!(check(&many, None).expect("a report").0.valid, TASKS_MAX);
        assert!(check(&(many + "{}"), None).unwrap_err().contains("10,000 lines"));
        assert!(check(&"x".repeat(LINES_BYTES + 1), None).unwrap_err().contains("8 MiB"));
        let large = format!("{{}}\n{{\"args\":{{\"x\":\"{}\"}}}}", "y".repeat(1_048_576));
        let (report, _) = check(&large, None).expect("a report");
        assert_eq!((report.valid, report.wrong.first[0].0), (1, 2));
        let (report, _) = check(&"x\n".repeat(5_000), None).expect("a report");
        assert_eq!((report.wrong.count, report.wrong.first.len(), report.wrong.more()), (5_000, ERRORS_SHOWN, 4_980));
    }
}
