//! The names that the flags of commands with many tasks describe, with placeholders (`taskqueue_core::name_template`).

use taskqueue_client::{Definition, JsonObject};
use taskqueue_core::name_template::{NameError, NameTemplate};

use crate::args::DefinitionArgs;
use crate::failure::Failure;
use crate::json_args::definition;

/// What the flags say for many tasks: their name, and a definition without name and args.
pub(crate) fn named_definition(given: &DefinitionArgs) -> Result<(Option<NameTemplate>, Definition), Failure> {
    let name = given.name.as_deref().map(parse).transpose()?;
    if let Some(name) = name.as_ref().filter(|name| !name.has_placeholders()) {
        name.fill(&JsonObject::empty()).map_err(|error| no_name(&error))?;
    }
    let unnamed = DefinitionArgs { name: None, ..given.clone() };
    Ok((name, definition(&unnamed, JsonObject::empty())?))
}

fn parse(text: &str) -> Result<NameTemplate, Failure> {
    NameTemplate::parse(text).map_err(|error| Failure::Usage(format!("--name {text}: {error}")))
}

/// Why a task gets no name, in the words of the command.
pub(crate) fn no_name(error: &NameError) -> Failure {
    Failure::Usage(format!("--name: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_cannot_be_is_refused_with_its_flag() {
        let message = |name: &str| {
            let given = DefinitionArgs { name: Some(name.to_owned()), ..DefinitionArgs::default() };
            named_definition(&given).err().and_then(|failure| failure.message().map(str::to_owned))
        };
        assert_eq!(message("vit-{seed}"), None);
        assert_eq!(
            message("{").as_deref(),
            Some("--name {: write {KEY} for a value of the args, {{ and }} for braces")
        );
        let long = message(&"x".repeat(257));
        assert_eq!(long.as_deref(), Some("--name: use at most 256 characters without control characters"));
    }
}
