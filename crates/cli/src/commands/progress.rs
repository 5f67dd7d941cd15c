//! `taskqueue progress`: writes what a run says of its progress to the file that the worker reads. Nothing is sent from here.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use taskqueue_core::json::JsonObject;
use taskqueue_worker::command::{PROGRESS_FILE_BYTES, PROGRESS_FILE_VARIABLE};

use crate::args::ProgressArgs;
use crate::config::path_in;
use crate::failure::Failure;
use crate::json_args::{object_members, object_with};

pub(crate) fn run(args: &ProgressArgs) -> Result<(), Failure> {
    let progress = object(args)?;
    let path = path_in(PROGRESS_FILE_VARIABLE).ok_or_else(|| {
        let why = "this is not inside a run of taskqueue loop";
        Failure::Usage(format!("{why}: {PROGRESS_FILE_VARIABLE}, which names the file of the run, is not set"))
    })?;
    replace(&path, progress.as_str())
        .map_err(Failure::because(format!("cannot write the progress to {}", path.display())))
}

fn object(args: &ProgressArgs) -> Result<JsonObject, Failure> {
    let whole = args.json.as_deref().map_or(Ok(Vec::new()), |text| object_members(text, "--json"))?;
    let progress = object_with(whole, "progress", &args.members)?;
    if progress.as_str().len() >= PROGRESS_FILE_BYTES {
        return Err(Failure::Usage(format!("the progress has to be shorter than {PROGRESS_FILE_BYTES} bytes")));
    }
    Ok(progress)
}

/// Replaces the file at once, so that nobody reads half of it.
fn replace(path: &Path, text: &str) -> io::Result<()> {
    // Several processes of a run may do this at the same time.
    let next = path.with_extension(format!("{}.new", std::process::id()));
    let written = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&next);
    let replaced = written.and_then(|mut file| file.write_all(format!("{text}\n").as_bytes()));
    let replaced = replaced.and_then(|()| fs::rename(&next, path));
    if replaced.is_err() {
        // The first error is the one that counts.
        drop(fs::remove_file(&next));
    }
    replaced
}
