//! What was typed into the builder of a sweep, and the plan that it gives.

use taskqueue_core::batch_label::labelled;
use taskqueue_core::dotted_keys::{KeyError, Members};
use taskqueue_core::fields::TimeComparison;
use taskqueue_core::json::{JsonObject, ObjectError, Value, parse};
use taskqueue_core::limits::{JSON_DEPTH, REQUEST_BODY_BYTES};
use taskqueue_core::name_template::NameTemplate;
use taskqueue_core::sweep::{AxisError, BROWSER_COMBINATIONS_MAX, Sweep, SweepError};
use taskqueue_core::{Definition, Timestamp};

use crate::address::Query;
use crate::field::{self, Field, PairRow};
use crate::task_fields::TaskFields;
use crate::{json_field, show};

/// Rows of the builder.
const ROWS_MIN: usize = 3;
const ROWS_MAX: usize = 64;

/// The fields of the builder, as they were typed, with what is wrong in each.
#[derive(Clone, Debug)]
pub(super) struct Typed {
    /// Keys with their values, and how many values these are, if they are right: `× 5`.
    pub(super) rows: Vec<PairRow>,
    pub(super) base: Field,
    pub(super) is_zip: bool,
    pub(super) fields: TaskFields,
    pub(super) batch: Field,
    /// What is wrong with the rows together.
    pub(super) error: Option<String>,
}

/// What makes the tasks.
#[derive(Debug)]
pub(super) struct Plan<'t> {
    pub(super) sweep: Sweep<'t>,
    pub(super) name: Option<NameTemplate>,
    /// What all tasks have beside args and name.
    pub(super) definition: Definition,
    /// Before when none of them is claimed.
    pub(super) not_before: Option<Timestamp>,
    pub(super) times: TimeComparison,
    pub(super) batch: Option<&'t str>,
}

impl Plan<'_> {
    pub(super) fn definition_at(&self, index: usize) -> Result<Definition, String> {
        let args = self.sweep.combination(index);
        let name = self.name.as_ref().map(|name| name.fill(&args)).transpose().map_err(|error| error.to_string())?;
        let metadata = labelled(self.definition.metadata.clone(), self.batch);
        Ok(Definition { name, args, metadata, ..self.definition.clone() })
    }
}

impl Typed {
    pub(super) fn of(form: &Query) -> Self {
        Self {
            rows: PairRow::with_empty_ones(axes_of(form).map(PairRow::of), 1, ROWS_MIN..=ROWS_MAX),
            base: Field::of(form, "base"),
            is_zip: form.filled("zip").is_some(),
            // The args of a sweep are its axes and its base.
            fields: TaskFields { args: Default::default(), ..TaskFields::of(form) },
            batch: Field::of(form, "batch"),
            error: None,
        }
    }

    /// Keys with their values, as they are in the rows.
    pub(super) fn axes(&self) -> impl Iterator<Item = (&str, &str)> {
        self.rows.iter().filter(|row| !row.is_empty()).map(|row| (row.name.as_str(), row.value.as_str()))
    }

    /// Returns whether nothing was typed yet.
    pub(super) fn is_empty(&self) -> bool {
        self.axes().next().is_none() && self.base.filled().is_none()
    }

    pub(super) fn name(&self) -> Option<&str> {
        Some(self.fields.name.value.as_str()).filter(|name| !name.is_empty())
    }

    /// The address parameters that bring all of it back.
    pub(super) fn parameters(&self) -> Query {
        let axes = self.axes().flat_map(|(key, values)| [("key", key), ("values", values)]);
        let others = [("base", self.base.value.as_str()), ("batch", self.batch.value.as_str())];
        let others = others.into_iter().chain(self.is_zip.then_some(("zip", "on")));
        let filled = others.filter(|(_, text)| !text.is_empty());
        self.fields.parameters([("way", "sweep")].into_iter().chain(axes).chain(filled).collect())
    }

