//! A command that runs beside the test, and what it prints meanwhile.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::Duration;

use super::support::{Ran, start};

/// How long a line may take.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) struct Running {
    pub(crate) child: Child,
    pub(crate) stdout: Receiver<String>,
    stderr: Receiver<String>,
}

impl Running {
    /// Starts a prepared command.
    pub(crate) fn start(command: &mut Command) -> Self {
        let mut child = start(command);
        let stdout = lines_of(child.stdout.take().unwrap());
        let stderr = lines_of(child.stderr.take().unwrap());
        Self { child, stdout, stderr }
    }

    /// Waits for the next line of standard output.
    pub(crate) fn line(&mut self) -> String {
        self.stdout.recv_timeout(PATIENCE).unwrap()
    }

    /// Waits for a line on standard error that has this text.
    pub(crate) fn says(&mut self, text: &str) {
        while !self.stderr.recv_timeout(PATIENCE).unwrap_or_else(|_| panic!("never said: {text}")).contains(text) {}
    }

    /// Waits for the end; gives what is left of both outputs.
    pub(crate) fn end(mut self) -> Ran {
        let rest = |lines: &Receiver<String>| {
            let mut text = String::new();
            loop {
                match lines.recv_timeout(PATIENCE) {
                    Ok(line) => text += &line,
                    Err(mpsc::RecvTimeoutError::Disconnected) => return text,
                    Err(mpsc::RecvTimeoutError::Timeout) => panic!("it does not end; it said:\n{text}"),
                }
            }
        };
        let (stdout, stderr) = (rest(&self.stdout), rest(&self.stderr));
        Ran { command: "started".to_owned(), code: self.child.wait().unwrap().code(), stdout, stderr }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// The lines that a program prints, with their ends. Nobody reads on when the receiver is gone.
fn lines_of(output: impl Read + Send + 'static) -> Receiver<String> {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        let mut output = BufReader::new(output);
        loop {
            let mut line = String::new();
            if output.read_line(&mut line).unwrap() == 0 || sender.send(line).is_err() {
                return;
            }
        }
    });
    receiver
}
