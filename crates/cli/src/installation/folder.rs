//! The folder of a backup with secrets, while it is written: under another name beside its place, for its owner only. It gets its
//! name when it is whole, as a file does (`new_file.rs` of the SQLite backend). What a killed command left is removed by the next.
//!
//! Secrets are put back so that each appears whole, none is overwritten, and all are taken away again unless the restore is finished.
//! One that is there already with the same content stays: a restore that was killed is simply run again.

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, OFlags, RenameFlags, renameat_with};
use taskqueue_store_sqlite::new_file::{NewFile, SUFFIX, leads_to, remove_leftovers, sync_folder, take_lock};

use super::{MANIFEST, Manifest, Part};
use crate::failure::Failure;
use crate::files::write_private;
use crate::output::warning;
use crate::token;

/// Removed when dropped, unless it has taken its place.
pub(crate) struct NewFolder {
    /// Where it will be, in a folder without symbolic links.
    pub(crate) place: PathBuf,
    /// Where it is until it takes its place.
    pub(crate) path: PathBuf,
    /// Locked, so that others see that it is being written.
    lock: File,
    placed: bool,
}

impl NewFolder {
    /// Begins a folder for this place. With `replace`, a backup that is there will be replaced. `removed` is told of what a killed
    /// command had left.
    pub(crate) fn begin(place: &Path, replace: bool, removed: &mut dyn FnMut(&Path)) -> Result<Self, Failure> {
        let cannot_write = Failure::cannot_write(place);
        let name = place.file_name().ok_or_else(|| cannot_write(io::Error::other("it is not the name of a folder")))?;
        let parent = place.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let parent = parent.canonicalize().map_err(&cannot_write)?;
        let place = parent.join(name);
        check_place(&place, replace)?;
        let mut partial = name.to_owned();
        partial.push(SUFFIX);
        let path = parent.join(partial);
        remove_leftover(&path, removed).map_err(&cannot_write)?;
        DirBuilder::new().mode(0o700).create(&path).map_err(&cannot_write)?;
        let lock = File::open(&path).map_err(&cannot_write)?;
        take_lock(&lock, &path).map_err(&cannot_write)?;
        Ok(Self { place, path, lock, placed: false })
    }

    /// Adds a file that only its owner can read.
    pub(crate) fn write(&self, name: &str, content: &[u8]) -> Result<(), Failure> {
        write_private(&self.path.join(name), content).map_err(Failure::cannot_write(&self.place.join(name)))
    }

    /// Syncs the folder and gives it its name.
    pub(crate) fn put_in_place(mut self, replace: bool) -> Result<(), Failure> {
        let place = self.place.clone();
        let unwritable = Failure::cannot_write(&place);
        self.lock.sync_all().map_err(&unwritable)?;
        if !leads_to(&self.path, &self.lock) {
            return Err(unwritable(io::Error::other(format!("{} was replaced", self.path.display()))));
        }
        match renameat_with(CWD, &self.path, CWD, &place, RenameFlags::NOREPLACE) {
            Err(rustix::io::Errno::EXIST) if replace => {
                // The copy took its time, and somebody may have put something else there.
                check_place(&place, true)?;
                // In one step, so that there is always a backup of this name.
                renameat_with(CWD, &self.path, CWD, &place, RenameFlags::EXCHANGE)
                    .map_err(|error| unwritable(error.into()))?;
                self.placed = true;
                // The new backup is there all the same.
                if let Err(error) = fs::remove_dir_all(&self.path) {
                    let old = self.path.display();
                    warning(&format!(
                        "cannot remove the old backup, now {old}, which holds secrets: {error}; remove it"
                    ));
                }
            }
            renamed => renamed.map_err(|error| unwritable(error.into()))?,
        }
        self.placed = true;
        sync_folder(&place).map_err(&unwritable)
    }
}

impl Drop for NewFolder {
    fn drop(&mut self) {
        if !self.placed && leads_to(&self.path, &self.lock) {
            // Nothing else can be done; the next one removes it.
            drop(fs::remove_dir_all(&self.path));
        }
    }
}

/// Refuses a place at which something would be lost that is no backup.
fn check_place(place: &Path, replace: bool) -> Result<(), Failure> {
    let shown = place.display();
    let Ok(found) = fs::symlink_metadata(place) else { return Ok(()) };
    let refused = |why: String| Err(Failure::Refused(why));
    if found.is_symlink() {
        return refused(format!("{shown} is a symbolic link; name the folder itself"));
    }
    if !found.is_dir() {
        return refused(format!("{shown} is not a folder, which --with-secrets makes; choose another --to"));
    }
    if !replace {
        return refused(format!("{shown} exists; choose another --to, or replace it with --replace"));
    }
    if Manifest::read(place).is_err() {
        return refused(format!("{shown} is not a backup with secrets, so it is not replaced; choose another --to"));
    }
    let entries = fs::read_dir(place).map_err(Failure::cannot_read(&shown))?;
    for entry in entries.flatten() {
        let name = entry.file_name();
        // Also the log of a database that a server was started on.
        if name != MANIFEST && !Part::ALL.iter().any(|part| name == part.file_name()) {
            let other = Path::new(&name).display();
            return refused(format!("{shown} holds {other}, which no backup made, so it is not replaced"));
        }
    }
    Ok(())
}

