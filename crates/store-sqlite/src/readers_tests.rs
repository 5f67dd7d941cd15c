//! Which snapshot a read sees, when several wait for the same thread.

use std::future::poll_fn;
use std::path::Path;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::task::Poll;

use rusqlite::Connection;
use tokio::runtime::Builder;

use super::*;
use crate::{migrate, open, reads};

fn queues(file: &Snapshot<'_>) -> usize {
    reads::list_queue_keys(file).map_or(usize::MAX, |queues| queues.len())
}

fn add_queue(path: &Path, name: &str) {
    Connection::open(path).unwrap().execute("INSERT INTO queues (name) VALUES (?1)", [name]).unwrap();
}

fn readers(path: &Path) -> Readers {
    std::fs::File::create(path).unwrap();
    migrate::migrate(&mut open::writer(path).unwrap(), path).unwrap();
    Readers::start(&Arc::new(Ownership::take(path).unwrap()), 1).unwrap()
}

/// Puts a read into the queue.
async fn submit(mut read: Pin<&mut impl Future>) {
    assert!(poll_fn(|context| Poll::Ready(read.as_mut().poll(context).is_pending())).await);
}

#[test]
fn short_reads_that_wait_share_a_snapshot_which_is_not_older_than_they_are() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tasks.db");
    let readers = readers(&path);
    let runtime = Builder::new_current_thread().enable_time().build().unwrap();
    let (free, wait_until_free) = channel::<()>();
    let (begun, has_begun) = channel::<()>();
    let blocked = readers.read(Lane::Short, "waiting", move |file| {
        begun.send(()).unwrap();
        let before = queues(file);
        wait_until_free.recv().unwrap();
        Ok((before, queues(file)))
    });
    let written = path.clone();
    let first = readers.read(Lane::Short, "counting", move |file| {
        let before = queues(file);
        add_queue(&written, "b");
        Ok((before, queues(file)))
    });
    let second = readers.read(Lane::Short, "counting", |file| Ok(queues(file)));
    let answers = runtime.block_on(async {
        let (mut blocked, mut first, mut second) = (pin!(blocked), pin!(first), pin!(second));
        submit(blocked.as_mut()).await;
        has_begun.recv().unwrap();
        add_queue(&path, "a");
        submit(first.as_mut()).await;
        submit(second.as_mut()).await;
        free.send(()).unwrap();
        tokio::join!(blocked, first, second)
    });
    assert_eq!(answers.0, Ok((0, 0)), "a snapshot of one moment");
    assert_eq!(answers.1, Ok((1, 1)), "what was there when it was taken");
    assert_eq!(answers.2, Ok(1), "the same moment");
    let after = runtime.block_on(readers.read(Lane::Short, "counting", |file| Ok(queues(file))));
    assert_eq!(after, Ok(2), "asked for after the commit");
    readers.close();
}

#[test]
fn a_read_that_panics_takes_no_other_read_with_it() {
    let folder = tempfile::tempdir().unwrap();
    let readers = readers(&folder.path().join("tasks.db"));
    let runtime = Builder::new_current_thread().enable_time().build().unwrap();
    let panics =
        readers.read(Lane::Short, "panicking", |_: &Snapshot<'_>| -> Result<(), ReadError> { panic!("on purpose") });
    let others = readers.read(Lane::Short, "counting", |file| Ok(queues(file)));
    let answers = runtime.block_on(async { tokio::join!(panics, others) });
    assert_eq!(answers, (Err(StoreError::Unavailable), Ok(0)));
    assert_eq!(runtime.block_on(readers.read(Lane::Short, "counting", |file| Ok(queues(file)))), Ok(0));
    readers.close();
}
