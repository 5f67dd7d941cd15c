//! Everything that matches as a file: CSV of the columns of the view, or the task objects of the API as JSON Lines. It is read page
//! by page while it is sent, so it takes the memory of one page, and ends with the client.

use std::io;
use std::sync::Arc;

use axum::body::Body;
use bytes::Bytes;
use futures_util::stream;
use taskqueue_api::task::Task;
use taskqueue_core::cursor::Position;
use taskqueue_core::{OrderField, QueueName, TaskOrder, TaskQuery, TaskSelection, TaskView, csv};
use taskqueue_store::page::WriteTask;
use taskqueue_store::{StoreError, StoreExt};
use tokio::sync::OwnedSemaphorePermit;

use super::view::View;
use crate::columns::{Column, Value};
use crate::layout::PageResult;
use crate::problem::Problem;
use crate::state::Dashboard;
use crate::visit::Visit;
use crate::{answer, show};

/// Tasks that are read at once.
const AT_ONCE: u16 = 1_000;
/// Their bytes, one task aside.
const BYTES_AT_ONCE: usize = 1_048_576;
/// The columns of a file for which none were chosen.
const COLUMNS: [&str; 7] = ["id", "status", "name", "args", "result", "attempt", "created_at"];

/// The file.
pub(crate) async fn download(visit: Visit) -> PageResult {
    let queue = visit.queue()?;
    let view = View::read(&queue, &visit.query);
    let columns = view.columns.unwrap_or_else(|| COLUMNS.into_iter().filter_map(Column::parse).collect());
    let (kind, ending, beginning, write) = match visit.query.get("format") {
        Some("csv") => {
            let beginning = head(&columns);
            let write: WriteTask = Arc::new(move |out, task| write_line(out, &columns, task));
            ("text/csv; charset=utf-8", "csv", beginning, write)
        }
        Some("jsonl") => ("application/jsonl", "jsonl", Vec::new(), Arc::new(write_json) as WriteTask),
        _ => return Err(Problem::invalid("There is no such format", "Choose csv or jsonl.")),
    };
    // Pages in another order would look at every task for each of them.
    let is_indexed = matches!(view.order.field, OrderField::CreatedAt | OrderField::Id);
    let order = if is_indexed { view.order } else { TaskOrder::default() };
    let selection = view.selectors.in_turn(&visit.dashboard, |selectors| selectors.selection()).await??;
    let (permit, dashboard) = (visit.dashboard.download()?, visit.dashboard);
    let date: String = show::now().to_string().chars().take(10).collect();
    let disposition = format!("attachment; filename=\"{queue}-tasks-{date}.{ending}\"");
    let mut pages = Pages { dashboard, queue, selection, order, write, after: None, is_over: false, _permit: permit };
    // What cannot be read at all is a page that says so, and not a file that ends early.
    let first = [beginning, pages.next().await?].concat();
    let rest = stream::try_unfold(pages, |mut pages| async move {
        if pages.is_over {
            return Ok(None);
        }
        // The connection breaks, so that nobody takes a part for the whole.
        let bytes = pages.next().await.map_err(|error| io::Error::other(format!("{error:?}")))?;
        Ok::<_, io::Error>(Some((Bytes::from(bytes), pages)))
    });
    let first = stream::once(async { Ok(Bytes::from(first)) });
    Ok(answer::file(Body::from_stream(stream::StreamExt::chain(first, rest)), kind, &disposition))
}

/// The pages of a file. They are dropped when the client leaves, and the read that is under way with them.
struct Pages {
    dashboard: Arc<Dashboard>,
    queue: QueueName,
    selection: TaskSelection,
    order: TaskOrder,
    write: WriteTask,
    after: Option<Position>,
    is_over: bool,
    _permit: OwnedSemaphorePermit,
}

impl Pages {
    async fn next(&mut self) -> Result<Vec<u8>, StoreError> {
        let (selection, order, after) = (self.selection.clone(), self.order, self.after.take());
        let query = TaskQuery { selection, order, limit: AT_ONCE, after, max_bytes: BYTES_AT_ONCE };
        let page = self.dashboard.store().list_tasks(&self.queue, query, Arc::clone(&self.write)).await?;
        self.is_over = page.next.is_none();
        self.after = page.next;
        Ok(page.bytes)
    }
}

fn head(columns: &[Column]) -> Vec<u8> {
    let mut out = Vec::new();
    csv::write_line(&mut out, columns.iter().map(Column::path));
    out
}

fn write_json(out: &mut Vec<u8>, task: &TaskView<'_>) {
    Task::write(out, task);
    out.push(b'\n');
}

fn write_line(out: &mut Vec<u8>, columns: &[Column], task: &TaskView<'_>) {
    let field = |column: &Column| match column.value(task) {
        None => String::new(),
        Some(Value::Text(text)) => csv::text(&text).into_owned(),
        Some(value) => value.text().into_owned(),
    };
    csv::write_line(out, columns.iter().map(field));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::columns::tests::task;

    fn line(args: &str, paths: &[&str]) -> String {
        let columns: Vec<Column> = paths.iter().filter_map(|path| Column::parse(path)).collect();
        let mut out = head(&columns);
        write_line(&mut out, &columns, &task(args, "{}"));
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn numbers_stay_exact_and_no_text_becomes_a_formula() {
        let args = r#"{"a":"x,\"y\"\nz","big":9223372036854775807,"neg":-0.5,"none":null}"#;
        let expected = "args.a,args.big,args.neg,args.none,priority\n\"x,\"\"y\"\"\nz\",9223372036854775807,-0.5,,-5\n";
        assert_eq!(line(args, &["args.a", "args.big", "args.neg", "args.none", "priority"]), expected);
        assert_eq!(line(r#"{"a":"-x"}"#, &["args.a", "args.x"]), "args.a,args.x\n'-x,\n");
    }
}
