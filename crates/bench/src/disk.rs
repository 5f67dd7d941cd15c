//! How often per second the disk makes an append durable: the other limit, besides bare HTTP.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;
use std::time::{Duration, Instant};

/// About what one small transaction appends to a write-ahead log.
const APPEND_BYTES: usize = 4096;
/// Long enough for a few hundred syncs of a slow disk.
const LENGTH: Duration = Duration::from_millis(500);

/// Appends and syncs in this folder for half a second, and says how many times per second that went.
pub(crate) fn syncs_per_second(folder: &Path) -> io::Result<f64> {
    let path = folder.join("sync-probe");
    let mut file = File::create(&path)?;
    let begin = Instant::now();
    let mut syncs = 0_u32;
    while begin.elapsed() < LENGTH {
        file.write_all(&[b'x'; APPEND_BYTES])?;
        file.sync_data()?;
        syncs += 1;
    }
    let rate = f64::from(syncs) / begin.elapsed().as_secs_f64();
    fs::remove_file(path)?;
    Ok(rate)
}
