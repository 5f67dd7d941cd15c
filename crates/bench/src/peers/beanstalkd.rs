//! beanstalkd: put, then reserve and delete, over as many connections as we have, each waiting for its answer.

use std::cell::Cell;
use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::rc::Rc;
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use super::beanstalk_wire::{self as wire, Reply};
use super::daemon::Daemon;
use super::{Rates, Setting};
use crate::failure::{Failure, Result};
use crate::request;

#[derive(Clone, Copy)]
enum Stage {
    Put,
    ReserveAndDelete,
}

/// Measures a fresh server whose log is synced at each write, or so many milliseconds later.
pub(super) async fn measure(setting: &Setting<'_>, sync_millis: u32) -> Result<Rates> {
    let daemon = Daemon::start(Path::new("beanstalkd"), &setting.folder, |command, port| {
        command.args(["-l", "127.0.0.1", "-p", &port.to_string(), "-b", ".", "-f", &sync_millis.to_string()]);
    });
    let daemon = daemon.await?;
    let length = Duration::from_secs_f64(setting.args.seconds);
    let creations = stage(Stage::Put, daemon.address, setting.connections, length).await?;
    let pairs = stage(Stage::ReserveAndDelete, daemon.address, setting.connections, length).await?;
    Ok(Rates { creations, pairs })
}

/// How often per second something was done, until the time is over or nothing is left to do.
async fn stage(stage: Stage, address: SocketAddr, connections: usize, length: Duration) -> Result<f64> {
    let mut clients = Vec::with_capacity(connections);
    for _ in 0..connections {
        clients.push(Client::connect(address).await?);
    }
    let (done, begin) = (Rc::new(Cell::new(0_u32)), Instant::now());
    let mut running = JoinSet::new();
    for client in clients {
        running.spawn_local(drive(client, stage, begin + length, done.clone()));
    }
    while let Some(ended) = running.join_next().await {
        ended.map_err(|error| Failure::new(error.to_string()))??;
    }
    Ok(f64::from(done.get()) / begin.elapsed().as_secs_f64())
}

async fn drive(mut client: Client, stage: Stage, end: Instant, done: Rc<Cell<u32>>) -> io::Result<()> {
    let put = wire::put(&request::args().replace('#', "0"));
    while Instant::now() < end {
        match stage {
            Stage::Put => drop(client.send(&put).await?),
            Stage::ReserveAndDelete => match client.send(wire::RESERVE).await? {
                Reply::Reserved(id) => drop(client.send(&wire::delete(id)).await?),
                _ => return Ok(()),
            },
        }
        done.set(done.get() + 1);
    }
    Ok(())
}

struct Client {
    stream: TcpStream,
    buffer: [u8; 1024],
}

impl Client {
    async fn connect(address: SocketAddr) -> io::Result<Self> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        Ok(Self { stream, buffer: [0; 1024] })
    }

    async fn send(&mut self, request: &[u8]) -> io::Result<Reply> {
        self.stream.write_all(request).await?;
        let mut filled = 0;
        loop {
            match self.stream.read(&mut self.buffer[filled..]).await? {
                0 => return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "beanstalkd closed the connection")),
                count => filled += count,
            }
            if let Some(reply) = wire::read(&self.buffer[..filled])? {
                return Ok(reply);
            }
        }
    }
}
