//! Lists: eleven orders in two directions, pages, selections and cursors, against a plain sort of everything (I20, I21).

use taskqueue_core::cursor::OrderValue;

use super::page_reader;
use super::prelude::*;

/// Tasks with nulls and ties in every field, created in an order that is no other order.
async fn populate(fixture: &Fixture) {
    let names = [None, Some(""), Some("b"), Some("B"), Some("é"), Some("e\u{301}"), Some("b"), Some("😀"), None];
    for number in 0..45_i64 {
        if number % 3 == 0 {
            fixture.clock.advance_micros(1);
        }
        let name = names[usize::try_from(number).unwrap() % names.len()];
        let definition = Definition {
            name: name.map(Into::into),
            priority: number % 4 - 2,
            max_attempts: number % 3 + 1,
            routes: if number % 2 == 0 { routes(&["a"]) } else { routes(&["B", "a"]) },
            args: object(&format!(r#"{{"n":{number}}}"#)),
            ..Definition::default()
        };
        fixture.create(format!("x{:02}", number * 17 % 45), definition).await;
    }
    for run in 0..20 {
        fixture.clock.advance_micros(run % 2);
        let route = if run % 3 == 0 { "B" } else { "a" };
        let task = fixture.claimed(claim("q", route, run)).await.unwrap().task;
        let id = &task.id.as_str()[2..];
        match run % 5 {
            0 => fixture.ok(complete("q", id, run, object(r#"{"done":true}"#))).await,
            1 => fixture.ok(fail("q", id, run)).await,
            2 => fixture.ok(unclaim("q", id, run)).await,
            3 => drop(fixture.ok(cancel("q", id)).await),
            _ => {}
        }
    }
}

/// The order as the contract says it: by value, then by id, both in the direction; nulls last in either.
fn sorted(tasks: Vec<Task>, order: TaskOrder) -> Vec<Task> {
    let value = |task: &Task| order.field.value_of(&task.view()).into_owned();
    let (mut nulls, mut rest): (Vec<Task>, Vec<Task>) =
        tasks.into_iter().partition(|task| value(task) == OrderValue::Null);
    nulls.sort_by_key(|task| task.id);
    rest.sort_by_key(|task| (value(task), task.id));
    if order.descending {
        nulls.reverse();
        rest.reverse();
    }
    rest.extend(nulls);
    rest
}

pub async fn every_order_and_direction_equals_a_plain_sort_at_every_limit(fixture: Fixture) {
    populate(&fixture).await;
    let everything = fixture.walk("q", &all(), BY_ID, 1000).await;
    assert_eq!(everything.len(), 45);
    for field in OrderField::ALL {
        for descending in [false, true] {
            let order = TaskOrder { field, descending };
            let expected = sorted(everything.clone(), order);
            for limit in [1, 7, 44, 45, 46] {
                assert_eq!(fixture.walk("q", &all(), order, limit).await, expected, "{order:?} {limit}");
            }
            let page = fixture.page("q", &all(), order, 45, None).await;
            assert_eq!(page.next, None, "a page that ends exactly at the last task is the last one");
        }
    }
}

/// However a backend finds the tasks of a few states: pages and counts are those of a look at every task.
pub async fn selections_select_what_they_say(fixture: Fixture) {
    populate(&fixture).await;
    let everything = fixture.walk("q", &all(), BY_ID, 1000).await;
    let name = |name: &str| TaskSelection { name: Some(name.to_owned()), ..TaskSelection::default() };
    let mut selections: Vec<TaskSelection> = Status::ALL.map(of_status).to_vec();
    selections.extend([name(""), name("b"), name("é"), name("nobody"), fuzzy(""), fuzzy(" "), fuzzy("B"), fuzzy("é")]);
    selections.extend([
        filtered("priority >= 0 and 'B' in routes"),
        filtered("args.n < 10 or result.done == true"),
        filtered("last_error.attempt == 1"),
        filtered("name == None"),
        filtered("missing(id)"),
        TaskSelection { status: Some(Status::Pending), ..name("b") },
        TaskSelection { filter: Some(task_filter("priority != 0")), ..fuzzy("b") },
        TaskSelection { name: Some("B".to_owned()), status: Some(Status::Cancelled), ..fuzzy("b") },
    ]);
    let general = selections.len();
    let few_states = [
        "status in ['failed', 'cancelled']",
        "status in ['running', 'failed']",
        "not (status == 'pending' or status == 'succeeded')",
        "status == 'failed' and status == 'running'",
    ];
    let states = Status::ALL.map(|status| format!("status == '{}'", status.as_str()));
    for filter in states.iter().map(String::as_str).chain(few_states) {
        let further = ["", " and args.n >= 9", " and (args.n < 20 or priority > 0)"];
        selections.extend(further.map(|more| filtered(&format!("{filter}{more}"))));
    }
    let fields =
        [OrderField::CreatedAt, OrderField::Id, OrderField::Priority, OrderField::Name, OrderField::FinishedAt];
    for (n, selection) in selections.into_iter().enumerate() {
        let matching = everything.iter().filter(|task| selection.matches(&task.view())).cloned();
        let matching: Vec<Task> = matching.collect();
        assert_eq!(fixture.count(selection.clone()).await, matching.len() as u64, "{selection:?}");
        // Each of them one way; the next selection the other way.
        for (of, field) in fields.into_iter().enumerate() {
            let order = TaskOrder { field, descending: (n + of) % 2 == 0 };
            let expected = sorted(matching.clone(), order);
            // Some pages, however many match. What is one page is the same as the first of several: not in every case.
            let few = u16::try_from(matching.len().div_ceil(5)).unwrap().max(3);
            for limit in if n < general { vec![few, 1000] } else { vec![few] } {
                assert_eq!(fixture.walk("q", &selection, order, limit).await, expected, "{selection:?} {order:?}");
            }
        }
    }
}

pub async fn a_page_is_as_small_as_its_asker_has_room_for_but_never_empty(fixture: Fixture) {
    // Half of them are large by their definition, half by their result.
    for id in 0..6 {
        let large = object_of_bytes(if id == 4 { 100 } else { 100_000 });
        let (args, result) = if id % 2 == 0 { (large, object("{}")) } else { (object("{}"), large) };
        fixture.create(id, Definition { args, ..Definition::default() }).await;
        fixture.ok(update("q", id, Update { result: Some(result), ..Update::default() })).await;
    }
    for field in [OrderField::CreatedAt, OrderField::Id, OrderField::Priority] {
        for selection in [all(), filtered("args.a == 'no' or not (args.a == 'no')")] {
            for (max_bytes, expected) in [(0, vec![1; 6]), (150_000, vec![1, 1, 1, 2, 1]), (250_000, vec![2, 3, 1])] {
                let (selection, order) = (selection.clone(), TaskOrder { field, descending: false });
                let query = TaskQuery { selection, order, limit: 1000, after: None, max_bytes };
                let pages = page_reader::pages(&*fixture.store, &queue("q"), query.clone()).await.unwrap();
                assert_eq!(pages.iter().map(Vec::len).collect::<Vec<_>>(), expected, "{query:?}");
            }
        }
    }
}

pub async fn a_cursor_is_a_position_and_not_a_row(fixture: Fixture) {
    for id in 0..6 {
        fixture.clock.advance_seconds(1);
        fixture.create(id, with_priority(id)).await;
    }
    let ids = |tasks: Vec<Task>| tasks.into_iter().map(|task| task.definition.priority).collect::<Vec<_>>();
    for field in [OrderField::CreatedAt, OrderField::Id, OrderField::Priority] {
        let order = TaskOrder { field, descending: false };
        let first = fixture.page("q", &all(), order, 2, None).await;
        let after = first.next.clone();
        let again = fixture.page("q", &all(), order, 2, after.clone()).await;
        assert_eq!(ids(again.items), [2, 3]);
        let longer = fixture.page("q", &all(), order, 9, after).await;
        assert_eq!(ids(longer.items), [2, 3, 4, 5], "a cursor is not bound to the limit");
    }
    let order = TaskOrder { field: OrderField::CreatedAt, descending: false };
    let first = fixture.page("q", &all(), order, 3, None).await;
    fixture.ok(delete("q", 2)).await;
    fixture.ok(delete("q", 4)).await;
    fixture.create("new", with_priority(9)).await;
    let rest = fixture.page("q", &all(), order, 9, first.next).await;
    assert_eq!((ids(rest.items), rest.next), (vec![3, 5, 9], None));
}

pub async fn positions_of_other_queues_and_shapes_are_refused(fixture: Fixture) {
    fixture.ok(create_queue("other")).await;
    for id in 0..3 {
        fixture.create(id, Definition::default()).await;
        fixture.ok(create("other", id, Definition::default())).await;
    }
    let order = TaskOrder::default();
    let good = fixture.page("q", &all(), order, 1, None).await.next.unwrap();
    let ask = async |in_queue: &str, after: Position| {
        let query = TaskQuery { selection: all(), order, limit: 1, after: Some(after), max_bytes: PAGE_BYTES };
        page_reader::list(&*fixture.store, &queue(in_queue), query).await
    };
    let invalid = StoreError::Refused(Refusal::InvalidCursor);
    assert!(ask("q", good.clone()).await.is_ok());
    assert_eq!(ask("other", good.clone()).await.unwrap_err(), invalid);
    let text = |text: &str| OrderValue::Text(text.to_owned().into());
    for values in [
        vec![],
        vec![OrderValue::Int(1)],
        vec![OrderValue::Int(1), OrderValue::Int(1)],
        vec![OrderValue::Int(1), text("no id")],
        vec![OrderValue::Int(1), text("t_000000000001"), OrderValue::Null],
    ] {
        assert_eq!(ask("q", Position { values, ..good.clone() }).await.unwrap_err(), invalid);
    }
}
