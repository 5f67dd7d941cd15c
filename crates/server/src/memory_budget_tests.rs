//! What a reservation holds, for how long, and what is left for the others.

use super::*;

const MIB: usize = 1_048_576;

fn budgets(answers_bytes: usize) -> Budgets {
    Budgets::new(&MemoryPlan { answers_bytes, ..MemoryPlan::within(0) })
}

#[tokio::test]
async fn an_answer_holds_its_size_until_its_last_slice_is_dropped() {
    let budget = Budget::new(20 * MIB);
    let reservation = budget.reserve(16 * MIB).await.unwrap();
    assert_eq!(budget.free_bytes(), 4 * MIB);
    let mut answer = reservation.attach_to(vec![b'x'; 2 * MIB]);
    assert_eq!(budget.free_bytes(), 18 * MIB);
    let first = answer.split_to(MIB);
    drop(answer);
    assert_eq!(budget.free_bytes(), 18 * MIB);
    assert_eq!(first.len(), MIB);
    drop(first);
    assert_eq!(budget.free_bytes(), 20 * MIB);
}

#[tokio::test(start_paused = true)]
async fn a_reservation_of_a_body_is_made_as_large_as_its_items() {
    let budget = Budget::new(4 * MIB);
    let mut reservation = Some(budget.reserve(2 * MIB).await.unwrap());
    for (bytes, free) in [(MIB, 3 * MIB), (3 * MIB, MIB), (SMALL_BODY_BYTES, 4 * MIB), (2 * MIB, 2 * MIB)] {
        budget.resize(&mut reservation, bytes).await.unwrap();
        assert_eq!(budget.free_bytes(), free, "{bytes}");
    }
    let _other = budget.reserve(MIB).await.unwrap();
    assert!(budget.resize(&mut reservation, 4 * MIB).await.is_err(), "there is no room for more");
}

#[tokio::test]
async fn a_small_answer_holds_nothing() {
    let budget = Budget::new(20 * MIB);
    let answer = budget.reserve(16 * MIB).await.unwrap().attach_to(vec![b'x'; SMALL_ANSWER_BYTES]);
    assert_eq!((budget.free_bytes(), answer.len()), (20 * MIB, SMALL_ANSWER_BYTES));
    let counted = budget.reserve(MIB).await.unwrap().attach_to(vec![b'x'; SMALL_ANSWER_BYTES + 1]);
    assert!(budget.free_bytes() < 20 * MIB);
    drop(counted);
}

#[tokio::test(start_paused = true)]
async fn who_finds_no_room_waits_for_it_but_not_for_ever() {
    let budget = Budget::new(4 * MIB);
    let reservation = budget.reserve(3 * MIB).await.unwrap();
    assert!(budget.reserve(2 * MIB).await.is_err());
    let (taken, ()) = tokio::join!(budget.reserve(2 * MIB), async { drop(reservation) });
    assert!(taken.is_ok());
}

#[tokio::test]
async fn more_than_everything_is_everything() {
    let budget = Budget::new(MIB);
    let reservation = budget.reserve(16 * MIB).await.unwrap();
    assert_eq!(budget.free_bytes(), 0);
    drop(reservation.attach_to(vec![0; 2 * MIB]));
    assert_eq!(budget.free_bytes(), MIB);
}

#[tokio::test]
async fn pages_become_smaller_as_room_becomes_scarce_and_never_smaller_than_a_task() {
    // Three quarters are for pages.
    let budgets = budgets(64 * MIB / 3 * 4);
    let mut held = Vec::new();
    for _ in 0..6 {
        let room = budgets.reserve_page(16 * MIB).await.unwrap();
        assert!(room.answer.bytes() >= TASK_BYTES);
        held.push(room);
    }
    let sizes: Vec<usize> = held.iter().map(|room| room.answer.bytes() / MIB).collect();
    assert!(sizes.is_sorted_by(|a, b| a >= b), "{sizes:?}");
    assert_eq!((sizes[0], sizes[3], sizes[5]), (16, 9, 2), "{sizes:?}");
}

#[tokio::test]
async fn a_page_of_one_task_takes_room_for_one_task() {
    let budgets = budgets(64 * MIB);
    let room = budgets.reserve_page(TASK_BYTES).await.unwrap();
    assert_eq!((room.part.bytes(), room.answer.bytes()), (TASK_BYTES, TASK_BYTES));
}

