//! `taskqueue progress`: writes what a run says of its progress to the file that the worker reads. Nothing is sent from here.

use std::io::Write;

use taskqueue_core::json::JsonObject;
use taskqueue_worker::command::{PROGRESS_FILE_BYTES, PROGRESS_FILE_VARIABLE};

use crate::args::ProgressArgs;
use crate::config::path_in;
use crate::failure::Failure;
use crate::files::replace_file;
use crate::json_args::{object_members, object_with};

pub(crate) fn run(args: &ProgressArgs) -> Result<(), Failure> {
    let progress = object(args)?;
    let path = path_in(PROGRESS_FILE_VARIABLE).ok_or_else(|| {
        let why = "this is not inside a run of taskqueue loop";
        Failure::Usage(format!("{why}: {PROGRESS_FILE_VARIABLE}, which names the file of the run, is not set"))
    })?;
    // Several processes of a run may do this at the same time.
    let new = path.with_extension(format!("{}.new", std::process::id()));
    replace_file(&path, &new, |mut file| file.write_all(format!("{}\n", progress.as_str()).as_bytes()))
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
