//! Clients that go away while their request is worked on, over real sockets and a store whose work hangs until it is let
//! go: a read is dropped soon, a write is finished, and who only has nothing more to send gets its answer.

use std::sync::Arc;

use async_trait::async_trait;
use taskqueue_server::Config;
use taskqueue_store::conformance::model::ModelStore;
use taskqueue_store::conformance::model::variant::{Call, ModelVariant};
use taskqueue_store::write_request::WriteRequest;
use taskqueue_store::{Store, StoreError, StoreExt};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpStream, UnixStream};
use tokio::sync::{Notify, mpsc};
use tokio::time::timeout;

use crate::support::model;
use crate::support::served::{LIMIT, Running, run_over};

/// What becomes of a piece of work of the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Event {
    Begun,
    Finished,
    Dropped,
}

/// Tells that it was dropped, unless the work was finished.
struct Work(mpsc::UnboundedSender<Event>, Event);

impl Drop for Work {
    fn drop(&mut self) {
        self.0.send(self.1).ok();
    }
}

/// The model, but lists of queues and creations of queues hang until they are let go.
#[derive(Clone)]
struct SlowStore {
    model: Arc<ModelStore>,
    events: mpsc::UnboundedSender<Event>,
    go_on: Arc<Notify>,
}

impl SlowStore {
    async fn hang(&self) -> Work {
        let mut work = Work(self.events.clone(), Event::Dropped);
        self.events.send(Event::Begun).unwrap();
        self.go_on.notified().await;
        work.1 = Event::Finished;
        work
    }
}

#[async_trait]
impl ModelVariant for SlowStore {
    fn model(&self) -> &ModelStore {
        &self.model
    }

    fn submit(&self, mut request: WriteRequest) -> Result<(), StoreError> {
        if !matches!(request, WriteRequest::CreateQueue(_)) {
            return self.model.submit(request);
        }
        let store = self.clone();
        tokio::spawn(async move {
            let mut work = store.hang().await;
            // A server that no longer waits for the answer has withdrawn the command.
            if request.reply().begin() {
                store.model.submit(request).unwrap();
            } else {
                work.1 = Event::Dropped;
            }
        });
        Ok(())
    }
    async fn before(&self, call: Call) -> Result<(), StoreError> {
        if matches!(call, Call::ActOnTasks | Call::ListQueues) {
            self.hang().await;
        }
        Ok(())
    }
}

struct Served {
    store: Arc<SlowStore>,
    events: mpsc::UnboundedReceiver<Event>,
    server: Running,
}

async fn serve(listen: &str) -> Served {
    let (sender, events) = mpsc::unbounded_channel();
    let store = Arc::new(SlowStore { model: Arc::new(model()), events: sender, go_on: Arc::default() });
    let server = run_over(store.clone(), listen, Config::new(None)).await;
    Served { store, events, server }
}

impl Served {
    async fn event(&mut self) -> Event {
        timeout(LIMIT, self.events.recv()).await.expect("nothing happens").unwrap()
    }

    /// Sends a request whose work begins.
    async fn send(&mut self, request: &str) -> TcpStream {
        let mut stream = TcpStream::connect(&self.server.address).await.unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        assert_eq!(self.event().await, Event::Begun);
        stream
    }
}

const READ: &str = "GET /api/v2/queues HTTP/1.1\r\nhost: localhost\r\n\r\n";
const WRITE: &str = "PUT /api/v2/queues/q HTTP/1.1\r\nhost: localhost\r\ncontent-length: 0\r\n\r\n";

/// The ways in which a client disconnects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Close,
    Reset,
    /// It shuts down its sending side and is found to be still connected. Then it closes, which sends no packet.
    HalfCloseThenClose,
    HalfCloseThenReset,
}

impl Way {
    const ALL: [Self; 4] = [Self::Close, Self::Reset, Self::HalfCloseThenClose, Self::HalfCloseThenReset];

    /// Disconnects.
    async fn leave(self, mut stream: TcpStream) {
        if matches!(self, Self::HalfCloseThenClose | Self::HalfCloseThenReset) {
            stream.shutdown().await.unwrap();
            expect_interim(&mut stream).await;
        }
        if matches!(self, Self::Reset | Self::HalfCloseThenReset) {
            stream.set_zero_linger().unwrap();
        }
        drop(stream);
    }
}

const INTERIM: &str = "HTTP/1.1 100 Continue\r\n\r\n";

