//! Running a page: its blocks in their order, in one shell.
//!
//! A command must succeed, unless the page shows a line `error: ...` of it: then it must fail. `taskqueue serve`, and a worker, a
//! follower or a watcher at the end of a session, go on running in another terminal once they have printed what the page shows;
//! `^C` ends them there. A worker in a script ends when it is idle for a second.

use std::fs;

use rustix::process::Signal;

use super::blocks::{Block, Kind};
use super::output::{Ids, Printed, matches, with_real_ids};
use super::pages::Page;
use super::ports::Ports;
use super::shell::{Shell, is_incomplete};

struct PageRun {
    shell: Shell,
    ports: Ports,
    ids: Ids,
    commands: usize,
}

/// One command, and what the page shows of its output.
#[derive(Debug, Default, PartialEq, Eq)]
struct Step {
    command: String,
    shown: Vec<String>,
    is_last: bool,
    is_script: bool,
}

/// How many commands ran, or what went wrong.
pub(crate) fn run(page: &Page) -> Result<usize, String> {
    let blocks = page.blocks();
    let runs = |block: &&Block| block.not_run.is_none() && block.kind() != Kind::Shown;
    if !blocks.iter().any(|block| runs(&block) && !matches!(block.kind(), Kind::File(_))) {
        return Ok(0);
    }
    let mut ports = Ports::default();
    let mut run = PageRun { shell: Shell::start(&mut ports), ports, ids: Ids::new(), commands: 0 };
    for block in blocks.iter().filter(runs) {
        run.block(block).map_err(|failure| format!("{}:{}: {failure}\n", page.path, block.line))?;
    }
    Ok(run.commands)
}

impl PageRun {
    fn block(&mut self, block: &Block) -> Result<(), String> {
        let text = &block.text;
        match block.kind() {
            Kind::File(name) => {
                let (path, text) = (self.shell.home().join(name), self.ports.put_in(text));
                fs::create_dir_all(path.parent().unwrap())
                    .and_then(|()| fs::write(path, text))
                    .map_err(|error| error.to_string())
            }
            Kind::Python => self.step(&Step {
                command: format!("python3 - <<'END OF BLOCK'\n{text}END OF BLOCK\n"),
                ..Step::default()
            }),
            Kind::Script => script_steps(text).iter().try_for_each(|step| self.step(step)),
            Kind::Session => session_steps(text).iter().try_for_each(|step| self.step(step)),
            Kind::Shown => Ok(()),
        }
    }

    fn step(&mut self, step: &Step) -> Result<(), String> {
        self.commands += 1;
        let command = self.ports.put_in(&with_real_ids(&step.command, &self.ids));
        if step.goes_on() { self.start(step, &command) } else { self.finish(step, &command) }
    }

    /// Runs a command to its end.
    fn finish(&mut self, step: &Step, command: &str) -> Result<(), String> {
        let command = if step.is_script { ending_when_idle(command) } else { command.to_owned() };
        let ran = self.shell.run(&command).map_err(|failure| format!("{command}\n{failure}"))?;
        let (out, err) = (self.ports.take_out(&ran.out), self.ports.take_out(&ran.err));
        let shown: Vec<&str> = step.shown.iter().map(String::as_str).collect();
        let shows_output = !step.is_script && !step.command.starts_with("python3 - <<");
        if shows_output && !matches(&shown, Printed { out: &out, err: &err }, false, &mut self.ids) {
            return Err(format!("{}\nshows\n{}\nbut printed\n{out}{err}", step.command, shown.join("\n")));
        }
        match (ran.code, step.must_fail()) {
            (0, false) | (1.., true) => Ok(()),
            (code, _) => Err(format!("{}\nended with exit code {code}:\n{out}{err}", step.command)),
        }
    }

    /// Starts a command that goes on running, and waits for what it shows first.
    fn start(&mut self, step: &Step, command: &str) -> Result<(), String> {
        let address = step.address().filter(|_| !step.must_fail());
        self.shell.stop(|terminal| address.is_some() && terminal.address == address);
        let terminal = self.shell.start_terminal(command)?;
        terminal.address = address;
        let is_break = |line: &&str| *line == "^C";
        let all: Vec<&str> = step.shown.iter().map(String::as_str).collect();
        let first: Vec<&str> = all.iter().copied().take_while(|line| !is_break(line)).collect();
        let (ports, ids) = (&self.ports, &mut self.ids);
        let found = terminal.wait_for(|out, err| {
            let is_serving = !step.is_script || out.lines().any(|line| line.contains(':'));
            is_serving && matches(&first, Printed { out: &ports.take_out(out), err: &ports.take_out(err) }, true, ids)
        });
        if !found {
            return Err(format!("{}\nshows\n{}\nbut printed\n{}", step.command, first.join("\n"), terminal.printed()));
        }
        if first.len() == all.len() {
            return Ok(());
        }
        terminal.group.signal(Signal::INT);
        let rest: Vec<&str> = all.iter().copied().filter(|line| !is_break(line)).collect();
        let found = terminal.wait_for(|out, err| {
            matches(&rest, Printed { out: &ports.take_out(out), err: &ports.take_out(err) }, true, ids)
        });
        match found && terminal.ends() {
            true => Ok(()),
            false => Err(format!(
                "{}\nafter Ctrl-C shows\n{}\nbut printed\n{}",
                step.command,
                rest.join("\n"),
                terminal.printed()
            )),
        }
    }
}

