//! What a measurement found, in the forms in which it is shown.

use serde_json::{Value, json};

use crate::args::Output;
use crate::goals::Judged;
use crate::{output, report};

/// Tables for people, the same figures as JSON, and their verdicts.
pub(crate) struct Results {
    pub(crate) text: String,
    pub(crate) figures: Value,
    pub(crate) judged: Vec<Judged>,
}

impl Results {
    /// Shows them; whether no must is missed. Those that are missed are named.
    pub(crate) fn show(&self, form: Output) -> bool {
        let Self { text, figures, judged } = self;
        output::line(&match form {
            Output::Text if judged.is_empty() => text.clone(),
            Output::Text => format!("{text}\n\n{}", report::goals(judged)),
            Output::Json => format!("{:#}", json!({ "figures": figures, "goals": report::goals_json(judged) })),
        });
        let missed = report::missed(judged);
        missed.iter().for_each(|line| output::progress(&format!("missed: {line}")));
        missed.is_empty()
    }
}
