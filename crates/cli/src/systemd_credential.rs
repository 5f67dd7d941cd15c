//! Files that systemd has put there for this service alone (`LoadCredential=`, `SetCredential=`). systemd lets the user of the
//! service in by an access list, which the mode shows as access of the group; it is no access of anybody else. Everything
//! else that holds a secret is judged by its mode, in `private_file.rs`.

use std::ffi::OsStr;
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Where systemd says that the credentials of this service are.
const VARIABLE: &str = "CREDENTIALS_DIRECTORY";
/// Everything but reading by owner and group.
const MORE_THAN_READ: u32 = 0o7337;
/// What others may do.
const OTHERS: u32 = 0o007;
const ROOT: u32 = 0;

/// Whether the open file `path` with this metadata is a credential of this service.
pub(crate) fn is_one(path: &Path, metadata: &Metadata) -> bool {
    let Some(directory) = std::env::var_os(VARIABLE) else { return false };
    let Ok(folder) = std::fs::metadata(&directory) else { return false };
    let user = rustix::process::geteuid().as_raw();
    let trusted = |entry: &Metadata| entry.uid() == ROOT || entry.uid() == user;
    is_inside(path, &directory)
        && metadata.is_file()
        && trusted(metadata)
        && trusted(&folder)
        && is_confined(metadata.mode(), folder.mode())
}

fn is_inside(path: &Path, directory: &OsStr) -> bool {
    let directory = Path::new(directory);
    directory.is_absolute() && path.parent() == Some(directory)
}

/// Nobody can change the file, and nobody else can enter its folder.
fn is_confined(file_mode: u32, folder_mode: u32) -> bool {
    file_mode & MORE_THAN_READ == 0 && folder_mode & OTHERS == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_credential_lies_in_the_folder_that_systemd_names() {
        let cases = [
            ("/run/credentials/q.service/token", "/run/credentials/q.service", true),
            ("/run/credentials/q.service/token", "/run/credentials/q.service/", true),
            ("/run/credentials/q.service/more/token", "/run/credentials/q.service", false),
            ("/etc/taskqueue/token", "/run/credentials/q.service", false),
            ("token", "", false),
            ("here/token", "here", false),
        ];
        for (path, directory, expected) in cases {
            assert_eq!(is_inside(Path::new(path), OsStr::new(directory)), expected, "{path} in {directory}");
        }
    }

    #[test]
    fn a_credential_can_be_read_only_and_others_cannot_reach_it() {
        const FILE: u32 = 0o100_000;
        let cases = [
            (0o400, 0o500, true),
            (0o440, 0o550, true),
            (0o440, 0o700, true),
            (0o440, 0o555, false),
            (0o440, 0o551, false),
            (0o444, 0o500, false),
            (0o640, 0o500, false),
            (0o460, 0o500, false),
        ];
        for (file, folder, expected) in cases {
            assert_eq!(is_confined(FILE | file, folder), expected, "{file:o} in {folder:o}");
        }
    }
}
