//! `taskqueue task submit` and `taskqueue task sweep`: the commands that create tasks.

use std::path::PathBuf;

use clap::Args;
use taskqueue_core::fields::defined_fields;
use taskqueue_core::ids::TaskId;

use super::definition::{DefinitionArgs, ObjectArgs};
use super::scheduling::SchedulingArgs;
use super::values::{batch_label, task_id};

const SUBMIT_EXAMPLES: &str = "\
Examples:
  taskqueue task submit --name warm-up --arg lr=0.1 --arg model=resnet50
  taskqueue task submit --arg model.layers=2 --arg model.act=relu --route gpu --priority 5
  taskqueue task submit --args '{\"lr\": 0.1}'
  taskqueue task submit --from tasks.jsonl --dry-run
  taskqueue task submit --from tasks.jsonl --route gpu --name 'vit-{seed}'
  generate | taskqueue task submit --from -
  taskqueue task submit --name train --retry-delay 10s..1h --timeout 2h
  taskqueue task submit --name report --after t_lZxL89_zReNB --after-batch vit

The value of --arg is JSON if it is valid JSON, and text otherwise: lr=0.1 is a number,
model=resnet50 a string, model='\"7\"' the string 7. A dot in the key reaches inside:
model.layers=2 is {\"model\": {\"layers\": 2}}. A key that contains a dot itself is given as JSON:
--args '{\"a.b\": 1}'.

{LINES}

A line without id gets one that is derived from its args, its name and --batch. So the same file
can be submitted again, after an interruption or by mistake, and no task is created twice. Equal
lines are different tasks: three equal lines make three tasks. Tasks that are already there with
another priority, other routes, metadata, attempts or dependencies stay as they are, and the exit code is 1:
change them with task update, or make new ones with --batch LABEL. Tasks are created in about the
order of the lines.";

pub(super) fn submit_help() -> String {
    let names: Vec<&str> = defined_fields().map(|field| field.path).collect();
    let lines = format!(
        "With --from each line is one task: an object with any of {}, and id, such as {{\"name\": \"a\", \"args\": \
         {{\"lr\": 0.1}}}}. The flags count for lines that do not say it themselves. A line with dependencies does not \
         get those of --after. {{KEY}} in --name is filled in from the args of the line; {{{{ and }}}} stand for braces.",
        names.join(", ")
    );
    SUBMIT_EXAMPLES.replace("{LINES}", &lines)
}

pub(super) const SWEEP_EXAMPLES: &str = "\
Examples:
  taskqueue task sweep --arg lr=0.1,0.01 --arg seed=1..5                  # ten tasks
  taskqueue task sweep --arg lr=log:1e-5..1e-1..5 --arg model.layers=2,4  # ten, args nested
  taskqueue task sweep --arg dropout=0.1..0.5..0.1 --args '{\"model\": \"vit\"}'
  taskqueue task sweep --zip --arg lr=0.1,0.01 --arg steps=1000,5000      # two
  taskqueue task sweep --arg seed=1..400 --name 'vit-{seed}' --route gpu --dry-run
  taskqueue task sweep --arg seed=1..5 --batch vit --timeout 2h --retry-delay 1m
  taskqueue task sweep --arg part=1..3 --after-batch vit --on-dependency-failure cancel

Values are separated by commas, and each is JSON or text as in task submit. A..B are the integers
from A to B, both included. A..B..S goes in steps of S, which may be a decimal or negative.
log:A..B..N are N numbers from A to B, evenly spaced on a logarithmic scale, rounded to 12 digits.
A value with .. is a range if a number stands beside the dots, and refused if it is not a complete
one; other text with dots is text: ../data, a..b, 1.2.3. Quotes make text of everything, commas
included: 'file=\"1..5,x\"'.

A dot in the key reaches inside: model.layers=2,4. Keys that contain a dot themselves, and what
all tasks have, go into --args. {KEY} in --name is filled in from the args, such as {seed} and
{model.layers}; {{ and }} stand for braces.

Ids are derived from args, name and --batch, so the same sweep can be run again, also after an
interruption, and no task is created twice. Tasks that are already there with another priority,
other routes, metadata, attempts or dependencies stay as they are, and the exit code is 1: change them with task
update, or make new ones with --batch LABEL. A sweep has at most 1000000 tasks. task submit --from
reads what --dry-run --output jsonl prints.";

#[derive(Debug, Args)]
pub(crate) struct SubmitArgs {
    /// The id of the task [default: a random id]
    #[arg(long, value_name = "ID", value_parser = task_id)]
    pub(crate) id: Option<TaskId>,

    #[command(flatten)]
    pub(crate) object: ObjectArgs,

    #[command(flatten)]
    pub(crate) definition: DefinitionArgs,

    #[command(flatten)]
    pub(crate) scheduling: SchedulingArgs,

    /// A JSON Lines file with one task per line; - reads standard input
    #[arg(long, value_name = "FILE", conflicts_with_all = ["id", "args", "arg", "args_file"])]
    pub(crate) from: Option<PathBuf>,

    /// With --from: a label that makes other tasks of the same lines, and that --after-batch finds; kept as metadata.batch
    #[arg(long, value_name = "LABEL", value_parser = batch_label)]
    pub(crate) batch: Option<String>,

    /// Check and show what would be created, of many tasks the first and their number, and create none
    #[arg(long)]
    pub(crate) dry_run: bool,
}

#[derive(Debug, Args)]
pub(crate) struct SweepArgs {
    /// A member of args and its values (repeatable): KEY=V1,V2,... or KEY=A..B
    #[arg(long = "arg", value_name = "KEY=VALUES", required = true)]
    pub(crate) arg: Vec<String>,

    /// Take the first values of all keys together, then the second ones, instead of every combination
    #[arg(long)]
    pub(crate) zip: bool,

    /// The args that all tasks have, as one JSON object
    #[arg(long, value_name = "JSON")]
    pub(crate) args: Option<String>,

    #[command(flatten)]
    pub(crate) definition: DefinitionArgs,

    #[command(flatten)]
    pub(crate) scheduling: SchedulingArgs,

    /// A label that makes other tasks of the same values, and that --after-batch finds; kept as metadata.batch
    #[arg(long, value_name = "LABEL", value_parser = batch_label)]
    pub(crate) batch: Option<String>,

    /// Show the first tasks and their number, and create none
    #[arg(long)]
    pub(crate) dry_run: bool,
}
