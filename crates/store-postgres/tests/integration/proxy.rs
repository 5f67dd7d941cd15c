//! A proxy between a store and its database that understands where messages of the protocol begin and end, and cuts a
//! connection around the `COMMIT` of one chosen transaction.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use taskqueue_store::conformance::commands::create_queue;
use taskqueue_store::{Store, StoreExt};
use taskqueue_store_postgres::PostgresStore;
use taskqueue_test_postgres::{Cluster, Database};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;

use crate::storage::open;
use crate::storage::tables::assert_tables_are_consistent;

/// What happens to the transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cut {
    /// Everything before `COMMIT` is answered; `COMMIT` never arrives.
    BeforeCommit,
    /// Everything before `COMMIT` is answered; its own answer is lost.
    AfterCommit,
    /// The answers that are under way when `COMMIT` is said are lost with its own.
    AfterCommitWithEverything,
    /// The database ends the connection by an administrator's command (57P01) instead of committing.
    EndedBeforeCommit,
    /// The database ends the connection in the same way right after it has committed, before that is answered.
    EndedAfterCommit,
    /// A pooler passed everything on and was ended then: its farewell comes in place of the first answer that was open
    /// when `COMMIT` was said.
    PoolerEnded,
    /// The connection lives, but has forgotten the prepared statement that asks for the name of the transaction.
    Forgets,
}

/// Which transactions are cut: those that say `marker`, so many.
struct Plan {
    marker: Vec<u8>,
    cut: Cut,
    times: usize,
}

struct Shared {
    database: SocketAddr,
    plan: Mutex<Option<Plan>>,
    /// Whether nobody can connect any more after a cut.
    closes: AtomicBool,
    closed: AtomicBool,
    cuts: AtomicI64,
    /// Bytes that came from the database.
    answered: AtomicUsize,
}

/// The proxy. Its connections end with the runtime.
pub(crate) struct Proxy {
    address: SocketAddr,
    shared: Arc<Shared>,
}

impl Proxy {
    /// A proxy in front of the database at this address.
    pub(crate) async fn start(database: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let shared = Arc::new(Shared {
            database,
            plan: Mutex::default(),
            closes: AtomicBool::default(),
            closed: AtomicBool::default(),
            cuts: AtomicI64::default(),
            answered: AtomicUsize::default(),
        });
        let accepting = Arc::clone(&shared);
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                if !accepting.closed.load(Ordering::SeqCst) {
                    tokio::spawn(serve(client, Arc::clone(&accepting)));
                }
            }
        });
        Self { address, shared }
    }

    /// A proxy in front of a database, and the URL that leads through it.
    pub(crate) async fn before(url: &str) -> (Self, String) {
        let place = url.split('@').nth(1).unwrap().split('/').next().unwrap();
        let proxy = Self::start(place.parse().unwrap()).await;
        let through = url.replacen(place, &proxy.address().to_string(), 1);
        let through = format!("{through}{}sslmode=disable", if through.contains('?') { '&' } else { '?' });
        (proxy, through)
    }

    /// Where it listens.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Cuts the next transactions that say this anywhere, so many times.
    pub(crate) fn cut(&self, cut: Cut, marker: &str, times: usize) {
        *self.shared.plan.lock().unwrap() = Some(Plan { marker: marker.into(), cut, times });
    }

    /// From the next cut on, nobody gets through.
    pub(crate) fn close_after_cut(&self) {
        self.shared.closes.store(true, Ordering::SeqCst);
    }

    /// Lets everybody through again.
    pub(crate) fn reopen(&self) {
        self.shared.closes.store(false, Ordering::SeqCst);
        self.shared.closed.store(false, Ordering::SeqCst);
    }

    /// How many bytes have come from the database so far.
    pub(crate) fn answered(&self) -> usize {
        self.shared.answered.load(Ordering::SeqCst)
    }

    /// How often it cut.
    pub(crate) fn cuts(&self) -> i64 {
        self.shared.cuts.load(Ordering::SeqCst)
    }
}

/// A store behind a proxy, with the queue `q`.
pub(crate) struct Proxied {
    pub(crate) database: Database,
    pub(crate) proxy: Proxy,
    pub(crate) store: Arc<PostgresStore>,
    _cluster: Option<Cluster>,
}

impl Proxied {
    /// On the server of all tests.
    pub(crate) async fn open() -> Self {
        Self::on(None).await
    }

    /// On a server of its own.
    pub(crate) async fn alone() -> Self {
        Self::on(Some(Cluster::private())).await
    }

    async fn on(cluster: Option<Cluster>) -> Self {
        let database = cluster.as_ref().unwrap_or_else(|| Cluster::shared()).database();
        let (proxy, through) = Proxy::before(&database.url()).await;
        let store = Arc::new(open(&through, None).await.unwrap_or_else(|error| panic!("{error}")));
        store.write(create_queue("q")).await.unwrap();
        Self { database, proxy, store, _cluster: cluster }
    }

    pub(crate) async fn end(self) {
        self.store.close().await;
        assert_tables_are_consistent(&self.database).await;
    }
}

impl Shared {
    fn mentions(&self, message: &[u8]) -> bool {
        let plan = self.plan.lock().unwrap();
        plan.as_ref().is_some_and(|plan| contains(message, &plan.marker))
    }

