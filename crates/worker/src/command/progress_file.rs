//! The file in which a command says how far it is: a JSON object that it replaces as often as it likes. It is looked at every second, and
//! read when it has changed.

use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use rustix::io::Errno;
use taskqueue_client::JsonObject;
use tokio::task::spawn_blocking;
use tokio::time::sleep;

use super::json_file::read_object;
use crate::handler::RunProgress;
use crate::run_dir::open_options;

/// The longest file that is read.
pub const PROGRESS_FILE_BYTES: usize = 64 * 1024;

/// The times of files are this coarse: one that was changed more recently may have been changed again since it was read.
const COARSE: Duration = Duration::from_secs(2);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct FileVersion {
    inode: u64,
    changed: (i64, i64),
    bytes: u64,
}

#[derive(Debug)]
pub(super) struct ProgressFile {
    path: PathBuf,
    /// The version that was read last, if it can be told from the next one.
    seen: Option<FileVersion>,
}

impl ProgressFile {
    pub(super) fn new(path: PathBuf) -> Self {
        Self { path, seen: None }
    }

    /// Looks at the file again and again. Never returns. What is no object may be half written, and is read again the next time.
    pub(super) async fn watch(mut self, interval: Duration, progress: &RunProgress) {
        loop {
            sleep(interval).await;
            let looking = spawn_blocking(move || {
                let found = self.read_changed();
                (self, found)
            });
            // An error means that the runtime is shutting down.
            let Ok((file, found)) = looking.await else { return std::future::pending().await };
            self = file;
            if let Ok(Some(object)) = found {
                progress.report(object);
            }
        }
    }

