//! One server process on one data directory: created, started, stopped and crashed.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;

use parking_lot::Mutex;
use rustix::process::Signal;

use crate::address::{Address, MAINTENANCE, SUPERUSER};
use crate::control;
use crate::directory::Directory;
use crate::port::free_port;
use crate::process::Process;
use crate::programs::{program, tool};

/// As in production, but small. Shared memory is in files of the directory, so that nothing remains after a crash.
const SETTINGS: &str = "
listen_addresses = '127.0.0.1'
fsync = on
max_connections = 200
shared_buffers = 64MB
dynamic_shared_memory_type = mmap
password_encryption = scram-sha-256
";

/// The superuser needs no password, everybody else does.
const ACCESS: &str = "
local all postgres trust
host all postgres 127.0.0.1/32 trust
local all all scram-sha-256
host all all 127.0.0.1/32 scram-sha-256
";

/// The folder of the data in the directory of a server.
const DATA: &str = "data";

/// How many ports are tried: another process may take one first.
const PORT_TRIES: usize = 5;

pub(crate) struct Server {
    // Dropped in this order: the process has ended when its directory is removed.
    process: Mutex<Option<Process>>,
    port: u16,
    directory: Directory,
}

impl Server {
    /// Creates the data in a directory and starts a server on it.
    pub(crate) fn new(directory: Directory) -> Self {
        let mut server = Self { process: Mutex::new(None), port: 0, directory };
        server.initialise();
        for _ in 0..PORT_TRIES {
            server.port = free_port();
            if let Some(process) = server.launch() {
                server.process = Mutex::new(Some(process));
                return server;
            }
        }
        server.does_not_start()
    }

    fn data(&self) -> PathBuf {
        self.directory.path().join(DATA)
    }

    pub(crate) fn address(&self) -> Address {
        Address::local(self.directory.path(), self.port)
    }

    fn command(&self, name: &str) -> Command {
        // With QUIT, a server ends at once and still removes its shared memory.
        let mut command = self.directory.command(program(name), "QUIT");
        command.arg("-D").arg(self.data());
        command
    }

    fn initialise(&self) {
        let mut command = self.directory.command(tool("cp"), "KILL");
        command.arg("--archive").arg(new_data().path().join(DATA)).arg(self.data());
        assert!(Process::start(command).succeeded(), "a copy failed:\n{}", self.directory.last_lines());
        fs::write(self.data().join("pg_hba.conf"), ACCESS).expect("the file is there");
        self.append(SETTINGS);
        self.append(&format!("unix_socket_directories = '{}'", self.directory.path().display()));
    }

    /// Appends a line to the settings; the last one of a name is used.
    pub(crate) fn append(&self, setting: &str) {
        let mut file = OpenOptions::new().append(true).open(self.data().join("postgresql.conf")).expect("the settings");
        writeln!(file, "{setting}").expect("the settings can be written");
    }

    /// Starts the process and waits until it answers; nothing if it does not.
    fn launch(&self) -> Option<Process> {
        let mut command = self.command("postgres");
        command.arg("-p").arg(self.port.to_string());
        // Over the socket in the directory: on the port another server might answer.
        let url = self.address().socket_url(MAINTENANCE);
        Process::answering(command, || control::run(&url, "").is_ok())
    }

    #[track_caller]
    fn does_not_start(&self) -> ! {
        panic!("PostgreSQL does not start:\n{}", self.directory.last_lines())
    }

    #[track_caller]
    pub(crate) fn start(&self) {
        let mut running = self.process.lock();
        assert!(running.is_none(), "the server runs already");
        *running = Some(self.launch().unwrap_or_else(|| self.does_not_start()));
    }

    #[track_caller]
    fn take(&self) -> Process {
        self.process.lock().take().expect("the server does not run")
    }

    /// A fast shutdown: connections end, everything is written to disk.
    #[track_caller]
    pub(crate) fn stop(&self) {
        self.take().end(Signal::INT);
    }

    /// Kills all processes at once.
    #[track_caller]
    pub(crate) fn crash(&self) {
        self.take().kill_all();
        // A few bytes of shared memory remain until the next start, which may never come. The seventh line of this file
        // has its key and id.
        let pid_file = fs::read_to_string(self.data().join("postmaster.pid")).unwrap_or_default();
        if let Some(number) = pid_file.lines().nth(6).and_then(|line| line.split_whitespace().nth(1)) {
            let removed = Command::new(tool("ipcrm")).args(["--shmem-id", number]).status();
            assert!(removed.is_ok_and(|status| status.success()), "shared memory {number} cannot be removed");
        }
    }

    pub(crate) fn is_running(&self) -> bool {
        self.process.lock().is_some()
    }

    #[track_caller]
    pub(crate) fn pid(&self) -> u32 {
        self.process.lock().as_ref().expect("the server does not run").pid()
    }
}

/// The data of a server that was never started. Every server begins with a copy: initdb takes most of a second.
fn new_data() -> &'static Directory {
    static MADE: OnceLock<Directory> = OnceLock::new();
    MADE.get_or_init(|| {
        let directory = Directory::in_memory();
        let mut command = directory.command(program("initdb"), "QUIT");
        // The C locale is the only one that every machine has.
        command.args(["--no-sync", "--no-instructions", "--encoding=UTF8", "--locale=C", "--auth=trust"]);
        command.arg(format!("--username={SUPERUSER}")).arg("-D").arg(directory.path().join(DATA));
        assert!(Process::start(command).succeeded(), "initdb failed:\n{}", directory.last_lines());
        directory
    })
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(process) = self.process.lock().take() {
            process.end(Signal::QUIT);
        }
    }
}