    /// The plan of what was typed, in the form that this was read from; none if something is wrong, which then is said where it stands.
    pub(super) fn plan<'t>(&mut self, form: &'t Query) -> Option<Plan<'t>> {
        let name = self.name().map(NameTemplate::parse).transpose().map_err(|error| error.to_string());
        let name = self.fields.name.keep(name).and_then(|name| self.constant_name(name));
        let definition = self.fields.definition();
        let not_before = self.fields.waiting.not_before(show::now());
        let batch = self.batch.read(field::name).map(|name| name.and(form.get("batch")));
        let base = self.base.keep(read_base(form.get("base").unwrap_or_default()));
        let are_rows_whole = self.check_rows();
        let sweep = if are_rows_whole { self.sweep(form, base.unwrap_or_default()) } else { None };
        if self.base.error.is_some() {
            return None;
        }
        let (sweep, name, definition, not_before, batch) = (sweep?, name?, definition?, not_before?, batch?);
        Some(Plan { sweep, name, definition, not_before, times: self.fields.waiting.times(), batch })
    }

    /// A name without placeholders is right or wrong for all tasks.
    fn constant_name(&mut self, name: Option<NameTemplate>) -> Option<Option<NameTemplate>> {
        let Some(template) = name.as_ref().filter(|name| !name.has_placeholders()) else { return Some(name) };
        let filled = template.fill(&JsonObject::empty()).map_err(|error| error.to_string());
        self.fields.name.keep(filled)?;
        Some(name)
    }

    fn check_rows(&mut self) -> bool {
        if self.axes().next().is_none() {
            self.error = Some("Give at least one key with its values.".to_owned());
            return false;
        }
        // All of them are parsed together, and that takes many times as much.
        if self.rows.iter().map(|row| row.value.len()).sum::<usize>() > REQUEST_BODY_BYTES {
            let most = REQUEST_BODY_BYTES / 1024;
            self.error =
                Some(format!("The values of all keys may have {most} KiB together. Use the command for more."));
            return false;
        }
        for row in &mut self.rows {
            row.error = match (row.name.is_empty(), row.value.is_empty()) {
                (true, false) => Some("Name the key that takes these values.".to_owned()),
                (false, true) => Some("Give at least one value; write \"\" for empty text.".to_owned()),
                _ if row.name.contains('=') => {
                    Some("A key cannot contain =; put it into the args of all tasks.".to_owned())
                }
                _ => None,
            };
        }
        self.rows.iter().all(|row| row.error.is_none())
    }

    fn sweep<'t>(&mut self, form: &'t Query, base: Members<'t>) -> Option<Sweep<'t>> {
        let given: Vec<(&str, &str)> = axes_of(form).take(ROWS_MAX).collect();
        let error = match Sweep::new(base, &given, self.is_zip, BROWSER_COMBINATIONS_MAX) {
            Ok(sweep) => {
                for (row, (_, count)) in self.rows.iter_mut().zip(sweep.axes()) {
                    row.note = format!("× {}", show::number(count as u64));
                }
                return Some(sweep);
            }
            Err(error) => error,
        };
        match &error {
            SweepError::Axis { key, error } => {
                let rule = axis_rule(error);
                // Of two equal keys the second one is too much.
                match self.rows.iter_mut().rev().find(|row| row.name == *key) {
                    Some(row) => row.error = Some(rule),
                    None => self.error = Some(rule),
                }
            }
            other => self.error = Some(together(other)),
        }
        None
    }
}

/// Keys with their values, as they are in a form.
fn axes_of(form: &Query) -> impl Iterator<Item = (&str, &str)> {
    let pairs = form.all("key").zip(form.all("values")).map(|(key, values)| (key.trim(), values.trim()));
    pairs.filter(|pair| *pair != ("", ""))
}

fn axis_rule(error: &AxisError) -> String {
    match error {
        AxisError::Twice => "This key is there twice; give all its values in one row.".to_owned(),
        AxisError::Key(KeyError::TooDeep) => format!("Nest JSON at most {JSON_DEPTH} levels deep."),
        AxisError::Key(KeyError::NameMissing) => {
            "A name is missing beside a dot; put keys that contain dots into the args of all tasks.".to_owned()
        }
        // The rule is written for a shell, which takes the outer quotes away.
        AxisError::Values(rule) => rule.replace("'\"...\"'", "\"...\""),
        AxisError::NotAnObject(parent) => format!("{parent} is in the args of all tasks, and is not an object."),
        AxisError::Value(ObjectError::TooDeep) => format!("Nest JSON at most {JSON_DEPTH} levels deep."),
        AxisError::Value(_) => "Use integers of 64 bits, finite numbers and whole characters.".to_owned(),
    }
}

