//! Plots as SVG files. What stands in them is decided where it is measured.

mod canvas;

pub(crate) mod bars;
pub(crate) mod lines;

use std::fs;
use std::path::Path;

use crate::failure::{Failure, Result};
use crate::output;

/// Writes a plot into a folder, which is made if it is missing.
pub(crate) fn save(folder: &Path, name: &str, svg: &str) -> Result<()> {
    let file = folder.join(name);
    let written = fs::create_dir_all(folder).and_then(|()| fs::write(&file, svg));
    written.map_err(|error| Failure::new(format!("{}: {error}", file.display())))?;
    output::progress(&format!("wrote {}", file.display()));
    Ok(())
}
