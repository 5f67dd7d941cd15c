//! Whether a project file can be trusted. One that another account may have written is ignored, because it would choose the
//! server that gets this user's tasks.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;

use rustix::process::geteuid;

const ROOT: u32 = 0;
const WRITE_FOR_ALL: u32 = 0o002;

/// Why a file is not trusted; none if it is.
pub(super) fn distrust_reason(metadata: &Metadata) -> Option<&'static str> {
    let links_have_no_mode = metadata.is_symlink();
    reason(metadata.uid(), if links_have_no_mode { 0 } else { metadata.mode() }, geteuid().as_raw())
}

fn reason(owner: u32, mode: u32, me: u32) -> Option<&'static str> {
    if owner != me && owner != ROOT {
        Some("it belongs to another account; if you trust it, copy it")
    } else if mode & WRITE_FOR_ALL != 0 {
        // Group write is allowed: many systems give each account its own group, and shared projects need it.
        Some("everybody may write to it; if it is yours, run: chmod o-w on it")
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_ours_when_only_this_account_or_root_can_have_written_it() {
        let cases = [
            (1000, 0o644, 1000, true),
            (1000, 0o664, 1000, true),
            (0, 0o644, 1000, true),
            (0, 0o644, 0, true),
            (1001, 0o600, 1000, false),
            (1000, 0o644, 0, false),
            (1000, 0o666, 1000, false),
            (0, 0o602, 1000, false),
            (0, 0o777, 0, false),
        ];
        for (owner, mode, me, ours) in cases {
            assert_eq!(reason(owner, mode, me).is_none(), ours, "{owner} {mode:o} {me}");
        }
    }
}
