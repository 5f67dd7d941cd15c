//! Creating and deleting queues.

use askama::Template;
use axum::body::Body;
use taskqueue_core::access::Scope;
use taskqueue_core::ids::QueueName;
use taskqueue_core::stats::RouteSelection;
use taskqueue_core::status::Status;
use taskqueue_store::StoreExt;
use taskqueue_store::command::{CreateQueue, DeleteQueue};

use crate::layout::{self, PageResult, Section, Shell};
use crate::problem::Problem;
use crate::shared_figures::all_tasks;
use crate::show;
use crate::visit::Visit;

#[derive(Template)]
#[template(path = "delete_queue.html")]
struct DeletePage {
    shell: Shell,
    queue: String,
    /// How many tasks go with it, in words; nothing if it has none.
    tasks: Option<String>,
    /// How many of them run, in words: then it cannot be deleted.
    running: Option<String>,
    workers: u64,
}

/// Creates a queue.
pub(crate) async fn create(visit: Visit, body: Body) -> PageResult {
    let form = visit.form(body).await?;
    let name = form.get("name").unwrap_or_default().trim();
    let Some(queue) = QueueName::parse(name) else {
        let advice = "Use 1 to 128 letters, digits, and - _ . between them; the first is a letter or a digit.";
        return Err(Problem::invalid("This cannot be the name of a queue", advice));
    };
    visit.check(Scope::Admin, &queue)?;
    let create = CreateQueue { queue: queue.clone(), retention: visit.dashboard.host.default_retention() };
    let created = visit.dashboard.store().write(create).await?;
    let notice = if created { format!("Queue {queue} created.") } else { format!("Queue {queue} was already there.") };
    Ok(layout::done(&visit, &format!("/ui/queues/{queue}/tasks"), &notice))
}

/// Asks whether a queue shall be deleted.
pub(crate) async fn confirm_delete(visit: Visit) -> PageResult {
    let queue = visit.queue_for(Scope::Admin)?;
    let figures = visit.dashboard.store().queue_stats(&queue, &RouteSelection::NONE).await?.figures;
    let (tasks, running) = (all_tasks(&figures), figures.tasks(Status::Running));
    let title = format!("Delete queue {queue}");
    let shell = Shell::new(&visit, title, Section::Overview, Some(&queue)).await?;
    let page = DeletePage {
        shell,
        queue: queue.as_str().to_owned(),
        tasks: (tasks > 0).then(|| show::count(tasks, "task")),
        running: (running > 0).then(|| show::count(running, "task")),
        workers: figures.workers().iter().sum(),
    };
    layout::page(&visit, &page)
}

/// Deletes a queue; with its tasks only if the form that was sent said that there are some.
pub(crate) async fn delete(visit: Visit, body: Body) -> PageResult {
    let form = visit.form(body).await?;
    let queue = visit.queue_for(Scope::Admin)?;
    let cascade = form.get("with_tasks") == Some("yes");
    if cascade && form.get("name").unwrap_or_default().trim() != queue.as_str() {
        let advice = "Nothing was deleted. Go back, and write the name of the queue exactly.";
        return Err(Problem::invalid("This is not the name of the queue", advice));
    }
    visit.dashboard.store().write(DeleteQueue { queue: queue.clone(), cascade }).await?;
    Ok(layout::done(&visit, "/ui/", &format!("Queue {queue} deleted.")))
}
