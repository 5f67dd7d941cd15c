//! Looks for a program as execvp(3) does, without starting it: so that a worker whose command cannot run claims nothing.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, access};
use rustix::io::Errno;

use super::StartError;

/// Where execvp(3) looks without a `PATH`.
const DEFAULT_PATH: &str = "/bin:/usr/bin";

/// The kernel reads no more of the first line of a script.
const SCRIPT_LINE_BYTES: u64 = 256;

/// Finds the file that would be executed for this program.
///
/// # Errors
///
/// The program does not exist, or cannot be executed. A file that has the permission but is no program is not recognised.
pub fn find_program(program: &OsStr) -> Result<PathBuf, StartError> {
    find(program, std::env::var_os("PATH"))
}

fn find(program: &OsStr, path: Option<OsString>) -> Result<PathBuf, StartError> {
    let name = || program.to_string_lossy().into_owned();
    if program.as_bytes().contains(&b'/') {
        let file = PathBuf::from(program);
        return check(&file).map(|()| file).map_err(|error| StartError::new(&program.to_owned(), error));
    }
    let path = path.unwrap_or_else(|| DEFAULT_PATH.into());
    let mut refused = None;
    // An empty folder in PATH is the current one.
    let folders = std::env::split_paths(&path).filter(|_| !program.is_empty());
    for file in folders.map(|folder| folder.join(program)) {
        match check(&file) {
            Ok(()) => return Ok(file),
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => refused = Some(error),
            // A script whose interpreter is missing is not passed over by the kernel.
            Err(error) if file.is_file() => return Err(StartError::NotExecutable(file.display().to_string(), error)),
            Err(_) => {}
        }
    }
    Err(match refused {
        Some(error) => StartError::NotExecutable(name(), error),
        None => StartError::NotFound(name()),
    })
}

fn check(file: &Path) -> io::Result<()> {
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Err(Errno::ACCESS.into());
    }
    access(file, Access::EXEC_OK)?;
    match interpreter(file) {
        Some(interpreter) => interpreter.metadata().map(drop),
        None => Ok(()),
    }
}

/// The program that a script names in its first line. A program that cannot be read is not a script.
fn interpreter(file: &Path) -> Option<PathBuf> {
    let mut start = Vec::new();
    File::open(file).ok()?.take(SCRIPT_LINE_BYTES).read_to_end(&mut start).ok()?;
    let line = start.strip_prefix(b"#!")?.split(|byte| *byte == b'\n').next()?;
    let name = line.split(|byte| matches!(byte, b' ' | b'\t')).find(|word| !word.is_empty())?;
    Some(PathBuf::from(OsStr::from_bytes(name)))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn write(file: &Path, text: &str, mode: u32) {
        fs::write(file, text).unwrap();
        fs::set_permissions(file, fs::Permissions::from_mode(mode)).unwrap();
    }

    /// How looking for a program in these folders ends.
    fn outcome(program: impl AsRef<OsStr>, folders: &[&Path]) -> &'static str {
        match find(program.as_ref(), Some(std::env::join_paths(folders).unwrap())) {
            Ok(_) => "found",
            Err(StartError::NotFound(_)) => "not found",
            Err(StartError::NotExecutable(..)) => "not executable",
            Err(_) => "other",
        }
    }

    #[test]
    fn programs_are_found_as_the_system_finds_them() {
        let top = tempfile::tempdir().unwrap();
        let (first, second) = (top.path().join("first"), top.path().join("second"));
        fs::create_dir_all(first.join("folder")).unwrap();
        fs::create_dir(&second).unwrap();
        write(&first.join("plain"), "x", 0o600);
        write(&second.join("tool"), "#! /bin/sh -e\n", 0o700);
        write(&second.join("broken"), "#!/no/such/interpreter\n", 0o700);
        write(&first.join("later"), "x", 0o600);
        write(&second.join("later"), "#!/bin/sh", 0o700);
        let folders = [first.as_path(), second.as_path()];
        for (program, expected) in [
            ("tool", "found"),
            ("later", "found"),
            ("plain", "not executable"),
            ("broken", "not executable"),
            ("folder", "not executable"),
            ("nothing", "not found"),
            ("", "not found"),
        ] {
            assert_eq!(outcome(program, &folders), expected, "{program}");
        }
        for (program, expected) in [
            (second.join("tool"), "found"),
            (first.join("plain"), "not executable"),
            (first.join("folder"), "not executable"),
            (second.join("broken"), "not executable"),
            (second.join("tool/x"), "not executable"),
            (second.join("nothing"), "not found"),
        ] {
            assert_eq!(outcome(&program, &folders), expected, "{}", program.display());
        }
        assert!(find(OsStr::new("sh"), None).is_ok(), "without PATH there is a default");
    }
}
