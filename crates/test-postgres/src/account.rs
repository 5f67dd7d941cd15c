//! The account under which servers run: our own, or an unprivileged one when we are root, which PostgreSQL refuses.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::{MetadataExt, chown};
use std::path::Path;
use std::process::Command;
use std::sync::OnceLock;

use crate::programs::tool;

/// An account that is not ours.
#[derive(Clone, Copy)]
struct Account {
    uid: u32,
    gid: u32,
}

/// What Linux calls nobody, for a machine whose list of accounts has no such line.
const NOBODY: Account = Account { uid: 65_534, gid: 65_534 };

/// The account to change to, if we are root.
fn other() -> Option<Account> {
    static OTHER: OnceLock<Option<Account>> = OnceLock::new();
    *OTHER.get_or_init(|| {
        let list = fs::read_to_string("/etc/passwd").unwrap_or_default();
        let unprivileged = || listed(&list, "postgres").or_else(|| listed(&list, "nobody")).unwrap_or(NOBODY);
        rustix::process::geteuid().is_root().then(unprivileged)
    })
}

fn listed(list: &str, name: &str) -> Option<Account> {
    let mut lines = list.lines().map(|line| line.split(':').collect::<Vec<_>>());
    let fields = lines.find(|fields| fields[0] == name)?;
    Some(Account { uid: fields.get(2)?.parse().ok()?, gid: fields.get(3)?.parse().ok()? })
}

/// A command that runs the program under the account, and that gets the signal when the thread that starts it ends.
/// `setpriv` changes the account itself, because a change of the account after the wish for the signal cancels it.
pub(crate) fn command(program: impl AsRef<OsStr>, signal_at_our_end: &str) -> Command {
    let mut command = Command::new(tool("setpriv"));
    command.args(["--pdeathsig", signal_at_our_end]);
    if let Some(Account { uid, gid }) = other() {
        command.arg(format!("--reuid={uid}")).arg(format!("--regid={gid}")).arg("--clear-groups");
    }
    command.arg(program);
    command
}

/// Gives a file or a folder to the account.
pub(crate) fn give(path: &Path) {
    if let Some(Account { uid, gid }) = other() {
        chown(path, Some(uid), Some(gid)).expect("root gives a folder away");
    }
}

/// Whether the account gets into a folder: root's own folders for temporary files may be closed to others.
pub(crate) fn can_enter(folder: &Path) -> bool {
    let open = |folder: &Path| fs::metadata(folder).is_ok_and(|metadata| metadata.mode() & 0o001 != 0);
    other().is_none() || folder.ancestors().all(open)
}
