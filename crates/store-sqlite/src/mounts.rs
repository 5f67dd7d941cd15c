//! The type of the file system of a file. Some network file systems map both kinds of locks, SQLite's and ours, to one kind,
//! so that our lock would block SQLite.

const MOUNTS: &str = "/proc/self/mountinfo";

/// File systems whose `flock` is a lock of byte ranges on a server (NFS, SMB, Plan 9, AFS).
const LOCK_MAPPING_TYPES: &[&str] = &["nfs", "nfs4", "cifs", "smb3", "9p", "afs"];

/// The type of the file system of this device, if it maps both kinds of locks to one.
pub(crate) fn lock_mapping_type(device: u64) -> Option<String> {
    // Only Linux has this list; other systems are not supported.
    let mounts = std::fs::read_to_string(MOUNTS).ok()?;
    file_system_type(device, &mounts).filter(|kind| LOCK_MAPPING_TYPES.contains(kind)).map(str::to_owned)
}

/// `36 35 98:0 /root /mnt rw,noatime shared:1 - ext4 /dev/sda rw`: the device is third, the type follows the dash.
fn file_system_type(device: u64, mounts: &str) -> Option<&str> {
    // Linux packs both numbers of a device into one.
    let major = ((device >> 8) & 0xfff) | ((device >> 32) & !0xfff);
    let minor = (device & 0xff) | ((device >> 12) & !0xff);
    let number = format!("{major}:{minor}");
    let line = mounts.lines().find(|line| line.split(' ').nth(2) == Some(&number))?;
    line.split_once(" - ")?.1.split(' ').next()
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINES: &str = "22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw\n\
        36 22 0:52 / /home rw - nfs4 server:/home rw,vers=4.2\n\
        37 22 259:1048575 / /big rw - xfs /dev/nvme rw\n\
        38 22 0:53 / /mnt/a\\040b rw master:3 - cifs //server/share rw\n";

    #[test]
    fn the_type_of_a_file_system_is_found_by_its_device() {
        let cases = [(0x801, "ext4"), (0x34, "nfs4"), ((0xfff00 << 12) | (259 << 8) | 0xff, "xfs"), (0x35, "cifs")];
        for (device, expected) in cases {
            assert_eq!(file_system_type(device, LINES), Some(expected), "{device:#x}");
        }
        assert_eq!(file_system_type(0x99, LINES), None);
        assert_eq!(file_system_type(0x801, "nonsense\n\n1 2 8:1\n"), None);
    }

    #[test]
    fn the_file_system_of_this_test_keeps_locks_apart() {
        use std::os::unix::fs::MetadataExt;
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(lock_mapping_type(folder.path().metadata().unwrap().dev()), None);
    }
}
