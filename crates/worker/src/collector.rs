//! Collects what slots want to send at about the same time. There is no timer while the server answers: the next batch forms while
//! the last one is under way, as in the writers of the server. A slow answer delays nothing by more than 5 milliseconds.

use std::future::Future;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::task::yield_now;
use tokio::time::{Instant, timeout_at};

/// The longest time that something waits for others to be sent with it.
pub(crate) const LONGEST_DELAY: Duration = Duration::from_millis(5);

/// The end at which slots put what they want to send. There is never more in it than the slots of one worker have under way.
pub(crate) struct Collector<T>(mpsc::UnboundedSender<(Instant, T)>);

/// The other end of a [`Collector`].
pub(crate) struct Collected<T>(mpsc::UnboundedReceiver<(Instant, T)>);

pub(crate) fn collector<T>() -> (Collector<T>, Collected<T>) {
    let (sender, receiver) = mpsc::unbounded_channel();
    (Collector(sender), Collected(receiver))
}

impl<T> Collector<T> {
    pub(crate) fn push(&self, item: T) {
        // If nobody sends any more, the item is dropped, and whoever waits for its answer hears that.
        drop(self.0.send((Instant::now(), item)));
    }
}

impl<T> Collected<T> {
    /// Passes on what was collected, all that is there at once, until the collector is dropped. The future that `send` returns ends
    /// when the request is answered.
    pub(crate) async fn send_all<F>(mut self, send: impl Fn(Vec<T>) -> F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let mut latest = None;
        while let Some((pushed, first)) = self.0.recv().await {
            if let Some(latest) = &mut latest {
                drop(timeout_at(pushed + LONGEST_DELAY, latest).await);
            }
            // Whoever is ready at the same time comes along.
            yield_now().await;
            let mut items = vec![first];
            while let Ok((_, item)) = self.0.try_recv() {
                items.push(item);
            }
            latest = Some(tokio::spawn(send(items)));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use tokio::time::{advance, sleep_until};

    use super::*;

    /// The time of each request, and what was sent with it.
    type Requests = Vec<(u128, Vec<u32>)>;

    /// Sends with answers that take so long. Records what was sent together and after how many milliseconds.
    fn sending(answer_takes: Duration) -> (Collector<u32>, Arc<Mutex<Requests>>) {
        let (collector, collected) = collector();
        let (sent, begin) = (Arc::new(Mutex::new(Vec::new())), Instant::now());
        let record = Arc::clone(&sent);
        tokio::spawn(collected.send_all(move |items| {
            record.lock().unwrap().push((begin.elapsed().as_millis(), items));
            sleep_until(Instant::now() + answer_takes)
        }));
        (collector, sent)
    }

    /// Lets so many milliseconds pass, and all that happens in them.
    async fn pass(count: u32) {
        settle().await;
        for _ in 0..count {
            advance(millis(1)).await;
            settle().await;
        }
    }

    /// Lets everybody do what can be done without time.
    async fn settle() {
        for _ in 0..10 {
            yield_now().await;
        }
    }

    const fn millis(count: u64) -> Duration {
        Duration::from_millis(count)
    }

    #[tokio::test(start_paused = true)]
    async fn the_first_is_sent_at_once_with_all_that_is_there() {
        let (collector, sent) = sending(millis(1));
        (1..=3).for_each(|item| collector.push(item));
        pass(1).await;
        assert_eq!(*sent.lock().unwrap(), [(0, vec![1, 2, 3])]);
        pass(100).await;
        collector.push(4);
        pass(1).await;
        assert_eq!(sent.lock().unwrap()[1], (101, vec![4]), "nothing is under way, so nothing waits");
    }

    #[tokio::test(start_paused = true)]
    async fn the_next_forms_while_the_last_is_under_way_and_goes_when_that_is_answered() {
        let (collector, sent) = sending(millis(3));
        collector.push(1);
        pass(1).await;
        collector.push(2);
        pass(1).await;
        collector.push(3);
        pass(5).await;
        assert_eq!(*sent.lock().unwrap(), [(0, vec![1]), (3, vec![2, 3])]);
    }

    /// The bound, for every moment at which something may come while the server does not answer.
    #[tokio::test(start_paused = true)]
    async fn a_server_that_does_not_answer_delays_nothing_by_more_than_five_milliseconds() {
        let (collector, sent) = sending(Duration::from_secs(3600));
        let mut pushed = Vec::new();
        let begin = Instant::now();
        for item in 0..100 {
            pushed.push(begin.elapsed().as_millis());
            collector.push(item);
            pass(item % 7).await;
        }
        pass(10).await;
        let sent = sent.lock().unwrap().clone();
        let mut delays = Vec::new();
        for (at, items) in &sent {
            delays.extend(items.iter().map(|item| at - pushed[*item as usize]));
        }
        assert_eq!(delays.len(), 100, "each is sent once");
        assert!(delays.iter().all(|delay| *delay <= 5), "{delays:?}");
        assert!(sent.len() < 100, "and some together");
    }
}
