//! The programs of PostgreSQL: on the PATH, or in Debian's folder for those of the server.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// Debian keeps a folder per version here, none of them on the PATH.
const DEBIAN: &str = "/usr/lib/postgresql";

/// A program of the same PostgreSQL as the server (`psql`, `pgbench`, ...), or else any of that name on the PATH.
/// Panics when there is none: a test that cannot run has failed.
#[track_caller]
pub fn program(name: &str) -> PathBuf {
    let file = server_folder().join(name);
    let found = if file.is_file() { Some(file) } else { on_path(name).next() };
    found.unwrap_or_else(|| missing(name))
}

/// A program that does not depend on the version of the server.
#[track_caller]
pub(crate) fn tool(name: &str) -> PathBuf {
    // Debian has daemons in a folder that only root has on the PATH.
    let daemon = Path::new("/usr/sbin").join(name);
    on_path(name).next().or_else(|| Some(daemon).filter(|file| file.is_file())).unwrap_or_else(|| missing(name))
}

#[track_caller]
fn missing(name: &str) -> ! {
    panic!(
        "`{name}` is missing: run scripts/install-test-needs (`make test` does), or install PostgreSQL and PgBouncer"
    )
}

/// The folder of the server's programs: all of one version, because a server refuses the files of another.
#[track_caller]
fn server_folder() -> &'static Path {
    static FOLDER: OnceLock<Option<PathBuf>> = OnceLock::new();
    // A link on the PATH leads to the folder with the other programs.
    let folder_of = |file: PathBuf| Some(file.canonicalize().ok()?.parent()?.to_owned());
    let found = FOLDER.get_or_init(|| {
        let mut folders = on_path("postgres").filter_map(folder_of).chain(debian_folders());
        folders.find(|folder| folder.join("postgres").is_file() && folder.join("initdb").is_file())
    });
    found.as_deref().unwrap_or_else(|| missing("postgres"))
}

fn on_path(name: &str) -> impl Iterator<Item = PathBuf> {
    let folders: Vec<PathBuf> = env::var_os("PATH").iter().flat_map(env::split_paths).collect();
    let files = folders.into_iter().map({
        let name = name.to_owned();
        move |folder| folder.join(&name)
    });
    files.filter(|file| file.is_file())
}

/// Newest version first.
fn debian_folders() -> Vec<PathBuf> {
    let entries = fs::read_dir(DEBIAN).into_iter().flatten().flatten();
    let mut versions: Vec<u32> = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    versions.sort_unstable_by(|a, b| b.cmp(a));
    versions.into_iter().map(|version| Path::new(DEBIAN).join(version.to_string()).join("bin")).collect()
}
