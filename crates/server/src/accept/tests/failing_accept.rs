//! Accepts that fail, and what the loop does about them.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;

/// A listener that fails as scripted and then never gives a connection again.
struct Scripted {
    outcomes: Mutex<Vec<io::Result<Stream>>>,
    calls: Arc<AtomicUsize>,
}

impl Accept for Scripted {
    async fn accept(&self) -> io::Result<Stream> {
        self.calls.fetch_add(1, Ordering::SeqCst);
        let next = self.outcomes.lock().unwrap().pop();
        match next {
            Some(outcome) => outcome,
            None => std::future::pending().await,
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_accept_that_fails_does_not_end_the_loop_and_does_not_make_it_spin() {
    const EMFILE: i32 = 24;
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (stream, _) = listener.accept().await.unwrap();
    let outcomes = vec![
        Ok(Stream::Tcp(stream)),
        Err(io::Error::from_raw_os_error(EMFILE)),
        Err(ErrorKind::ConnectionAborted.into()),
        Err(io::Error::from_raw_os_error(EMFILE)),
    ];
    let calls = Arc::new(AtomicUsize::new(0));
    let source = Scripted { outcomes: Mutex::new(outcomes), calls: Arc::clone(&calls) };
    let connections = Connections::new(&config(8, TIMEOUTS), Arc::default());
    let started = std::time::Instant::now();
    tokio::spawn(async move { match connections.accept(&source, echo_path).await {} });

    client.write_all(HELLO).unwrap();
    assert_eq!(read_answer(&mut client).1, "/hello");
    assert!(started.elapsed() >= 2 * RETRY_DELAY);
    assert!(calls.load(Ordering::SeqCst) <= 5);
}
