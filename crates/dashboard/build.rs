//! Compresses the assets, and names the set of them by its content, so that browsers may keep it for ever.

use std::error::Error;
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs};

use flate2::Compression;
use flate2::write::GzEncoder;
use sha2::{Digest, Sha256};

/// Hexadecimal digits of the name: nobody makes two sets of assets with the same name by chance.
const NAME_DIGITS: usize = 16;

fn main() -> Result<(), Box<dyn Error>> {
    let assets = Path::new(&env::var("CARGO_MANIFEST_DIR")?).join("assets");
    let out = PathBuf::from(env::var("OUT_DIR")?);
    let mut files: Vec<PathBuf> =
        fs::read_dir(&assets)?.map(|entry| Ok(entry?.path())).collect::<Result<_, Box<dyn Error>>>()?;
    files.sort();
    let (mut digest, mut table) = (Sha256::new(), String::new());
    for file in files {
        let name = file.file_name().and_then(|name| name.to_str()).ok_or("the name of an asset is not text")?;
        let content = fs::read(&file)?;
        digest.update(name);
        digest.update(&content);
        let compressed = out.join(format!("{name}.gz"));
        let mut encoder = GzEncoder::new(fs::File::create(&compressed)?, Compression::best());
        encoder.write_all(&content)?;
        encoder.finish()?;
        writeln!(
            table,
            "    Asset {{ name: {name:?}, plain: include_bytes!({file:?}), gzip: include_bytes!({compressed:?}) }},"
        )?;
    }
    let name: String = digest.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
    let code = format!(
        "/// The name of the set of assets: a digest of their contents.\npub(crate) const SET: &str = {:?};\n\n\
         const ASSETS: &[Asset] = &[\n{table}];\n",
        &name[..NAME_DIGITS]
    );
    fs::write(out.join("assets.rs"), code)?;
    println!("cargo::rerun-if-changed=assets");
    Ok(())
}
