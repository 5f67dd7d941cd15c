//! Begins a transfer: takes ownership of the file, checks that it is ours and migrates it, as when a server opens it.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use taskqueue_store::transfer::TransferError;

use super::SqliteTransfer;
use crate::open::OpenError;
use crate::ownership::Ownership;
use crate::{migrate, open};

/// Page cache of a transfer: holds the pages to which the indexes of a million new tasks are appended.
const CACHE_KIB: i64 = 65_536;

impl SqliteTransfer {
    /// The file to copy from, which must exist.
    pub fn source(path: &Path) -> Result<Self, TransferError> {
        if !path.exists() {
            return Err(TransferError::Refused(format!("there is no file {}; check the path", path.display())));
        }
        Self::open(path, "BEGIN").map_err(|error| TransferError::Refused(error.to_string()))
    }

    /// The file to copy to, which is created if it does not exist.
    pub fn target(path: &Path) -> Result<Self, TransferError> {
        Self::open(path, "BEGIN IMMEDIATE").map_err(|error| TransferError::Refused(error.to_string()))
    }

    fn open(path: &Path, begin: &str) -> Result<Self, OpenError> {
        let mut ownership = Ownership::take(path)?;
        let path = &ownership.path().to_owned();
        let failed = |error: rusqlite::Error| OpenError::of_sqlite(path, &error);
        migrate::recognise(&open::unrecognised(path).map_err(failed)?, path)?;
        let mut connection = open::writer(path).map_err(failed)?;
        migrate::migrate(&mut connection, path)?;
        connection.pragma_update(None, "cache_size", -CACHE_KIB).map_err(failed)?;
        connection.execute_batch(begin).map_err(failed)?;
        ownership.watch_log()?;
        let (queues, keys) = (BTreeMap::new(), HashMap::new());
        let mut transfer = Self { connection, ownership, queues, keys };
        match transfer.load_queues() {
            Ok(()) => Ok(transfer),
            Err(error) => Err(OpenError::of_sqlite(transfer.ownership.path(), &error)),
        }
    }
}