    /// The object, if it may have changed since the last time. Blocks.
    ///
    /// # Errors
    ///
    /// Why it cannot be used, for people.
    pub(super) fn read_changed(&mut self) -> Result<Option<JsonObject>, String> {
        let unreadable = |error: io::Error| format!("it cannot be read: {error}");
        // Neither follows a link nor waits for the other end of a pipe.
        let file = match open_options().read(true).open(&self.path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) if error.raw_os_error() == Some(Errno::LOOP.raw_os_error()) => {
                return Err("it is a link, and no link is followed".to_owned());
            }
            Err(error) => return Err(unreadable(error)),
        };
        let metadata = file.metadata().map_err(unreadable)?;
        if !metadata.is_file() {
            return Err("it is not a file".to_owned());
        }
        let changed = (metadata.mtime(), metadata.mtime_nsec());
        let version = FileVersion { inode: metadata.ino(), changed, bytes: metadata.len() };
        if self.seen == Some(version) {
            return Ok(None);
        }
        let mut text = Vec::new();
        file.take(PROGRESS_FILE_BYTES as u64 + 1).read_to_end(&mut text).map_err(unreadable)?;
        if text.len() > PROGRESS_FILE_BYTES {
            return Err(format!("it is larger than {PROGRESS_FILE_BYTES} bytes"));
        }
        // Notes are left out: a loss that is not a number is no reason to know nothing of the progress.
        let (object, _) = read_object(&text)?;
        let age = metadata.modified().ok().and_then(|time| SystemTime::now().duration_since(time).ok());
        self.seen = age.filter(|age| *age > COARSE).map(|_| version);
        Ok(Some(object))
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};
    use std::os::unix::fs::symlink;
    use std::pin::pin;
    use std::sync::Arc;

    use rustix::fs::{CWD, FileType, Mode, mknodat};
    use tempfile::TempDir;
    use tokio::sync::watch;
    use tokio::time::timeout;

    use super::*;

    fn file() -> (TempDir, PathBuf, ProgressFile) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("progress.json");
        (folder, path.clone(), ProgressFile::new(path))
    }

    /// Makes a file as old as one that nobody writes to any more.
    fn age(path: &PathBuf) {
        let old = SystemTime::now() - Duration::from_secs(10);
        File::options().write(true).open(path).unwrap().set_modified(old).unwrap();
    }

    fn found(file: &mut ProgressFile) -> Option<String> {
        file.read_changed().unwrap().map(|object| object.as_str().to_owned())
    }

    #[test]
    fn the_object_is_found_and_again_when_it_changes() {
        let (_folder, path, mut file) = file();
        assert_eq!(found(&mut file), None);
        // The second is as long as the first, and perhaps written at the same time as far as the disk can tell.
        for (text, expected) in [
            ("{\"step\": 1}", "{\"step\":1}"),
            ("{\"step\": 2}", "{\"step\":2}"),
            ("{\"loss\": NaN, \"grad\": -Infinity}", r#"{"grad":"-Infinity","loss":"NaN"}"#),
        ] {
            fs::write(&path, text).unwrap();
            assert_eq!(found(&mut file).as_deref(), Some(expected));
        }
        let next = path.with_extension("tmp");
        fs::write(&next, "{\"step\": 3}").unwrap();
        fs::rename(&next, &path).unwrap();
        assert_eq!(found(&mut file).as_deref(), Some("{\"step\":3}"));
    }

    #[test]
    fn what_has_not_changed_for_a_while_is_not_read_again() {
        let (_folder, path, mut file) = file();
        fs::write(&path, "{}").unwrap();
        age(&path);
        assert_eq!((found(&mut file).as_deref(), found(&mut file)), (Some("{}"), None));
        fs::write(&path, "{\"a\":1}").unwrap();
        assert!(found(&mut file).is_some());
    }

    #[test]
    fn half_a_file_is_read_again() {
        let (_folder, path, mut file) = file();
        for half in ["", "{", "{\"step\": 1", "{\"step\": 1}}"] {
            fs::write(&path, half).unwrap();
            age(&path);
            assert!(file.read_changed().is_err() && file.read_changed().is_err(), "{half}");
        }
        fs::write(&path, "{\"step\": 1}").unwrap();
        assert_eq!(found(&mut file).as_deref(), Some("{\"step\":1}"));
    }

    #[tokio::test(start_paused = true)]
    async fn half_a_file_keeps_what_was_there_until_it_is_whole() {
        let (_folder, path, file) = file();
        let (sender, reported) = watch::channel(None);
        let (interval, progress) = (Duration::from_secs(1), RunProgress(Arc::new(sender)));
        let mut watching = pin!(file.watch(interval, &progress));
        for (text, expected) in
            [("{\"step\": 1}", "{\"step\":1}"), ("{\"step\":", "{\"step\":1}"), ("{\"step\": 2}", "{\"step\":2}")]
        {
            fs::write(&path, text).unwrap();
            // Paused time stands still during a look, so there are at least two.
            assert!(timeout(3 * interval, watching.as_mut()).await.is_err(), "it never returns");
            assert_eq!(reported.borrow().as_ref().map(JsonObject::as_str), Some(expected), "{text}");
        }
    }

    #[test]
    fn what_cannot_be_progress_says_why_and_does_not_hang() {
        let (_folder, path, mut file) = file();
        let huge = format!("{{\"a\":\"{}\"}}", "x".repeat(PROGRESS_FILE_BYTES));
        for (text, why) in
            [("[1]", "not a JSON object"), ("{\"n\":99999999999999999999}", "64 bits"), (&*huge, "larger than 65536")]
        {
            fs::write(&path, text).unwrap();
            let told = file.read_changed().unwrap_err();
            assert!(told.contains(why), "{told}");
        }
        fs::remove_file(&path).unwrap();
        fs::create_dir(&path).unwrap();
        assert!(file.read_changed().is_err());
        fs::remove_dir(&path).unwrap();
        mknodat(CWD, &path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        assert_eq!(file.read_changed().unwrap_err(), "it is not a file");
        fs::remove_file(&path).unwrap();
        symlink("/dev/zero", &path).unwrap();
        assert_eq!(file.read_changed().unwrap_err(), "it is a link, and no link is followed");
    }
}