/// Removes a folder that a killed command left, unless another one is writing it.
fn remove_leftover(path: &Path, removed: &mut dyn FnMut(&Path)) -> io::Result<()> {
    if !fs::symlink_metadata(path).is_ok_and(|found| found.is_dir()) {
        return Ok(());
    }
    // Held until it is removed.
    let leftover = File::open(path)?;
    take_lock(&leftover, path)?;
    fs::remove_dir_all(path)?;
    drop(leftover);
    removed(path);
    Ok(())
}

/// A secret in memory. It has no `Debug`, which would show it.
pub(crate) struct Secret {
    pub(crate) part: Part,
    pub(crate) bytes: Vec<u8>,
    /// Its origin: a path, or the name of a variable.
    pub(crate) path: String,
}

impl Secret {
    /// Returns whether a file with this content holds it. A token is the same with any line end, or without one.
    fn is(&self, content: &[u8]) -> bool {
        match self.part {
            Part::Token => token::without_line_end(content) == token::without_line_end(&self.bytes),
            _ => content == self.bytes,
        }
    }
}

/// The files and folders that were put into their places. It is removed when this is dropped, unless it was kept.
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
            made => made.map_err(not_changed(folder))?,
        }
        self.folders.push(folder.to_owned());
        match owner_of(folder.parent()).map_err(not_changed(folder))? {
            Some((user, group)) => give_folder(folder, user, group).map_err(not_changed(folder)),
            None => Ok(()),
        }
    }

    /// Puts one secret into a place at which nothing is.
    pub(crate) fn put(&mut self, secret: &Secret, place: &Path, removed: &mut dyn FnMut(&Path)) -> Result<(), Failure> {
        remove_leftovers(place, removed);
        write(secret, place).map_err(not_changed(place))?;
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

fn not_changed(path: &Path) -> impl Fn(io::Error) -> Failure {
    move |error| Failure::cannot_write(path)(format!("{error}; nothing was changed"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn make(place: &Path, content: &[u8], replace: bool) -> Result<(), Failure> {
        let new = NewFolder::begin(place, replace, &mut |_| {})?;
        new.write("token", content)?;
        new.write(MANIFEST, &Manifest::default().to_json())?;
        new.put_in_place(replace)
    }

    #[test]
    fn a_folder_appears_whole_for_its_owner_only_and_replaces_nothing_but_a_backup() {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().join("backup");
        make(&place, b"first", false).unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&place), mode(&place.join("token"))), (0o700, 0o600));
        assert!(make(&place, b"second", false).unwrap_err().message().unwrap().contains("--replace"));
        make(&place, b"third", true).unwrap();
        assert_eq!(fs::read(place.join("token")).unwrap(), b"third");
        fs::write(place.join("letter"), "Dear reader").unwrap();
        assert!(make(&place, b"fourth", true).unwrap_err().message().unwrap().contains("letter"));
        fs::remove_file(place.join(MANIFEST)).unwrap();
        assert!(make(&place, b"fifth", true).unwrap_err().message().unwrap().contains("is not a backup"));
        assert_eq!(fs::read(place.join("token")).unwrap(), b"third");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "nothing is left behind");
    }

    #[test]
    fn what_a_killed_command_left_is_removed_and_what_another_one_writes_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let (place, partial) = (folder.path().join("backup"), folder.path().join("backup.taskqueue-partial"));
        let writing = NewFolder::begin(&place, false, &mut |_| {}).unwrap();
        assert!(make(&place, b"x", false).unwrap_err().message().unwrap().contains("another program"));
        drop(writing);
        assert!(!partial.exists());
        fs::create_dir(&partial).unwrap();
        fs::write(partial.join("token"), "half").unwrap();
        let mut told = Vec::new();
        drop(NewFolder::begin(&place, false, &mut |path| told.push(path.to_owned())).unwrap());
        assert_eq!(told.len(), 1);
        assert!(!partial.exists() && !place.exists());
    }

    #[test]
    fn what_somebody_changed_during_the_copy_is_found_before_it_is_lost() {
        let folder = tempfile::tempdir().unwrap();
        let (place, partial) = (folder.path().join("backup"), folder.path().join("backup.taskqueue-partial"));
        make(&place, b"first", false).unwrap();
        let new = NewFolder::begin(&place, true, &mut |_| {}).unwrap();
        fs::write(place.join("letter"), "Dear reader").unwrap();
        assert!(new.put_in_place(true).unwrap_err().message().unwrap().contains("letter"));
        assert!(place.join("letter").exists() && !partial.exists());

        let new = NewFolder::begin(&folder.path().join("other"), false, &mut |_| {}).unwrap();
        let partial = new.path.to_owned();
        fs::rename(&partial, folder.path().join("moved")).unwrap();
        fs::create_dir(&partial).unwrap();
        assert!(new.put_in_place(false).unwrap_err().message().unwrap().contains("was replaced"));
        assert!(partial.exists(), "it is another's");
    }

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
