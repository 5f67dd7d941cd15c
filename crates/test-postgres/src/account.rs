//! The account of server processes: that of the test, or an unprivileged one if the test runs as root, which PostgreSQL
//! refuses.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::{MetadataExt, chown};
use std::path::Path;
use std::process::Command;
use std::sync::OnceLock;

use crate::programs::tool;

#[derive(Clone, Copy)]
struct Account {
    uid: u32,
    gid: u32,
}

/// For a machine without an entry for nobody.
const NOBODY: Account = Account { uid: 65_534, gid: 65_534 };

/// The account to change to, if the test runs as root.
fn unprivileged() -> Option<Account> {
    static OTHER: OnceLock<Option<Account>> = OnceLock::new();
    *OTHER.get_or_init(|| {
        let list = fs::read_to_string("/etc/passwd").unwrap_or_default();
        let account = || listed(&list, "postgres").or_else(|| listed(&list, "nobody")).unwrap_or(NOBODY);
        rustix::process::geteuid().is_root().then(account)
    })
}

fn listed(list: &str, name: &str) -> Option<Account> {
    let mut lines = list.lines().map(|line| line.split(':').collect::<Vec<_>>());
    let fields = lines.find(|fields| fields[0] == name)?;
    Some(Account { uid: fields.get(2)?.parse().ok()?, gid: fields.get(3)?.parse().ok()? })
}

/// A command that runs under the account and gets `death_signal` when the thread that starts it ends. `setpriv` also
/// changes the account, because changing it after requesting the signal cancels the request.
pub(crate) fn command(program: impl AsRef<OsStr>, death_signal: &str) -> Command {
    let mut command = Command::new(tool("setpriv"));
    command.args(["--pdeathsig", death_signal]);
    if let Some(Account { uid, gid }) = unprivileged() {
        command.arg(format!("--reuid={uid}")).arg(format!("--regid={gid}")).arg("--clear-groups");
    }
    command.arg(program);
    command
}

/// Makes the account the owner of a folder.
pub(crate) fn make_owner(path: &Path) {
    if let Some(Account { uid, gid }) = unprivileged() {
        chown(path, Some(uid), Some(gid)).expect("root can change the owner");
    }
}

/// Whether the account can enter a folder: root's temporary folder may be closed to others.
pub(crate) fn can_enter(folder: &Path) -> bool {
    let open = |folder: &Path| fs::metadata(folder).is_ok_and(|metadata| metadata.mode() & 0o001 != 0);
    unprivileged().is_none() || folder.ancestors().all(open)
}
