//! When a task may run and what it waits for: the members of a task that say so, in bodies and in answers.

use taskqueue_core::ids::TaskId;
use taskqueue_core::json::{Value, write_array, write_string};
use taskqueue_core::limits::{DEPENDENCIES_MAX, TIMEOUT_SECONDS_MAX};
use taskqueue_core::scheduling::{self, Dependencies, OnDependencyFailure, RetryDelay, Scheduling, SchedulingFields};
use utoipa::ToSchema;

use crate::body::{At, BodyErrors, Members, field};
use crate::object_reader::{ObjectReader, Unreadable};
use crate::wire_value::WireValue;

/// How long a task waits after an attempt that failed: `seconds` after the first one, `factor` times as long after each further
/// one, and never longer than `max_seconds`.
#[derive(ToSchema)]
#[schema(as = RetryDelay)]
#[serde(deny_unknown_fields)]
pub struct RetryDelaySchema {
    /// After the first attempt.
    #[schema(minimum = 0)]
    pub seconds: f64,
    /// How much longer each time.
    #[schema(minimum = 1, default = 2)]
    pub factor: Option<f64>,
    /// The longest delay.
    #[schema(minimum = 0, default = 86_400)]
    pub max_seconds: Option<f64>,
}

pub(crate) fn retry_delay(value: &Value<'_>, at: &At<'_>, errors: &mut BodyErrors) -> Option<RetryDelay> {
    let mut delay = Members::of(value, *at, &["seconds", "factor", "max_seconds"], errors)?;
    let seconds = delay.required("seconds", field::number_from_0);
    let factor = delay.optional("factor", field::or_absent(factor));
    let max_seconds = delay.optional("max_seconds", field::or_absent(field::number_from_0));
    RetryDelay::new(seconds?, factor, max_seconds)
}

fn factor(value: &Value<'_>, at: &At<'_>, errors: &mut BodyErrors) -> Option<f64> {
    let factor = field::number(value, at, errors)?;
    if factor < 1.0 {
        errors.add(at, "use a number from 1");
        return None;
    }
    Some(factor)
}

pub(crate) fn timeout_seconds(value: &Value<'_>, at: &At<'_>, errors: &mut BodyErrors) -> Option<i64> {
    let seconds = scheduling::run_limit(field::integer(value, at, errors)?);
    if seconds.is_none() {
        errors.add(at, format!("use an integer from 1 to {TIMEOUT_SECONDS_MAX}"));
    }
    seconds
}

pub(crate) fn dependencies(value: &Value<'_>, at: &At<'_>, errors: &mut BodyErrors) -> Option<Dependencies> {
    let Value::Array(items) = value else {
        errors.add(at, "use a list of task ids");
        return None;
    };
    let read = |(index, item)| field::task_id(item, &At::Index(at, index), errors);
    // All items are read, so that all wrong ones are reported.
    let ids: Vec<Option<TaskId>> = items.iter().enumerate().map(read).collect();
    let dependencies = Dependencies::new(ids.into_iter().collect::<Option<_>>()?);
    if dependencies.is_none() {
        errors.add(at, format!("name at most {DEPENDENCIES_MAX} different tasks"));
    }
    dependencies
}

pub(crate) fn on_dependency_failure(
    value: &Value<'_>,
    at: &At<'_>,
    errors: &mut BodyErrors,
) -> Option<OnDependencyFailure> {
    field::parsed(value, at, errors, OnDependencyFailure::parse, "use \"wait\" or \"cancel\"")
}

/// Reads these members of a task.
pub(crate) fn read(task: &ObjectReader<'_>) -> Result<Scheduling, Unreadable> {
    let fields = SchedulingFields {
        retry_delay: task.optional("retry_delay", WireValue::read)?,
        timeout_seconds: task.optional("timeout_seconds", WireValue::read)?,
        dependencies: task.optional("dependencies", WireValue::read)?.unwrap_or_default(),
        on_dependency_failure: task.optional("on_dependency_failure", WireValue::read)?.unwrap_or_default(),
    };
    Ok(fields.into())
}

impl WireValue for RetryDelay {
    type View<'a> = Self;

    fn view(&self) -> Self {
        *self
    }

    fn write(out: &mut Vec<u8>, delay: Self) {
        delay.write(out);
    }

    fn read(object: &ObjectReader<'_>, name: &'static str) -> Result<Self, Unreadable> {
        let delay = object.object(name)?;
        let numbers = (delay.number("seconds")?, delay.number("factor")?, delay.number("max_seconds")?);
        Self::new(numbers.0, Some(numbers.1), Some(numbers.2)).map_or_else(|| object.wrong(name), Ok)
    }
}

impl WireValue for Dependencies {
    type View<'a> = &'a Self;

    fn view(&self) -> &Self {
        self
    }

    fn write(out: &mut Vec<u8>, dependencies: &Self) {
        write_array(out, dependencies.as_slice(), |out, id| write_string(out, id.as_str()));
    }

    fn read(object: &ObjectReader<'_>, name: &'static str) -> Result<Self, Unreadable> {
        let id = |item: &Value<'_>| if let Value::Str(text) = item { TaskId::parse(text) } else { None };
        let ids: Option<Vec<TaskId>> = object.list(name)?.iter().map(id).collect();
        ids.and_then(Self::new).map_or_else(|| object.wrong(name), Ok)
    }
}

#[cfg(test)]
mod tests;
