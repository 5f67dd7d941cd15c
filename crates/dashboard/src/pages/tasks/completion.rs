//! What the filter field asks for while somebody types: whether the filter can be read, and which fields there are. Both are small
//! answers in JSON for our own script.

use axum::response::Response;
use taskqueue_core::fields::{Kind, filterable_fields};
use taskqueue_core::json::{ObjectWriter, write_array, write_string};
use taskqueue_core::{TaskOrder, TaskQuery, TaskSelection};
use taskqueue_store::StoreExt;

use super::rows;
use crate::answer;
use crate::columns::is_for_filters;
use crate::layout::PageResult;
use crate::selected::{FilterMark, Selectors};
use crate::visit::Visit;

/// The newest tasks that are looked at for fields.
const NEWEST: u16 = 100;
/// Fields that are told at most.
const MOST_FIELDS: usize = 500;
/// What most workers say of themselves.
const HOST: &str = "last_run.worker.host";

/// Returns whether a filter can be read, and if not, where and why.
pub(crate) async fn check(visit: Visit) -> PageResult {
    visit.queue()?;
    let filter = visit.query.get("filter").unwrap_or_default().to_owned();
    let selectors =
        Selectors { filter: Some(filter.clone()).filter(|text| !text.trim().is_empty()), ..Selectors::default() };
    let answer = match selectors.in_turn(&visit.dashboard, |selectors| selectors.selection()).await? {
        Ok(_) => ObjectWriter::new().boolean("ok", true),
        Err(error) => {
            let mark = FilterMark::new(&filter, &error);
            ObjectWriter::new()
                .boolean("ok", false)
                .integer("column", error.column.unwrap_or(0) as u64)
                .text_or_null("around", mark.around.as_deref())
                .text("blanks", &mark.blanks)
                .text("message", &mark.message)
        }
    };
    Ok(json(answer.end()))
}

/// The fields that filters can ask for: those of every task, and those that occur in the newest ones.
pub(crate) async fn fields(visit: Visit) -> PageResult {
    let queue = visit.queue()?;
    let (selection, order) = (TaskSelection::default(), TaskOrder::default());
    let query = TaskQuery { selection, order, limit: NEWEST, after: None, max_bytes: rows::MOST_BYTES };
    let tasks = visit.dashboard.store().list_rows(&queue, query, rows::row_reader(Vec::new())).await?;
    let seen = rows::paths_seen(&tasks.items);
    let occurring = seen.paths().into_iter().filter(|path| is_for_filters(path));
    let fields: Vec<&str> = occurring.take(MOST_FIELDS).chain(fields_of_every_task()).collect();
    let answer =
        ObjectWriter::new().field("fields", |out| write_array(out, &fields, |out, field| write_string(out, field)));
    Ok(json(answer.end()))
}

/// Returns what a filter can ask for in every task. Of documents only their members can be asked for.
fn fields_of_every_task() -> Vec<&'static str> {
    filterable_fields().filter(|field| field.kind != Kind::Document).map(|field| field.path).chain([HOST]).collect()
}

fn json(body: Vec<u8>) -> Response {
    answer::file(body, "application/json", "inline")
}

#[cfg(test)]
mod tests {
    use taskqueue_core::filter::TaskFilter;

    use super::*;

    #[test]
    fn every_field_that_is_offered_can_be_asked_for() {
        for field in fields_of_every_task() {
            assert!(TaskFilter::parse(&format!("exists({field})")).is_ok(), "{field}");
        }
    }
}