#[tokio::test]
async fn a_share_grows_to_what_is_needed_and_no_further_than_everything() {
    let budget = Budget::new(4 * MIB);
    let mut reservation = budget.reserve(MIB).await.unwrap();
    budget.grow(&mut reservation, MIB / 2).await.unwrap();
    assert_eq!(reservation.bytes(), MIB);
    budget.grow(&mut reservation, 3 * MIB).await.unwrap();
    assert_eq!((reservation.bytes(), budget.free_bytes()), (3 * MIB, MIB));
    budget.grow(&mut reservation, 9 * MIB).await.unwrap();
    assert_eq!((reservation.bytes(), budget.free_bytes()), (4 * MIB, 0));
}

#[test]
fn scarcity_rises_by_one_each_time_that_what_is_free_has_halved() {
    let free = [1000, 500, 260, 250, 126, 125, 62, 31, 15, 7, 3, 1, 0];
    for (free, expected) in free.into_iter().zip([0, 0, 0, 1, 1, 2, 3, 4, 5, 6, 7, 7, 7]) {
        assert_eq!(scarcity(free, 1000), expected, "{free} of 1000 are free");
    }
    assert_eq!(scarcity(0, 0), SCARCITY_MAX);
}

#[tokio::test(start_paused = true)]
async fn those_who_take_answers_need_not_hurry_because_of_what_is_only_reserved() {
    let budget = Budget::new(16 * MIB);
    let reserved = budget.reserve(16 * MIB).await.unwrap();
    assert_eq!((budget.scarcity(), budget.sending_scarcity()), (7, 0));
    let sent = reserved.attach_to(vec![b'x'; 15 * MIB]);
    assert_eq!(budget.sending_scarcity(), 3, "a sixteenth is left");
    drop(sent);
    assert_eq!((budget.scarcity(), budget.sending_scarcity()), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn those_who_hold_a_part_and_want_more_do_not_wait_long_for_each_other() {
    let budget = Budget::new(4 * MIB);
    let (mut one, mut other) = (budget.reserve(2 * MIB).await.unwrap(), budget.reserve(2 * MIB).await.unwrap());
    let begun = tokio::time::Instant::now();
    let (first, second) = tokio::join!(budget.grow(&mut one, 4 * MIB), budget.grow(&mut other, 4 * MIB));
    assert!(first.is_err() && second.is_err());
    assert!(begun.elapsed() < Duration::from_secs(1), "{:?}", begun.elapsed());
}

#[tokio::test(start_paused = true)]
async fn however_many_reads_or_batches_of_claims_there_are_there_is_room_for_a_task_at_once() {
    for kinds in [vec!["list"], vec!["output"], vec!["shown"], vec!["list", "output", "shown"], vec!["claims"]] {
        let (budgets, mut readers) = (Arc::new(budgets(64 * MIB)), tokio::task::JoinSet::new());
        for kind in kinds.iter().copied().cycle().take(100) {
            let budgets = Arc::clone(&budgets);
            readers.spawn(async move {
                let _room = match kind {
                    "list" => budgets.reserve_page(16 * MIB).await,
                    "output" => budgets.reserve_output(MIB).await,
                    "claims" => budgets.reserve_claims(TASK_BYTES, 16 * MIB).await,
                    _ => budgets.reserve_read(4 * MIB).await,
                };
                std::future::pending::<()>().await
            });
        }
        let part = if kinds == ["claims"] { &budgets.claims } else { &budgets.reads };
        while part.free_bytes() >= TASK_BYTES {
            tokio::task::yield_now().await;
        }
        assert!(budgets.answers.free_bytes() < 40 * MIB, "some of {kinds:?} have room");
        let begun = tokio::time::Instant::now();
        assert!(budgets.reserve_task().await.is_ok());
        assert_eq!(begun.elapsed(), Duration::ZERO, "{kinds:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn who_reads_output_waits_for_its_turn_and_for_room_no_longer_than_others_for_room() {
    let budgets = budgets(4 * MIB);
    let AnswerRoom { part: turn, answer: _room } = budgets.reserve_output(MIB).await.unwrap();
    let _rest = budgets.answers.reserve(budgets.answers.free_bytes()).await.unwrap();
    let begun = tokio::time::Instant::now();
    let (second, ()) = tokio::join!(budgets.reserve_output(MIB), async {
        let _ = tokio::time::timeout(Duration::from_secs(4), std::future::pending::<()>()).await;
        drop(turn);
    });
    assert!(second.is_err());
    assert_eq!(begun.elapsed().as_secs(), 5);
}