impl Step {
    fn must_fail(&self) -> bool {
        self.shown.iter().any(|line| line.starts_with("error: "))
    }

    /// Where a server listens. A page that shows two ways to start one on the same address means that the first one is stopped.
    fn address(&self) -> Option<String> {
        let flags = self.command.split_once("taskqueue serve")?.1;
        let named = flags.split_once("--listen ").and_then(|(_, rest)| rest.split_whitespace().next());
        Some(named.unwrap_or("127.0.0.1:8000").replace("0.0.0.0", "127.0.0.1"))
    }

    fn goes_on(&self) -> bool {
        let mut words = self.command.split_whitespace().skip_while(|word| word.contains('='));
        let first = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        let is_view = ["--follow", "--watch"].iter().any(|flag| self.command.contains(flag));
        match first {
            ("taskqueue", "serve") => !self.command.contains("--check"),
            _ if self.is_script => false,
            ("taskqueue", "loop") => self.is_last,
            _ => (self.is_last && is_view) || self.shown.iter().any(|line| line == "^C"),
        }
    }
}

/// A worker of a script ends when it is idle, soon.
fn ending_when_idle(command: &str) -> String {
    const FLAG: &str = "--idle-timeout ";
    let Some((before, behind)) = command.split_once(FLAG) else {
        return command.replace("taskqueue loop ", &format!("taskqueue loop {FLAG}1s "));
    };
    let behind = behind.trim_start_matches(|c: char| !c.is_whitespace());
    format!("{before}{FLAG}1s{behind}")
}

/// `$ ` begins a command, `> ` directly behind it continues it, and the rest is output.
fn session_steps(text: &str) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    for line in text.lines() {
        if let Some(command) = line.strip_prefix("$ ") {
            steps.push(Step { command: format!("{command}\n"), ..Step::default() });
        } else if let Some(step) = steps.last_mut() {
            match line.strip_prefix("> ").filter(|_| step.shown.is_empty()) {
                Some(more) => step.command.push_str(&format!("{more}\n")),
                None => step.shown.push(line.to_owned()),
            }
        }
    }
    if let Some(step) = steps.last_mut() {
        step.is_last = true;
    }
    steps
}

/// As many lines as bash needs for a command make one.
fn script_steps(text: &str) -> Vec<Step> {
    let mut steps = Vec::new();
    let mut command = String::new();
    for line in text.lines() {
        command.push_str(line);
        command.push('\n');
        let is_nothing =
            command.trim().is_empty() || command.trim_start().starts_with('#') && command.lines().count() == 1;
        if is_nothing {
            command.clear();
        } else if !is_incomplete(&command) {
            steps.push(Step { command: std::mem::take(&mut command), is_script: true, ..Step::default() });
        }
    }
    steps
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_is_commands_and_what_they_print() {
        let steps = session_steps("$ a\n1\n2\n$ for x in b; do\n>   c; done\n3\n$ taskqueue loop -- d\n");
        let commands: Vec<&str> = steps.iter().map(|step| step.command.as_str()).collect();
        assert_eq!(commands, ["a\n", "for x in b; do\n  c; done\n", "taskqueue loop -- d\n"]);
        assert_eq!(steps[0].shown, ["1", "2"]);
        assert_eq!(steps.iter().map(Step::goes_on).collect::<Vec<_>>(), [false, false, true]);
    }

    #[test]
    fn a_script_is_split_into_what_bash_takes_for_commands() {
        let steps = script_steps(
            "# about\na b\n\nfor x in c; do\n  d\ndone | e \\\n  f\ncat <<END\ng\nEND\nX=1 taskqueue serve\n",
        );
        let commands: Vec<&str> = steps.iter().map(|step| step.command.as_str()).collect();
        assert_eq!(
            commands,
            ["a b\n", "for x in c; do\n  d\ndone | e \\\n  f\n", "cat <<END\ng\nEND\n", "X=1 taskqueue serve\n"]
        );
        assert!(steps[3].goes_on());
        assert_eq!(ending_when_idle("taskqueue loop -- x"), "taskqueue loop --idle-timeout 1s -- x");
        assert_eq!(ending_when_idle("taskqueue loop --idle-timeout 5m -- x"), "taskqueue loop --idle-timeout 1s -- x");
    }
}
