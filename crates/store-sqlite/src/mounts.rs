//! What kind of file system a file lies on, as the kernel tells it. Some network file systems make one kind of lock out of
//! the two kinds that SQLite and we use, so that our own lock would keep SQLite out.

/// Where the kernel lists what is mounted.
const MOUNTS: &str = "/proc/self/mountinfo";

/// File systems whose `flock` is a lock of byte ranges on a server (NFS, SMB, Plan 9, AFS).
const MIXING: &[&str] = &["nfs", "nfs4", "cifs", "smb3", "9p", "afs"];

/// The kind of the file system of this device, if it mixes the two kinds of locks.
pub(crate) fn mixing_locks(device: u64) -> Option<String> {
    // Elsewhere than on Linux there is no such list, and no support either.
    let mounts = std::fs::read_to_string(MOUNTS).ok()?;
    kind(device, &mounts).filter(|kind| MIXING.contains(kind)).map(str::to_owned)
}

/// `36 35 98:0 /root /mnt rw,noatime shared:1 - ext4 /dev/sda rw`: the device is third, the kind follows the dash.
fn kind(device: u64, mounts: &str) -> Option<&str> {
    // How Linux packs both numbers of a device into one.
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
    fn the_kind_of_a_file_system_is_found_by_its_device() {
        let cases = [(0x801, "ext4"), (0x34, "nfs4"), ((0xfff00 << 12) | (259 << 8) | 0xff, "xfs"), (0x35, "cifs")];
        for (device, expected) in cases {
            assert_eq!(kind(device, LINES), Some(expected), "{device:#x}");
        }
        assert_eq!(kind(0x99, LINES), None);
        assert_eq!(kind(0x801, "nonsense\n\n1 2 8:1\n"), None);
    }

    #[test]
    fn the_file_system_of_this_test_does_not_mix_locks() {
        use std::os::unix::fs::MetadataExt;
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(mixing_locks(folder.path().metadata().unwrap().dev()), None);
    }
}
