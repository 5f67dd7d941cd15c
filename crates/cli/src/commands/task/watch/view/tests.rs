//! Pages in, screens out.

use taskqueue_client::Status;

use super::*;
use crate::live::testing::{at_test_time, screen, task};

fn page(items: Vec<Task>) -> Page<Task> {
    Page { items, next_cursor: None }
}

fn view(pages: Vec<Page<Task>>) -> WatchView {
    let mut view = WatchView::new(QueueName::parse("default").unwrap(), None);
    pages.into_iter().for_each(|page| view.update(page, Instant::now()));
    view
}

fn shown(view: &WatchView, width: u16, height: u16) -> Vec<String> {
    at_test_time(Instant::now(), |context| screen(width, height, |frame| view.draw(frame, context)))
}

#[test]
fn the_table_is_that_of_task_list_with_a_footer() {
    let running = Task { status: Status::Running, name: Some("warm\u{1b}up".into()), attempt: 1, ..task(2) };
    let view = view(vec![Page { next_cursor: Some("c".to_owned()), ..page(vec![task(1), running]) }]);
    assert_eq!(
        shown(&view, 100, 5),
        [
            "ID              STATUS   NAME          PRIORITY  ATTEMPT  ROUTES   CREATED  UPDATED  ARGS",
            "t_000000000001  pending  -                    0      0/3  default  60s ago  60s ago  {}",
            r"t_000000000002  running  warm\u{1b}up         0      1/3  default  60s ago  60s ago  {}",
            "",
            "every 2s  2+ tasks in default  08:00:00 UTC  q leave  ? keys  space pause",
        ]
    );
}

#[test]
fn a_narrow_screen_shows_fewer_columns() {
    let view = view(vec![page(vec![task(1)])]);
    assert_eq!(
        shown(&view, 40, 3),
        [
            "ID              STATUS   NAME  UPDATED",
            "t_000000000001  pending  -     60s ago",
            "every 2s  1 task in default  08:00:00 UT",
        ]
    );
}

#[test]
fn what_changed_is_marked_for_one_refresh_and_the_first_refresh_marks_nothing() {
    let changed = Task { attempt: 1, ..task(2) };
    let first = page(vec![task(1), task(2)]);
    let second = page(vec![task(1), changed.clone(), task(3)]);
    assert!(view(vec![first.clone()]).changed.is_empty());
    assert_eq!(view(vec![first.clone(), second.clone()]).changed, HashSet::from([changed.id, task(3).id]));
    assert!(view(vec![first, second.clone(), second]).changed.is_empty());
}

#[test]
fn scrolling_ends_where_the_list_ends() {
    let mut view = view(vec![page((1..=9).map(task).collect())]);
    let first = |view: &WatchView| shown(view, 100, 5)[1].chars().take(14).collect::<String>();
    assert_eq!(first(&view), task(1).id.as_str());
    view.handle_key(Key::Down);
    assert_eq!(first(&view), task(2).id.as_str());
    (0..20).for_each(|_| view.handle_key(Key::Down));
    assert_eq!(first(&view), task(7).id.as_str());
    view.update(page(vec![task(1)]), Instant::now());
    assert_eq!(first(&view), task(1).id.as_str());
    view.handle_key(Key::Up);
    assert_eq!(view.scroll, 0);
}

#[test]
fn an_empty_list_says_so() {
    assert_eq!(shown(&view(vec![page(vec![])]), 40, 3)[0], "no tasks");
    assert_eq!(shown(&view(vec![]), 40, 3)[0], "connecting");
}
