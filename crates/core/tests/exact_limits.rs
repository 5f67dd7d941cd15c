//! What decides at exactly a limit or only in a rare case: tests that mutants of the code survived without.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use taskqueue_core::cursor::{Binding, InvalidCursor, Place, Position, Resource};
use taskqueue_core::definition::Routes;
use taskqueue_core::ids::{QueueName, Route};
use taskqueue_core::limits::CURSOR_CHARS;

#[test]
fn a_cursor_of_exactly_the_longest_text_reads_back_and_a_longer_one_is_refused() {
    let binding = Binding::new(Resource::TaskList, &QueueName::parse("q").unwrap(), &[]);
    let position = |bytes: usize| Position { queue_key: 1, places: vec![Place::Text("x".repeat(bytes).into())] };
    // 3 bytes are 4 characters; a key, a kind, a length and a digest come with the text.
    let longest = CURSOR_CHARS / 4 * 3 - 8 - 1 - 4 - 16;
    let cursor = binding.encode(&position(longest));
    assert_eq!(cursor.len(), CURSOR_CHARS);
    assert_eq!(binding.decode(&cursor), Ok(position(longest)));
    let cursor = binding.encode(&position(longest + 1));
    assert_eq!(binding.decode(&cursor), Err(InvalidCursor));
}

#[test]
fn routes_read_back_from_what_is_stored() {
    let routes = Routes::new(["b", "a"].map(|route| Route::parse(route).unwrap()).to_vec()).unwrap();
    assert_eq!(Routes::from_json(routes.as_json()), routes);
}
