//! Reads the processes of this machine from /proc.

use std::fs;
use std::path::Path;

/// One process, possibly a zombie.
#[derive(Clone, Debug)]
pub(crate) struct Process {
    pub(crate) pid: i32,
    pub(crate) parent: i32,
    pub(crate) is_zombie: bool,
    pub(crate) name: String,
    pub(crate) command: String,
}

/// Every process of this machine.
pub(crate) fn all() -> Vec<Process> {
    let entries = fs::read_dir("/proc").unwrap().flatten();
    entries.filter_map(|entry| process(entry.file_name().to_str()?.parse().ok()?)).collect()
}

fn process(pid: i32) -> Option<Process> {
    let text = |name: &str| Some(String::from_utf8_lossy(&fs::read(format!("/proc/{pid}/{name}")).ok()?).into_owned());
    let stat = text("stat")?;
    let (name, fields) = stat.split_once('(')?.1.rsplit_once(')')?;
    let (name, mut fields) = (name.to_owned(), fields.split_ascii_whitespace());
    let is_zombie = fields.next()? == "Z";
    let parent = fields.next()?.parse().ok()?;
    Some(Process { pid, parent, is_zombie, name, command: text("cmdline")?.replace('\0', " ") })
}

/// Living processes that were started with this variable in their environment.
pub(crate) fn started_with(name: &str, value: &str) -> Vec<Process> {
    let wanted = format!("{name}={value}");
    let has = |process: &Process| {
        let environment = fs::read(format!("/proc/{}/environ", process.pid)).unwrap_or_default();
        environment.split(|byte| *byte == 0).any(|pair| pair == wanted.as_bytes())
    };
    all().into_iter().filter(|process| !process.is_zombie && has(process)).collect()
}

/// Living processes with this current folder.
pub(crate) fn in_folder(folder: &Path) -> Vec<Process> {
    let is_there =
        |process: &Process| fs::read_link(format!("/proc/{}/cwd", process.pid)).is_ok_and(|current| current == folder);
    all().into_iter().filter(|process| !process.is_zombie && is_there(process)).collect()
}

/// Whether a process with this number is alive.
pub(crate) fn is_alive(pid: &str) -> bool {
    pid.trim().parse().ok().and_then(process).is_some_and(|process| !process.is_zombie)
}
