//! Puts secrets back into their places: each appears whole, none is overwritten, and all are taken away again unless the restore is
//! finished. One that is there already with the same content stays: a restore that was killed is simply run again.

use std::fs::{self, DirBuilder, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;
use taskqueue_store_sqlite::new_file::{NewFile, remove_leftovers};

use super::Part;
use crate::failure::Failure;
use crate::token;

/// A secret in memory. It has no `Debug`, which would show it.
pub(crate) struct Secret {
    pub(crate) part: Part,
    pub(crate) bytes: Vec<u8>,
    /// Where it was found: a path, or the name of a variable.
    pub(crate) path: String,
}

impl Secret {
    /// Whether a file with this content holds it. A token is the same with any line end, or without one.
    fn is(&self, content: &[u8]) -> bool {
        match self.part {
            Part::Token => token::without_line_end(content) == token::without_line_end(&self.bytes),
            _ => content == self.bytes,
        }
    }
}

/// What was put into its place. It is removed when this is dropped, unless it was kept.
#[derive(Default)]
pub(crate) struct PutBack {
    files: Vec<PathBuf>,
    folders: Vec<PathBuf>,
}

impl PutBack {
    /// Refuses a place that is taken by something else, and says whether the same is there already.
    pub(crate) fn is_there(secret: &Secret, place: &Path) -> Result<bool, Failure> {
        if fs::symlink_metadata(place).is_err() {
            return Ok(false);
        }
        // Behind a link the target counts. Another line end takes a byte.
        let most = secret.bytes.len() as u64 + 1;
        let may_be_same = fs::metadata(place).is_ok_and(|found| found.is_file() && found.len() <= most);
        if may_be_same && fs::read(place).is_ok_and(|content| secret.is(&content)) {
            return Ok(true);
        }
        Err(Failure::Refused(format!(
            "{} exists and is not the {} of the backup; secrets are never replaced, so nothing was changed; move it away, or \
             restore the database alone: --from DIR/{}",
            place.display(),
            secret.part.file_name(),
            Part::Database.file_name()
        )))
    }

    /// Makes the folder that a server would make for its own key.
    pub(crate) fn make_folder(&mut self, folder: &Path) -> Result<(), Failure> {
        let made = DirBuilder::new().mode(0o700).create(folder);
        match made {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Ok(()),
            made => made.map_err(|error| cannot_write(folder, &error))?,
        }
        self.folders.push(folder.to_owned());
        let owner = owner_of(folder.parent()).map_err(|error| cannot_write(folder, &error))?;
        let Some((user, group)) = owner else { return Ok(()) };
        give_folder(folder, user, group).map_err(|error| cannot_write(folder, &error))
    }

    /// Puts one secret into a place at which nothing is.
    pub(crate) fn put(&mut self, secret: &Secret, place: &Path, removed: &mut dyn FnMut(&Path)) -> Result<(), Failure> {
        remove_leftovers(place, removed);
        write(secret, place).map_err(|error| cannot_write(place, &error))?;
        self.files.push(place.to_owned());
        Ok(())
    }

    /// Everything is restored.
    pub(crate) fn keep(mut self) {
        self.files.clear();
        self.folders.clear();
    }
}

impl Drop for PutBack {
    fn drop(&mut self) {
        // What cannot be removed stays; the next restore finds that it is the same.
        self.files.iter().for_each(|file| drop(fs::remove_file(file)));
        self.folders.iter().for_each(|folder| drop(fs::remove_dir(folder)));
    }
}

/// Not by its name, behind which the owner of the folder above may have put a link meanwhile.
fn give_folder(folder: &Path, user: u32, group: u32) -> io::Result<()> {
    let flags = (OFlags::DIRECTORY | OFlags::NOFOLLOW).bits().cast_signed();
    // A slash at the end would follow a link after all.
    let folder = folder.components().as_path();
    let opened = OpenOptions::new().read(true).custom_flags(flags).open(folder)?;
    fchown(opened, Some(user), Some(group))
}

fn write(secret: &Secret, place: &Path) -> io::Result<()> {
    let new = NewFile::begin(place)?;
    let mut file = new.file();
    file.write_all(&secret.bytes)?;
    // What everybody may read stays root's: a server takes no tokens file of another user than root or itself.
    if !secret.part.is_for_everybody()
        && let Some((user, group)) = owner_of(place.parent())?
    {
        fchown(file, Some(user), Some(group))?;
    }
    file.set_permissions(Permissions::from_mode(secret.part.mode()))?;
    new.put_in_place(false)
}

/// Whose a file in this folder shall be, if this process is root: then a server that is not root can read what root restores.
fn owner_of(folder: Option<&Path>) -> io::Result<Option<(u32, u32)>> {
    let folder = folder.filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    if !rustix::process::geteuid().is_root() {
        return Ok(None);
    }
    let found = fs::metadata(folder)?;
    Ok((found.uid() != 0).then(|| (found.uid(), found.gid())))
}

fn cannot_write(path: &Path, error: &io::Error) -> Failure {
    Failure::Refused(format!("cannot write {}: {error}; nothing was changed", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secret(part: Part) -> Secret {
        Secret { part, bytes: b"hush\n".to_vec(), path: String::new() }
    }

    #[test]
    fn secrets_are_taken_away_again_unless_everything_is_restored() {
        let folder = tempfile::tempdir().unwrap();
        let (tls, token) = (folder.path().join("q.db.tls"), folder.path().join("token"));
        let put = || {
            let mut put = PutBack::default();
            put.make_folder(&tls).unwrap();
            put.put(&secret(Part::Key), &tls.join("key.pem"), &mut |_| {}).unwrap();
            put.put(&secret(Part::Token), &token, &mut |_| {}).unwrap();
            put
        };
        drop(put());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
        put().keep();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&tls), mode(&tls.join("key.pem")), mode(&token)), (0o700, 0o600, 0o600));
        // A folder that was there before stays.
        let mut again = PutBack::default();
        again.make_folder(&tls).unwrap();
        drop(again);
        assert!(tls.join("key.pem").exists());
    }

    #[test]
    fn a_secret_is_never_overwritten_and_the_same_one_is_there_already() {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().join("token");
        assert_eq!(PutBack::is_there(&secret(Part::Token), &place), Ok(false));
        for (content, expected) in [("hush\n", true), ("hash\n", false), ("", false)] {
            fs::write(&place, content).unwrap();
            let found = PutBack::is_there(&secret(Part::Token), &place);
            assert_eq!(found.is_ok_and(|is_there| is_there), expected, "{content:?}");
        }
        // A token that somebody wrote by hand, or behind a link.
        let link = folder.path().join("link");
        std::os::unix::fs::symlink(&place, &link).unwrap();
        for (content, part, expected) in [
            ("hush", Part::Token, true),
            ("hush\r\n", Part::Token, true),
            ("hush\n\n", Part::Token, false),
            ("hush", Part::Key, false),
            ("hush\n", Part::Key, true),
        ] {
            fs::write(&place, content).unwrap();
            for path in [&place, &link] {
                let found = PutBack::is_there(&secret(part), path);
                assert_eq!(found.is_ok_and(|is_there| is_there), expected, "{content:?} {part:?}");
            }
        }
        fs::write(&place, "").unwrap();
        let mut put = PutBack::default();
        let refused = put.put(&secret(Part::Token), &place, &mut |_| {}).unwrap_err();
        assert!(refused.message().is_some_and(|message| !message.contains("hush")), "{refused:?}");
        drop(put);
        assert_eq!(fs::read_to_string(&place).unwrap(), "", "what was there stays");
    }

    #[test]
    fn a_folder_is_not_given_away_through_a_link() {
        let folder = tempfile::tempdir().unwrap();
        let (target, link) = (folder.path().join("target"), folder.path().join("link"));
        fs::create_dir(&target).unwrap();
        std::os::unix::fs::symlink(&target, &link).unwrap();
        let (user, group) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
        give_folder(&target, user, group).unwrap();
        assert!(give_folder(&link, user, group).is_err());
        assert!(give_folder(&link.join(""), user, group).is_err());
    }

    #[test]
    fn what_everybody_may_read_is_put_back_for_everybody() {
        let modes = Part::ALL.map(Part::mode);
        assert_eq!(modes, [0o600, 0o644, 0o600, 0o600, 0o644]);
    }
}
