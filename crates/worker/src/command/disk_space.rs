//! When the disk of the run directory counts as nearly full. A full disk costs results and logs.

use std::io;
use std::path::Path;

/// A twentieth of the disk, but no more than this: a large disk with so much free space has room for many runs.
const ENOUGH_BYTES: u64 = 10 * 1024 * 1024 * 1024;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct DiskSpace {
    pub(super) total_bytes: u64,
    /// What this user may still write.
    pub(super) available_bytes: u64,
}

impl DiskSpace {
    /// Blocks while the disk hangs.
    pub(super) fn of(path: &Path) -> io::Result<Self> {
        let disk = rustix::fs::statvfs(path)?;
        let bytes = |blocks: u64| blocks.saturating_mul(disk.f_frsize);
        Ok(Self { total_bytes: bytes(disk.f_blocks), available_bytes: bytes(disk.f_bavail) })
    }
}

/// Notices when the free space falls below the limit, once until there is twice as much again.
#[derive(Debug)]
pub(super) struct DiskWatch {
    limit_bytes: Option<u64>,
    is_low: bool,
}

impl DiskWatch {
    /// Without a limit, one that fits the size of the disk.
    pub(super) fn new(limit_bytes: Option<u64>) -> Self {
        Self { limit_bytes, is_low: false }
    }

    /// Whether to warn now.
    pub(super) fn is_newly_low(&mut self, space: DiskSpace) -> bool {
        let limit = self.limit_bytes.unwrap_or_else(|| ENOUGH_BYTES.min(space.total_bytes / 20));
        let was_low = self.is_low;
        let enough = if was_low { limit.saturating_mul(2) } else { limit };
        self.is_low = space.available_bytes < enough;
        self.is_low && !was_low
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1024 * 1024 * 1024;

    /// For which of these amounts of free space a warning is given, one after the other.
    fn warnings(limit_bytes: Option<u64>, total_bytes: u64, free: &[u64]) -> Vec<bool> {
        let mut watch = DiskWatch::new(limit_bytes);
        free.iter().map(|free| watch.is_newly_low(DiskSpace { total_bytes, available_bytes: *free })).collect()
    }

    #[test]
    fn the_limit_fits_the_disk() {
        assert_eq!(warnings(None, 100 * GIB, &[6 * GIB, 4 * GIB]), [false, true]);
        assert_eq!(warnings(None, 10_000 * GIB, &[11 * GIB, 9 * GIB]), [false, true]);
        assert_eq!(warnings(Some(GIB), 100 * GIB, &[2 * GIB, GIB / 2]), [false, true]);
        assert_eq!(warnings(None, 0, &[0]), [false], "a file system without a size");
    }

    #[test]
    fn space_that_goes_up_and_down_a_little_is_one_warning() {
        let free = [4, 6, 4, 9, 4, 10, 4].map(|gib| gib * GIB);
        assert_eq!(warnings(None, 100 * GIB, &free), [true, false, false, false, false, false, true]);
    }

    #[test]
    fn a_disk_has_a_size() {
        let space = DiskSpace::of(Path::new("/")).unwrap();
        assert!(space.total_bytes > 0 && space.available_bytes <= space.total_bytes);
    }
}
