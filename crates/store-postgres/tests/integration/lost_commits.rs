//! A connection that is lost inside `COMMIT`: the answer is what became of the transaction, or that nobody knows; never a
//! guess (I7, I8).

use taskqueue_store::conformance::prelude::*;
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::proxy::{Cut, Proxied};

/// The end of a test that hangs.
const HANG: Duration = Duration::from_secs(60);

/// On a server that nobody else uses: a database that is dropped forces a checkpoint, after which nobody can tell any more what became
/// of a transaction.
impl Proxied {
    /// Writes with the transaction cut so many times.
    async fn cut<C: Command>(&self, cut: Cut, marker: &str, times: usize, command: C) -> Result<C::Answer, StoreError> {
        let before = self.proxy.cuts();
        self.proxy.cut(cut, marker, times);
        let answer = self.store.write(command).await;
        assert!(self.proxy.cuts() > before, "nothing was cut");
        answer
    }

    async fn status(&self, id: &str) -> Option<(Status, i64)> {
        let task = self.store.get_task(&queue("q"), task_id(id)).await.ok()?;
        Some((task.lifecycle.status, task.lifecycle.attempt))
    }
}

/// Lets a task be created, claimed, printed for and completed with each transaction cut, all of which must succeed all the same.
async fn assert_all_succeed(cut: Cut) {
    let fixture = Proxied::alone().await;
    let created = fixture.cut(cut, "create1", 1, create("q", "create1", Definition::default())).await;
    assert!(matches!(created, Ok(CreatedTask { created: true, .. })), "{cut:?}: {created:?}");
    let claimed = fixture.cut(cut, "claim1", 1, claim("q", "default", "claim1")).await;
    assert!(matches!(claimed, Ok(Some(_))), "{cut:?}: {claimed:?}");
    assert_eq!(fixture.status("create1").await, Some((Status::Running, 1)), "{cut:?}");
    for (offset, text) in [(0, "first "), (6, "second "), (13, "third")] {
        let printed = fixture.cut(cut, "create1", 1, print("create1", "claim1", offset, text)).await;
        assert_eq!(printed, Ok(()), "{cut:?}");
    }
    let output = fixture.store.read_output(&queue("q"), task_id("create1"), 0, 1_000).await.unwrap();
    assert_eq!(output.text, "first second third", "{cut:?}: each of them once");
    let progressed = fixture.cut(cut, "create1", 1, progress("create1", "claim1", r#"{"step":1}"#)).await;
    assert_eq!(progressed, Ok(()), "{cut:?}");
    let completed = fixture.cut(cut, "create1", 1, complete("q", "create1", "claim1", object("{}"))).await;
    assert_eq!(completed, Ok(()), "{cut:?}");
    assert_eq!(fixture.status("create1").await, Some((Status::Succeeded, 1)), "{cut:?}");
    let counts = fixture.store.queue_stats(&queue("q"), &ALL_ROUTES).await.unwrap().last_hour;
    assert_eq!(numbers(&counts), [1, 1, 1, 0, 0, 0, 0], "{cut:?}: each of them once");
    fixture.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_committed_is_acknowledged_although_the_answer_was_lost() {
    assert_all_succeed(Cut::AfterCommit).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_not_committed_is_done_again_once() {
    assert_all_succeed(Cut::BeforeCommit).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_that_an_administrator_ended_after_it_was_done_is_acknowledged() {
    assert_all_succeed(Cut::EndedAfterCommit).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_that_an_administrator_ended_before_it_was_done_is_done_again_once() {
    assert_all_succeed(Cut::EndedBeforeCommit).await;
}

/// A commit that is done is acknowledged, or answered as unknown.
async fn assert_nobody_guesses(lost: Cut) {
    let fixture = Proxied::alone().await;
    for round in 0..5 {
        let name = format!("create{round}");
        let answer = fixture.cut(lost, &name, 1, create("q", &name, Definition::default())).await;
        let true_or_unknown = matches!(answer, Ok(CreatedTask { created: true, .. }) | Err(StoreError::OutcomeUnknown));
        assert!(true_or_unknown, "{answer:?}");
        assert_eq!(fixture.status(&name).await, Some((Status::Pending, 0)));
    }
    fixture.end().await;
}

/// What a pooler says of its own end says nothing about what it passed on before.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_guesses_when_a_pooler_ends_while_a_commit_is_under_way() {
    assert_nobody_guesses(Cut::PoolerEnded).await;
}

/// `COMMIT` of a transaction that failed is no error: it says `ROLLBACK`.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_transaction_whose_last_question_failed_is_not_acknowledged() {
    let fixture = Proxied::alone().await;
    let before = fixture.proxy.cuts();
    // Either writer has prepared the question when it asks for the third time.
    for round in 0..5 {
        let name = format!("create{round}");
        fixture.proxy.cut(Cut::Forgets, &name, 1);
        let answer = fixture.store.write(create("q", &name, Definition::default())).await;
        assert_eq!(fixture.status(&name).await.is_some(), answer.is_ok(), "{answer:?}");
        assert!(matches!(answer, Ok(CreatedTask { created: true, .. })), "{answer:?}");
    }
    assert!(fixture.proxy.cuts() > before, "nothing was cut");
    fixture.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_undone_twice_is_unavailable_and_not_kept() {
    let fixture = Proxied::alone().await;
    let answer = fixture.cut(Cut::BeforeCommit, "create1", 2, create("q", "create1", Definition::default())).await;
    assert_eq!(answer, Err(StoreError::Unavailable));
    assert_eq!(fixture.status("create1").await, None);
    // It would be answered busy if it took 5 seconds.
    fixture.store.write(create("q", "create2", Definition::default())).await.unwrap();
    fixture.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_guesses_when_the_name_of_the_transaction_was_lost_too() {
    assert_nobody_guesses(Cut::AfterCommitWithEverything).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_guesses_when_the_database_cannot_be_asked() {
    let fixture = Proxied::alone().await;
    fixture.proxy.close_after_cut();
    // While nobody can be asked: nobody waits until that is so.
    let cut = fixture.cut(Cut::AfterCommit, "create1", 1, create("q", "create1", Definition::default()));
    assert_eq!(timeout(HANG, cut).await.expect("an answer"), Err(StoreError::OutcomeUnknown));
    fixture.proxy.reopen();
    let healed = async { while fixture.store.write(create("q", "create2", Definition::default())).await.is_err() {} };
    timeout(HANG, healed).await.expect("it heals");
    let replay = fixture.store.write(create("q", "create1", Definition::default())).await;
    assert!(matches!(replay, Ok(CreatedTask { created: false, .. })), "{replay:?}");
    fixture.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_answer_of_a_batch_is_true() {
    let fixture = Proxied::alone().await;
    for (round, cut) in [Cut::AfterCommit, Cut::BeforeCommit, Cut::AfterCommitWithEverything].into_iter().enumerate() {
        fixture.proxy.cut(cut, &format!("{round}x15"), 1);
        let mut writes = JoinSet::new();
        for n in 0..30 {
            let (store, name) = (Arc::clone(&fixture.store), format!("{round}x{n}"));
            writes.spawn(async move { (store.write(create("q", &name, Definition::default())).await, name) });
        }
        for (answer, name) in writes.join_all().await {
            let kept = fixture.status(&name).await.is_some();
            match answer {
                Ok(CreatedTask { created: true, .. }) => assert!(kept, "{cut:?} {name}"),
                Err(StoreError::OutcomeUnknown) if cut == Cut::AfterCommitWithEverything => assert!(kept, "{name}"),
                other => panic!("{cut:?} {name}: {other:?}"),
            }
        }
    }
    assert_eq!(fixture.proxy.cuts(), 3);
    fixture.end().await;
}
