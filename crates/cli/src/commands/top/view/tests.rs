//! Keys and snapshots in, queries and selections out.

use taskqueue_client::{Group, Health};

use super::*;
use crate::commands::top::snapshot::{Counts, Rows};
use crate::live::testing::task;

fn name(text: &str) -> QueueName {
    QueueName::parse(text).unwrap()
}

/// A snapshot of queues with these numbers of pending tasks, without detail.
fn snapshot(queues: &[(&str, u64)]) -> Snapshot {
    let queue = |(queue, pending): &(&str, u64)| {
        let groups = [Group { key: vec!["pending".to_owned()], count: *pending }];
        QueueCounts { name: name(queue), counts: Counts::of(&groups), has_workers: true, settings: None }
    };
    Snapshot {
        health: Health { is_ok: true, api_version: "2".to_owned() },
        version: None,
        queues: queues.iter().map(queue).collect(),
        queues_left_out: 0,
        detail: None,
        output: None,
    }
}

fn view(queues: &[&str]) -> TopView {
    let mut view = TopView::new("http://x".to_owned(), name("default"));
    let queues: Vec<(&str, u64)> = queues.iter().map(|queue| (*queue, 1)).collect();
    view.update(snapshot(&queues), Instant::now());
    view
}

fn queried(view: &TopView) -> Option<String> {
    view.query().queue.map(|queue| queue.to_string())
}

#[test]
fn nothing_is_asked_of_a_queue_before_it_is_known_to_exist() {
    let view = TopView::new("http://x".to_owned(), name("default"));
    assert_eq!(queried(&view), None);
}

#[test]
fn the_view_begins_with_the_configured_queue_or_else_the_first() {
    assert_eq!(queried(&view(&["a", "default", "z"])).as_deref(), Some("default"));
    assert_eq!(queried(&view(&["a", "z"])).as_deref(), Some("a"));
    assert_eq!(queried(&view(&[])), None);
}

#[test]
fn keys_select_queues_and_stop_at_the_ends() {
    let mut view = view(&["a", "b", "c"]);
    let mut after = |key| {
        view.handle_key(key);
        queried(&view).unwrap()
    };
    assert_eq!([Key::Down, Key::Down, Key::Down, Key::Up].map(&mut after), ["b", "c", "c", "b"]);
    assert_eq!([Key::Up, Key::Up].map(&mut after), ["a", "a"]);
}

#[test]
fn a_selection_follows_its_queue_and_goes_to_the_neighbour_of_one_that_is_gone() {
    let mut view = view(&["a", "b", "c"]);
    view.handle_key(Key::Down);
    view.update(snapshot(&[("a", 1), ("aa", 1), ("b", 1), ("c", 1)]), Instant::now());
    assert_eq!(queried(&view).as_deref(), Some("b"));
    view.update(snapshot(&[("a", 1), ("aa", 1), ("c", 1)]), Instant::now());
    assert_eq!(queried(&view).as_deref(), Some("c"));
    view.update(snapshot(&[]), Instant::now());
    assert_eq!(queried(&view), None);
    assert!(view.histories.is_empty());
}

#[test]
fn tab_goes_through_the_panes_both_ways() {
    let mut view = view(&["a"]);
    view.handle_key(Key::NextPane);
    assert_eq!(view.query().pane, Pane::Running);
    view.handle_key(Key::PreviousPane);
    view.handle_key(Key::PreviousPane);
    assert_eq!(view.query().pane, Pane::Failed);
}

#[test]
fn details_of_another_queue_or_pane_are_not_shown() {
    let mut view = view(&["a", "b"]);
    let detail = Detail { queue: name("a"), rows: Rows::Routes(vec![]) };
    view.update(Snapshot { detail: Some(detail), ..snapshot(&[("a", 1), ("b", 1)]) }, Instant::now());
    assert!(view.detail().is_some());
    view.handle_key(Key::NextPane);
    assert!(view.detail().is_none());
    view.handle_key(Key::PreviousPane);
    view.handle_key(Key::Down);
    assert!(view.detail().is_none());
}

/// A view of the running tasks with these numbers.
fn running(numbers: &[u64]) -> TopView {
    let mut view = view(&["default", "other"]);
    view.pane = Pane::Running;
    view.update(with_rows(numbers), Instant::now());
    view
}

fn with_rows(numbers: &[u64]) -> Snapshot {
    let rows = Rows::Running(numbers.iter().map(|number| task(*number)).collect());
    Snapshot { detail: Some(Detail { queue: name("default"), rows }), ..snapshot(&[("default", 1), ("other", 1)]) }
}

fn press(view: &mut TopView, keys: &[Key]) {
    keys.iter().for_each(|key| view.handle_key(*key));
}

#[test]
fn a_task_is_chosen_then_opened_and_closed_in_the_same_steps() {
    let mut view = running(&[1, 2, 3]);
    press(&mut view, &[Key::Open, Key::Down, Key::Down, Key::Down, Key::Up]);
    assert_eq!(view.marked_row(), Some(1));
    assert_eq!(queried(&view).as_deref(), Some("default"), "the keys move the mark and not the queue");
    assert_eq!(view.query().output, None);
    press(&mut view, &[Key::Open]);
    assert_eq!(view.query().output, Some((name("default"), task(2).id)));
    press(&mut view, &[Key::Open, Key::Down, Key::NextPane]);
    assert_eq!(view.query().output, Some((name("default"), task(2).id)), "nothing changes behind it");
    assert!(view.go_back() && view.query().output.is_none());
    assert_eq!(view.marked_row(), Some(1));
    assert!(view.go_back() && view.marked_row().is_none());
    assert!(!view.go_back(), "now the key leaves the view");
}

#[test]
fn the_mark_stays_on_its_task_and_goes_to_the_next_when_that_is_gone() {
    let mut view = running(&[1, 2, 3]);
    press(&mut view, &[Key::Open, Key::Down]);
    view.update(with_rows(&[7, 8, 1, 2]), Instant::now());
    assert_eq!(view.marked_row(), Some(3));
    view.update(with_rows(&[7, 8]), Instant::now());
    assert_eq!(view.marked_row(), Some(1));
    view.update(with_rows(&[]), Instant::now());
    assert_eq!(view.marked_row(), None);
    press(&mut view, &[Key::Open]);
    assert_eq!((view.marked_row(), view.query().output), (None, None), "there is nothing to choose");
    press(&mut view, &[Key::NextPane, Key::Open]);
    assert_eq!(view.query().output, None);
}
