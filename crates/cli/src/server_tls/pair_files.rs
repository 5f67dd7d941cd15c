//! The files of a certificate and its key: how they are read, and which are refused. The key must be for its owner only,
//! like a token.

use std::fs::{File, OpenOptions};
use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;
use taskqueue_server::tls::{Identity, IdentityError};

use crate::failure::Failure;
use crate::private_file;

/// Long chains have some ten thousand bytes.
const FILE_BYTES: u64 = 1_048_576;

#[derive(Clone, Debug)]
pub(crate) struct PairFiles {
    pub(crate) certificate: PathBuf,
    pub(crate) key: PathBuf,
}

/// What the two files hold, as it is.
pub(crate) struct PairBytes {
    pub(crate) certificate: Vec<u8>,
    pub(crate) key: Vec<u8>,
}

impl PairFiles {
    /// The names of files that this program makes.
    pub(super) fn in_folder(folder: &Path) -> Self {
        Self { certificate: folder.join("cert.pem"), key: folder.join("key.pem") }
    }

    /// The certificate and its key, which belong together.
    pub(super) fn read(&self) -> Result<Identity, Failure> {
        self.read_bytes().map(|(identity, _)| identity)
    }

    /// The same with what the files hold.
    pub(crate) fn read_bytes(&self) -> Result<(Identity, PairBytes), Failure> {
        let certificate = read(&self.certificate, &self.certificate_name(), |_| Ok(()))?;
        let key = self.read_key()?;
        let identity = Identity::from_pem(&certificate, &key).map_err(|error| {
            Failure::Refused(match &error {
                IdentityError::Certificate(reason) => format!("{} cannot be used: {reason}", self.certificate_name()),
                IdentityError::Key(reason) => format!("{} cannot be used: {reason}", self.key_name()),
                IdentityError::Mismatch => {
                    format!("{} and {} do not belong together: {error}", self.certificate_name(), self.key_name())
                }
            })
        })?;
        Ok((identity, PairBytes { certificate, key }))
    }

    pub(super) fn read_key(&self) -> Result<Vec<u8>, Failure> {
        let name = self.key_name();
        read(&self.key, &name, |file| {
            let metadata = file.metadata().map_err(|error| Failure::cannot_read(&name, error))?;
            private_file::check_key(&name, &self.key, &metadata)
        })
    }

    fn certificate_name(&self) -> String {
        format!("the TLS certificate {}", self.certificate.display())
    }

    fn key_name(&self) -> String {
        format!("the TLS key {}", self.key.display())
    }
}

fn read(path: &Path, name: &str, check: impl Fn(&File) -> Result<(), Failure>) -> Result<Vec<u8>, Failure> {
    let cannot_read = |error| Failure::cannot_read(name, error);
    // Opening a pipe without a writer must not block.
    let nonblocking = OFlags::NONBLOCK.bits().cast_signed();
    let file = OpenOptions::new().read(true).custom_flags(nonblocking).open(path).map_err(cannot_read)?;
    if !file.metadata().map_err(cannot_read)?.is_file() {
        return Err(Failure::Refused(format!("{name} is not a regular file, so it cannot be read again later")));
    }
    check(&file)?;
    let mut bytes = Vec::new();
    file.take(FILE_BYTES + 1).read_to_end(&mut bytes).map_err(cannot_read)?;
    if bytes.len() as u64 > FILE_BYTES {
        return Err(Failure::Refused(format!("{name} has more than {FILE_BYTES} bytes, so it is something else")));
    }
    Ok(bytes)
}
