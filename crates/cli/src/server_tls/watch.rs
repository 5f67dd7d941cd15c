//! Notices that the certificate or its key was exchanged, and shows the new pair. A pair that cannot be used is logged once,
//! and the one before it stays.
//!
//! The files are looked at by name every two seconds. That sees what programs do that renew certificates: a file renamed
//! over the other (certbot's links, `install`), a folder exchanged by a link (Kubernetes), a file written in place. At SIGHUP they are
//! read at once, changed or not.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, SystemTime};

use taskqueue_server::tls::{Identity, Tls};
use tokio::select;
use tokio::task::spawn_blocking;
use tokio::time::{MissedTickBehavior, interval};
use tracing::{info, warn};

use super::{PairFiles, warn_of_dates};
use crate::server_signals::Reloads;

const INTERVAL: Duration = Duration::from_secs(2);

/// The numbers that tell one version of a file from another, behind links; `None` if it cannot be looked at.
type Stamp = Option<[i64; 7]>;

/// The stamps of the certificate and of the key.
pub(super) type Stamps = [Stamp; 2];

pub(super) fn stamps(files: &PairFiles) -> Stamps {
    [stamp(&files.certificate), stamp(&files.key)]
}

fn stamp(path: &Path) -> Stamp {
    let file = fs::metadata(path).ok()?;
    let number = |value: u64| value.cast_signed();
    let (modified, changed) = ([file.mtime(), file.mtime_nsec()], [file.ctime(), file.ctime_nsec()]);
    Some([number(file.dev()), number(file.ino()), number(file.len()), modified[0], modified[1], changed[0], changed[1]])
}

/// Goes on for as long as the server runs. `settled` are the stamps of the pair that is shown, from before it was read.
pub(super) async fn follow_changes(files: PairFiles, settled: Stamps, tls: Tls, mut reloads: Reloads) {
    let mut watch = Watch { settled, unfinished: None };
    let mut ticks = interval(INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let is_asked = select! {
            _ = ticks.tick() => false,
            () = reloads.next() => true,
        };
        let (looked_at, before) = (files.clone(), watch.settled);
        // A file system over the network may take its time.
        let looked = spawn_blocking(move || {
            let found = watch.look(stamps(&looked_at), is_asked, || looked_at.read());
            (watch, found)
        });
        let Ok((next, found)) = looked.await else { return };
        watch = next;
        match found {
            None => {}
            Some(Ok(identity)) => show(&tls, identity, &files, watch.settled != before),
            Some(Err(failure)) => {
                let reason = failure.message().unwrap_or_default();
                warn!(reason, "the TLS files cannot be used; the certificate from before is still shown");
            }
        }
    }
}

fn show(tls: &Tls, identity: Identity, files: &PairFiles, has_changed: bool) {
    let certificate = files.certificate.display();
    if has_changed {
        info!(pin = identity.pin(), %certificate, "another TLS certificate is shown from now on");
    } else {
        info!(pin = identity.pin(), %certificate, "the TLS certificate was read again, and is as before");
    }
    warn_of_dates(&identity, files, SystemTime::now());
    tls.replace(identity);
}

struct Watch {
    /// The stamps of the pair that is shown, or was found to be of no use.
    settled: Stamps,
    /// The stamps of a pair that could not be used at the last look, perhaps because the second file is still to come.
    unfinished: Option<Stamps>,
}

impl Watch {
    /// Returns what a look finds: another identity, or that the files cannot be used; nothing if there is nothing to say. Who has asked is told
    /// in any case.
    fn look<E>(
        &mut self,
        found: Stamps,
        is_asked: bool,
        read: impl FnOnce() -> Result<Identity, E>,
    ) -> Option<Result<Identity, E>> {
        if found == self.settled && !is_asked {
            self.unfinished = None;
            return None;
        }
        let outcome = read();
        if outcome.is_err() && self.unfinished != Some(found) && !is_asked {
            self.unfinished = Some(found);
            return None;
        }
        (self.settled, self.unfinished) = (found, None);
        Some(outcome)
    }
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, KeyPair};

    use super::*;

    fn identity() -> Identity {
        let key = KeyPair::generate().unwrap();
        let certificate = CertificateParams::new(vec!["localhost".to_owned()]).unwrap().self_signed(&key).unwrap();
        Identity::from_pem(certificate.pem().as_bytes(), key.serialize_pem().as_bytes()).unwrap()
    }

    #[test]
    fn a_change_is_taken_at_once_and_one_of_no_use_is_told_once_when_it_has_stayed() {
        let stamps = |certificate, key| [Some([certificate; 7]), Some([key; 7])];
        let mut watch = Watch { settled: stamps(1, 1), unfinished: None };
        // What the files are at each look, whether they can be used, and what is said.
        let looks = [
            (stamps(1, 1), true, ""),
            (stamps(2, 2), true, "shown"),
            (stamps(2, 2), true, ""),
            // The certificate comes first, its key a moment later.
            (stamps(3, 2), false, ""),
            (stamps(3, 3), true, "shown"),
            (stamps(4, 3), false, ""),
            (stamps(4, 3), false, "of no use"),
            (stamps(4, 3), false, ""),
            (stamps(5, 3), false, ""),
            (stamps(4, 3), false, ""),
            ([None, None], false, ""),
            ([None, None], false, "of no use"),
            (stamps(6, 6), true, "shown"),
        ];
        for (at, (stamps, usable, expected)) in looks.into_iter().enumerate() {
            let said = watch.look(stamps, false, || if usable { Ok(identity()) } else { Err(()) });
            let said = said.map_or("", |said| if said.is_ok() { "shown" } else { "of no use" });
            assert_eq!(said, expected, "look {at}");
        }
    }

    #[test]
    fn who_asks_is_told_at_once_what_there_is() {
        let stamps = |number| [Some([number; 7]); 2];
        let mut watch = Watch { settled: stamps(1), unfinished: None };
        for (number, is_usable) in [(1, true), (2, false), (2, false), (3, true), (3, true)] {
            let said = watch.look(stamps(number), true, || if is_usable { Ok(identity()) } else { Err(()) });
            assert_eq!(said.map(|said| said.is_ok()), Some(is_usable), "{number}");
            assert!(watch.look(stamps(number), false, || Err(())).is_none(), "{number}: it was told");
        }
    }
}
