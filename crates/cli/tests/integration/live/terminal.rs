//! The real binary in a real terminal, as a person has it: keys go in, and the screen is what an emulator makes of the
//! bytes that come out.

use std::fs::File;
use std::io::{Read, Write};
use std::process::{Child, Command, ExitStatus};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, Termios, Winsize, tcgetattr, tcsetwinsize};

use crate::support::Server;

/// How long a program may take to show something or to end.
const PATIENCE: Duration = Duration::from_secs(30);

/// A terminal with a program in it.
pub(crate) struct Terminal {
    child: Child,
    pty: File,
    output: Receiver<Vec<u8>>,
    emulator: vt100::Parser,
    /// How the terminal was set before the program came.
    before: Termios,
}

impl Terminal {
    /// Starts the binary with a terminal of this size, in an environment that configures nothing.
    pub(crate) fn start(columns: u16, rows: u16, arguments: &[&str], environment: &[(&str, &str)]) -> Self {
        Self::start_program(env!("CARGO_BIN_EXE_taskqueue"), columns, rows, arguments, environment)
    }

    /// The same with a command for the queue `q` of a server.
    pub(crate) fn for_queue(server: &Server, columns: u16, rows: u16, arguments: &[&str]) -> Self {
        let url = server.url();
        Self::start(columns, rows, arguments, &[("TASKQUEUE_URL", &url), ("TASKQUEUE_QUEUE", "q")])
    }

    /// The same with another program, such as a shell.
    pub(crate) fn start_program(
        program: &str,
        columns: u16,
        rows: u16,
        arguments: &[&str],
        environment: &[(&str, &str)],
    ) -> Self {
        let (pty, name) = open(columns, rows);
        let before = tcgetattr(&pty).unwrap();
        let side = || File::options().read(true).write(true).open(&name).unwrap();
        // This becomes the controlling terminal of the program, instead of that of the test run.
        let mut command = Command::new("setsid");
        // The test run may ignore signals, and that is inherited.
        command.args(["--ctty", "env", "--default-signal=HUP,INT,QUIT,TERM,TSTP", program]);
        command.args(arguments);
        command.env_clear().env("PATH", "/usr/bin:/bin").env("TERM", "xterm-256color");
        command.envs(environment.iter().copied());
        let child = command.stdin(side()).stdout(side()).stderr(side()).spawn().unwrap();
        let output = read(pty.try_clone().unwrap());
        Self { child, pty, output, emulator: vt100::Parser::new(rows, columns, 0), before }
    }

    pub(crate) fn press(&mut self, keys: &str) {
        self.pty.write_all(keys.as_bytes()).unwrap();
    }

    pub(crate) fn resize(&mut self, columns: u16, rows: u16) {
        self.emulator.screen_mut().set_size(rows, columns);
        tcsetwinsize(&self.pty, size(columns, rows)).unwrap();
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    pub(crate) fn screen(&self) -> String {
        self.emulator.screen().contents()
    }

    /// Waits until the screen is as wanted; gives its text.
    #[track_caller]
    pub(crate) fn wait_until(&mut self, what: &str, wanted: impl Fn(&str) -> bool) -> String {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let screen = self.screen();
            if wanted(&screen) {
                return screen;
            }
            match self.output.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok(bytes) => self.emulator.process(&bytes),
                Err(error) => panic!("never seen: {what} ({error}); the screen:\n{screen}"),
            }
        }
    }

    /// The screen after this time, with everything that came meanwhile.
    pub(crate) fn watch_for(&mut self, time: Duration) -> String {
        let end = Instant::now() + time;
        while let Ok(bytes) = self.output.recv_timeout(end.saturating_duration_since(Instant::now())) {
            self.emulator.process(&bytes);
        }
        self.screen()
    }

    /// Waits until this text is on the screen.
    #[track_caller]
    pub(crate) fn wait_for(&mut self, text: &str) -> String {
        self.wait_until(text, |screen| screen.contains(text))
    }

    /// Ends the program with its key; gives what is left on the screen.
    #[track_caller]
    pub(crate) fn quit(mut self) -> String {
        self.press("q");
        self.ends_with(0, &[])
    }

    /// Waits for the end of the program with this code; gives what is left on the screen, which has all of these parts.
    #[track_caller]
    pub(crate) fn ends_with(self, code: i32, parts: &[&str]) -> String {
        let (status, left) = self.wait_for_end();
        assert_eq!(status.code(), Some(code), "{left}");
        for part in parts {
            assert!(left.contains(part), "{part:?} is missing in\n{left}");
        }
        left
    }

    /// Waits for the end of the program; the terminal must be as it was. Gives the text that is left on it, too.
    #[track_caller]
    pub(crate) fn wait_for_end(mut self) -> (ExitStatus, String) {
        let deadline = Instant::now() + PATIENCE;
        while let Ok(bytes) = self.output.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            self.emulator.process(&bytes);
        }
        assert!(Instant::now() < deadline, "the program does not end; the screen:\n{}", self.screen());
        let status = self.child.wait().unwrap();
        let after = tcgetattr(&self.pty).unwrap();
        assert!(after.local_modes.contains(LocalModes::ECHO | LocalModes::ICANON), "keys are not shown");
        assert_eq!(format!("{after:?}"), format!("{:?}", self.before), "the terminal is set differently");
        let screen = self.emulator.screen();
        assert!(!screen.alternate_screen(), "the alternate screen is left open");
        assert!(!screen.hide_cursor(), "the cursor is left hidden");
        (status, self.screen())
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// A new terminal of this size: our side of it, and the name of the other.
pub(crate) fn open(columns: u16, rows: u16) -> (File, String) {
    // Not inherited by what other tests start meanwhile.
    let pty = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
    grantpt(&pty).unwrap();
    unlockpt(&pty).unwrap();
    tcsetwinsize(&pty, size(columns, rows)).unwrap();
    let name = ptsname(&pty, Vec::new()).unwrap().into_string().unwrap();
    (File::from(pty), name)
}

fn size(columns: u16, rows: u16) -> Winsize {
    Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 }
}

/// Reads what the program writes, until it has ended.
fn read(mut pty: File) -> Receiver<Vec<u8>> {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        let mut buffer = [0; 4096];
        while let Ok(count @ 1..) = pty.read(&mut buffer) {
            if sender.send(buffer[..count].to_vec()).is_err() {
                return;
            }
        }
    });
    receiver
}