/// Returns what is wrong with several keys together.
fn together(error: &SweepError) -> String {
    match error {
        SweepError::Axis { key, error } => format!("{key}: {}", axis_rule(error)),
        SweepError::Together { first, second, .. } => format!("{second} is a part of {first}; give one of them."),
        SweepError::TooMany => {
            let most = show::number(BROWSER_COMBINATIONS_MAX as u64);
            format!(
                "These are more than {most} combinations. Split the sweep, use the command, or look for a range with a digit too many."
            )
        }
        SweepError::Lengths(lengths) => {
            let lengths: Vec<String> =
                lengths.iter().map(|(key, count)| format!("{key} has {}", show::number(*count as u64))).collect();
            format!(
                "Together, all keys need the same number of values: {}. What all tasks have goes into their args.",
                lengths.join(", ")
            )
        }
        SweepError::Base(_) => "The args of all tasks are nothing that a task may have.".to_owned(),
    }
}

/// The members of the args that all tasks have.
fn read_base(text: &str) -> Result<Members<'_>, String> {
    json_field::read(text)?;
    if let Ok(Value::Object(members)) = parse(text.as_bytes()) { Ok(members) } else { Ok(Vec::new()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn errors(form: &str) -> Vec<String> {
        let query = Query::parse(form);
        let mut typed = Typed::of(&query);
        assert!(typed.plan(&query).is_none(), "{form}");
        let rows = typed.rows.into_iter().filter_map(|row| row.error.map(|error| format!("{}: {error}", row.name)));
        rows.chain(typed.error)
            .chain(typed.base.error)
            .chain(typed.fields.name.error)
            .chain(typed.batch.error)
            .collect()
    }

    #[test]
    fn the_values_of_all_keys_together_are_bounded_before_they_are_parsed() {
        let half = "7".repeat(REQUEST_BODY_BYTES / 2);
        let form = format!("key=a&values={half}&key=b&values={half}&key=c&values=1");
        assert_eq!(errors(&form), ["The values of all keys may have 1024 KiB together. Use the command for more."]);
    }

    #[test]
    fn a_mistake_is_told_where_it_stands() {
        let cases = [
            (
                "key=lr&values=1..x",
                "lr: 1..x is no range: x is no number as JSON writes it; for text, put it in quotes: \"...\"",
            ),
            ("key=&values=1", ": Name the key"),
            ("key=lr&values=", "lr: Give at least one value"),
            ("key=a%3Db&values=1", "a=b: A key cannot contain ="),
            ("key=lr&values=1&key=lr&values=2", "lr: This key is there twice"),
            ("key=m&values=1&key=m.l&values=2", "m.l is a part of m"),
            ("key=lr&values=1,2&key=s&values=1..3&zip=on", "lr has 2, s has 3"),
            ("key=lr&values=1&base=%5B", "Line 1, column 2"),
            ("key=lr.x&values=1&base=%7B%22lr%22:1%7D", "lr is in the args of all tasks"),
            ("key=lr&values=1&name=%7B", "write {KEY}"),
            ("key=lr&values=1&batch=%00", "control characters"),
            ("", "at least one key"),
        ];
        for (form, expected) in cases {
            let errors = errors(form);
            assert!(errors.iter().any(|error| error.contains(expected)), "{form}: {errors:?}");
        }
    }

    #[test]
    fn a_billion_combinations_are_refused_at_once() {
        let axis = |key: &str| format!("key={key}&values=1..1000&");
        let form = format!("{}{}{}", axis("a"), axis("b"), axis("c"));
        let began = std::time::Instant::now();
        assert!(errors(&form)[0].contains("more than 100,000 combinations"));
        assert!(errors("key=a&values=1..1000000000")[0].contains("more values than fit"));
        // To go through them would take far longer.
        assert!(began.elapsed().as_secs() < 30, "{:?}", began.elapsed());
    }

    #[test]
    fn there_is_always_an_empty_row_and_the_address_brings_all_back() {
        let form =
            "way=sweep&key=a&values=1&key=b&values=2&key=c&values=3&base=%7B%7D&batch=x&zip=on&name=n&priority=5";
        let texts = Typed::of(&Query::parse(form));
        assert_eq!(texts.rows.len(), 4);
        assert_eq!(Typed::of(&texts.parameters()).parameters(), texts.parameters());
        assert_eq!(texts.parameters().to_string().len(), Query::parse(form).to_string().len());
    }
}