    fn planned(&self) -> Option<Cut> {
        self.plan.lock().unwrap().as_ref().filter(|plan| plan.times > 0).map(|plan| plan.cut)
    }

    fn take(&self) {
        if let Some(plan) = self.plan.lock().unwrap().as_mut() {
            plan.times -= 1;
        }
        self.cuts.fetch_add(1, Ordering::SeqCst);
        self.closed.store(self.closes.load(Ordering::SeqCst), Ordering::SeqCst);
    }
}

/// What both directions of a connection know.
#[derive(Default)]
struct Wire {
    cutting: Mutex<Option<Cut>>,
    /// Questions that the database has not finished answering.
    open: AtomicI64,
    end: Notify,
}

async fn serve(client: TcpStream, shared: Arc<Shared>) {
    let Ok(server) = TcpStream::connect(shared.database).await else { return };
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    let wire = Arc::new(Wire::default());
    // Login ends with the database being ready, too.
    wire.open.store(1, Ordering::SeqCst);
    tokio::select! {
        () = forth(from_client, to_server, &shared, &wire) => {}
        () = back(from_server, to_client, &shared, &wire) => {}
        () = wire.end.notified() => {}
    }
}

/// One message as it came; the first one of a client has no kind.
async fn message(from: &mut OwnedReadHalf, kind: bool) -> Option<Vec<u8>> {
    let mut bytes = vec![0; if kind { 5 } else { 4 }];
    from.read_exact(&mut bytes).await.ok()?;
    let length = u32::from_be_bytes(bytes[bytes.len() - 4..].try_into().unwrap()) as usize;
    let head = bytes.len();
    bytes.resize(head + length - 4, 0);
    from.read_exact(&mut bytes[head..]).await.ok()?;
    Some(bytes)
}

fn contains(bytes: &[u8], part: &[u8]) -> bool {
    bytes.windows(part.len()).any(|window| window == part)
}

fn says(message: &[u8], text: &str) -> bool {
    message[0] == b'Q' && message[5..].starts_with(text.as_bytes())
}

/// Ends the connection that says it, as an administrator would.
const END: &str = "SELECT pg_terminate_backend(pg_backend_pid())";

fn query(text: &str) -> Vec<u8> {
    framed(b'Q', [text.as_bytes(), &[0]].concat())
}

/// What a pooler says when it is ended.
fn farewell() -> Vec<u8> {
    framed(b'E', b"SFATAL\0VFATAL\0C57P01\0Mthe pooler is shutting down\0\0".to_vec())
}

fn framed(kind: u8, body: Vec<u8>) -> Vec<u8> {
    let length = u32::try_from(body.len() + 4).unwrap();
    [vec![kind], length.to_be_bytes().to_vec(), body].concat()
}

async fn forth(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, shared: &Shared, wire: &Wire) {
    let (mut first, mut chosen, mut naming) = (true, false, Vec::new());
    while let Some(mut message) = message(&mut from, !first).await {
        if !first {
            chosen = (chosen && !says(&message, "BEGIN")) || shared.mentions(&message);
            // A Parse begins with the name of a statement; one without a name cannot be forgotten.
            if message[0] == b'P' && message[5] != 0 && contains(&message, b"pg_current_xact_id") {
                naming = message[5..].iter().copied().take_while(|byte| *byte != 0).chain([0]).collect();
            }
            let planned = shared.planned().filter(|_| chosen);
            // A Bind begins with the name of a portal, which is empty, and that of a statement.
            let asks_name = message[0] == b'B' && naming.len() > 1 && message[6..].starts_with(&naming);
            if planned == Some(Cut::Forgets) && asks_name {
                message[6] = b'x';
                shared.take();
            }
            if planned.is_some_and(|cut| cut != Cut::Forgets) && says(&message, "COMMIT\0") {
                shared.take();
                *wire.cutting.lock().unwrap() = planned;
                match planned {
                    Some(Cut::EndedBeforeCommit) => message = query(END),
                    Some(Cut::EndedAfterCommit) => message = query(&format!("COMMIT; {END}")),
                    _ => {}
                }
                if planned == Some(Cut::BeforeCommit) {
                    if wire.open.load(Ordering::SeqCst) > 0 {
                        std::future::pending::<()>().await;
                    }
                    return;
                }
            }
            if matches!(message[0], b'Q' | b'S') {
                wire.open.fetch_add(1, Ordering::SeqCst);
            }
        }
        first = false;
        if to.write_all(&message).await.is_err() {
            return;
        }
    }
}

async fn back(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, shared: &Shared, wire: &Wire) {
    while let Some(message) = message(&mut from, true).await {
        shared.answered.fetch_add(message.len(), Ordering::SeqCst);
        let cutting = *wire.cutting.lock().unwrap();
        let committed = message[0] == b'C' && contains(&message, b"COMMIT");
        match cutting {
            Some(Cut::AfterCommit) if committed => return,
            Some(Cut::AfterCommitWithEverything) if committed => return,
            Some(Cut::PoolerEnded) if committed => {
                let _ = to.write_all(&farewell()).await;
                return;
            }
            Some(Cut::AfterCommitWithEverything | Cut::PoolerEnded) => continue,
            _ => {}
        }
        if to.write_all(&message).await.is_err() {
            return;
        }
        if message[0] == b'Z' && wire.open.fetch_sub(1, Ordering::SeqCst) == 1 && cutting == Some(Cut::BeforeCommit) {
            return;
        }
    }
}