/// Reads the interim answer by which the server finds out whether a client is still there.
async fn expect_interim(stream: &mut (impl AsyncRead + Unpin)) {
    let mut interim = [0; INTERIM.len()];
    timeout(LIMIT, stream.read_exact(&mut interim)).await.expect("no interim answer").unwrap();
    assert_eq!(&interim, INTERIM.as_bytes());
}

/// The final answer, behind any number of interim ones, up to the end of the connection.
async fn rest_of(stream: &mut (impl AsyncRead + Unpin)) -> String {
    let mut answer = String::new();
    timeout(LIMIT, stream.read_to_string(&mut answer)).await.expect("no end").unwrap();
    answer.trim_start_matches(INTERIM).to_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_read_is_dropped_soon_after_its_client_has_gone() {
    let mut served = serve("127.0.0.1:0").await;
    let head = READ.replace("GET", "HEAD");
    let preferring = READ.replace("\r\n\r\n", "\r\nprefer: wait=5\r\n\r\n");
    let pipelined = format!("{READ}G");
    let much = format!("{READ}{}", READ.repeat(2_000));
    for request in [READ, &head, &preferring, &pipelined, &much] {
        for way in Way::ALL {
            // The read never ends by itself. How soon a server looks is tested with `ClientCheck`.
            let stream = served.send(request).await;
            way.leave(stream).await;
            assert_eq!(served.event().await, Event::Dropped, "{way:?}, {} bytes", request.len());
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_interim_answers_the_end_of_the_stream_is_the_end_of_a_read() {
    let mut served = serve("127.0.0.1:0").await;
    let mut stream = served.send(&READ.replace("HTTP/1.1", "HTTP/1.0")).await;
    stream.shutdown().await.unwrap();
    assert_eq!(served.event().await, Event::Dropped);
    assert_eq!(rest_of(&mut stream).await, "");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_only_has_nothing_more_to_send_gets_its_answer_however_long_it_takes() {
    let mut served = serve("127.0.0.1:0").await;
    let mut stream = served.send(READ).await;
    stream.shutdown().await.unwrap();
    expect_interim(&mut stream).await;
    // Meanwhile others leave, and are noticed.
    for _ in 0..3 {
        let other = served.send(READ).await;
        Way::Close.leave(other).await;
        assert_eq!(served.event().await, Event::Dropped);
    }
    served.store.go_on.notify_one();
    assert_eq!(served.event().await, Event::Finished);
    let answer = rest_of(&mut stream).await;
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n") && answer.ends_with("\r\n\r\n[]"), "{answer}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_write_is_finished_whatever_becomes_of_its_client() {
    let mut served = serve("127.0.0.1:0").await;
    let writing = served.send(WRITE).await;
    writing.set_zero_linger().unwrap();
    drop(writing);
    // Reads whose clients left later have been dropped meanwhile.
    for way in [Way::Reset, Way::Close] {
        let reading = served.send(READ).await;
        way.leave(reading).await;
        assert_eq!(served.event().await, Event::Dropped);
    }
    served.store.go_on.notify_one();
    assert_eq!(served.event().await, Event::Finished);
    let queues = served.store.model.list_queues().await.unwrap();
    assert_eq!(queues.len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn over_a_unix_socket_it_is_the_same() {
    async fn begin(served: &mut Served) -> UnixStream {
        let mut stream = UnixStream::connect(&served.server.address).await.unwrap();
        stream.write_all(READ.as_bytes()).await.unwrap();
        assert_eq!(served.event().await, Event::Begun);
        stream
    }
    async fn half_close(stream: &mut (impl AsyncRead + AsyncWrite + Unpin)) {
        stream.shutdown().await.unwrap();
        expect_interim(stream).await;
    }
    let path = std::env::temp_dir().join(format!("taskqueue-disconnects-{}", std::process::id()));
    let mut served = serve(&format!("unix:{}", path.display())).await;
    drop(begin(&mut served).await);
    assert_eq!(served.event().await, Event::Dropped);
    let mut stream = begin(&mut served).await;
    half_close(&mut stream).await;
    drop(stream);
    assert_eq!(served.event().await, Event::Dropped);
    let mut stream = begin(&mut served).await;
    half_close(&mut stream).await;
    served.store.go_on.notify_one();
    assert!(rest_of(&mut stream).await.ends_with("\r\n\r\n[]"));
}
