//! A request shape: what must be stored before it, which fields it has, and how its largest instance is written.

use std::net::SocketAddr;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;
use taskqueue_core::limits::{BATCH_BODY_BYTES, BATCH_ITEMS};

use super::fields::{self, Place, Size};
use super::world;
use crate::client::Answer;

/// A kind of tasks that all reads share, stored once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum World {
    /// Tasks of a megabyte.
    Large,
    /// Tasks with as many routes as can be, each with others.
    Routes,
    /// Tasks with as many dependencies as can be.
    Dependent,
}

/// The tasks, queues and workers that are stored before a shape is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Before {
    /// The queue, without a task.
    Nothing,
    /// Not even the queue: each client has one of its own, which is not there yet.
    NoQueue,
    /// The tasks that all reads share.
    Stored(World),
    /// A pending task for each client, with what is heavy in the shape.
    Pending,
    /// Such a task, cancelled.
    Cancelled,
    /// So many running tasks for each client.
    Running(usize),
    /// A running task for each client, with as much output as is kept; of which text.
    Output(&'static str),
    /// So many tasks for all clients together; what is heavy in them.
    Shared(&'static str, usize),
    /// Such tasks, cancelled.
    SharedCancelled(&'static str, usize),
    /// A queue for each client, with so many tasks in all; what is heavy in them.
    OwnQueue(&'static str, usize),
    /// A queue for each client, with as many limits of routes as can be.
    LimitedQueue,
    /// As many workers as two pages show.
    Workers,
    /// A worker for each client.
    OwnWorker,
    /// Many queues with many routes each.
    ManyQueues,
    /// Tasks that wait for that of each client, which is not there yet, and others that wait for these: as many as the search for a
    /// circle reads.
    Waiting,
}

/// The least that an answer holds. A request that finds nothing is cheap whatever it may cost, so a row whose answer holds less than it says
/// fails, instead of showing nothing. Numbers are products, of which each factor is that of the full size: a small run has fewer tasks, and each has less in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Least {
    /// Nothing that was stored for it.
    Anything,
    Bytes(&'static [usize]),
    /// This text, so many times.
    Times(&'static str, &'static [usize]),
    /// A number behind this text.
    Number(&'static str, &'static [usize]),
    /// A refusal is an answer, too, if it comes at once: nothing says how many tasks one request may change.
    OrRefusal,
    /// `database_busy` is an answer, too: the memory of pending tasks may be full of what is stored.
    OrBusy,
}

impl Least {
    /// How the answer falls short of it.
    pub(super) fn lacking_in(self, answer: &Answer, size: Size) -> Option<String> {
        let (what, found, factors) = match self {
            Self::Anything | Self::OrRefusal | Self::OrBusy => return None,
            Self::Bytes(factors) => ("bytes", answer.body().len(), factors),
            Self::Times(text, factors) => (text, answer.text().matches(text).count(), factors),
            Self::Number(text, factors) => (text, number_behind(text, &answer.text()), factors),
        };
        // The least that a size makes of a number is two, and that may be more than it was.
        let expected = factors.iter().map(|factor| size.of(*factor).min(*factor)).product();
        (found < expected).then(|| format!("{what}: {found} in the answer instead of {expected}"))
    }
}

/// The number behind the first place of a text; 0 if there is none. People read it with commas between its digits.
fn number_behind(text: &str, answer: &str) -> usize {
    let rest = answer.split_once(text).map_or("", |(_, rest)| rest);
    let digits = rest.split(|c: char| !c.is_ascii_digit() && c != ',').next().unwrap_or_default();
    digits.replace(',', "").parse().unwrap_or(0)
}

/// A way in which a request can be as large as it may be.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    pub(super) method: &'static str,
    /// The template of its path.
    pub(super) path: &'static str,
    /// The field that takes the room, where not all fields can be as large as they may be at once.
    pub(super) heavy: &'static str,
    pub(super) before: Before,
    /// Fields, separated by blanks: `?name` of the query, `Name:` of the head, `&name` of a form, others of the body with their path.
    /// `name=key` takes the largest value of another name, and `name='word` this word. A group that ends with a dot or with `.[]` is
    /// the path of those behind it.
    groups: &'static [&'static str],
    /// The least that the answer of one that is alone holds.
    pub(super) least: Least,
}

pub(super) const fn shape(
    method: &'static str,
    path: &'static str,
    heavy: &'static str,
    before: Before,
    groups: &'static [&'static str],
) -> Shape {
    Shape { method, path, heavy, before, groups, least: Least::Anything }
}

#[derive(Clone, Debug)]
pub(super) struct Field {
    /// As in the list of fields that `/openapi.json` gives; its sign says where it stands.
    pub(super) name: String,
    /// Whose largest value it has; or that value itself, behind a quote.
    pub(super) key: &'static str,
}

impl Shape {
    pub(super) const fn holds(self, least: Least) -> Self {
        Self { least, ..self }
    }

    /// Returns true if it is a form of the dashboard.
    pub(super) fn is_form(&self) -> bool {
        self.method == "POST" && self.path.starts_with("/ui/")
    }

    /// Returns true if it asks for a page behind the first one.
    pub(super) fn has_cursor(&self) -> bool {
        self.fields().iter().any(|field| field.key == "cursor")
    }

    pub(super) fn name(&self) -> String {
        let heavy = if self.heavy.is_empty() { String::new() } else { format!(" ({})", self.heavy) };
        format!("{} {}{heavy}", self.method, self.path)
    }

    pub(super) fn fields(&self) -> Vec<Field> {
        let (mut fields, mut prefix) = (Vec::new(), "");
        for word in self.groups.iter().flat_map(|group| group.split(' ')) {
            if word.ends_with('.') || word.ends_with("[]") {
                prefix = word;
                continue;
            }
            let last = || word.rsplit(['.', '?', '&']).next().unwrap_or(word);
            let (name, key) = word.split_once('=').unwrap_or_else(|| (word, last()));
            let mut field = Field { name: name.to_owned(), key: key.trim_end_matches(':') };
            if field.is_of_body() {
                field.name.insert_str(0, prefix);
            }
            fields.push(field);
        }
        fields
    }

    /// Returns true if each client has a queue of its own.
    pub(super) fn has_own_queue(&self) -> bool {
        matches!(self.before, Before::NoQueue | Before::OwnQueue(..) | Before::LimitedQueue)
    }

    /// The queue of a client.
    pub(super) fn queue(&self, place: &Place<'_>) -> String {
        match self.before {
            Before::Stored(_) => world::queue(0, None),
            Before::ManyQueues => world::queue(place.turn, Some(0)),
            _ => world::queue(place.turn, self.has_own_queue().then_some(place.client)),
        }
    }

    /// The id of the task of a client.
    pub(super) fn task(&self, place: &Place<'_>) -> String {
        match self.before {
            Before::Stored(part) => world::stored(part, place.size).id('t'),
            _ => place.id('t'),
        }
    }

    /// How many items the batch has: as many as fit.
    pub(super) fn items(&self, place: &Place<'_>) -> usize {
        let most = if let Before::Running(tasks) = self.before { tasks } else { BATCH_ITEMS };
        let bytes = fields::written(&self.object(place, true), place).len() + 1;
        place.size.of(most).min((place.size.of(BATCH_BODY_BYTES) - 64) / bytes).max(1)
    }

    /// The fields of the body, or those of an item of it.
    fn object(&self, place: &Place<'_>, of_items: bool) -> Value {
        let mut object = Value::Null;
        for field in self.fields().iter().filter(|field| field.is_of_body() && !field.name.ends_with('*')) {
            let path = match field.name.split_once(".[]") {
                Some((_, path)) if of_items => path,
                None if !of_items => &field.name,
                _ => continue,
            };
            *path.split('.').fold(&mut object, |object, step| &mut object[step]) = field.value(place);
        }
        object
    }

    fn body(&self, place: &Place<'_>) -> String {
        let fields = self.fields();
        let Some((list, _)) = fields.iter().find_map(|field| field.name.split_once(".[]")) else {
            let object = self.object(place, false);
            return if object.is_null() { String::new() } else { fields::written(&object, place) };
        };
        let items = place.items(0, self.items(place));
        let items: Vec<String> = items.map(|place| fields::written(&self.object(&place, true), &place)).collect();
        format!(r#"{{"{list}":[{}]}}"#, items.join(","))
    }

    /// The path with its query.
    pub(super) fn target(&self, place: &Place<'_>) -> String {
        let task = self.task(place);
        let path =
            self.path.replace("{queue}", &self.queue(place)).replace("{task_id}", &task).replace("{task}", &task);
        let path = path.replace("{id}", &place.id('w')).replace("{part}", "args");
        let query = self.pairs('?', place);
        if query.is_empty() { path } else { format!("{path}?{}", query.join("&")) }
    }

    /// `name=value` of a query or a form.
    fn pairs(&self, sign: char, place: &Place<'_>) -> Vec<String> {
        let of_part = self.fields().into_iter().filter(|field| field.name.starts_with(sign));
        // The next page comes after the first one.
        let known = of_part.filter(|field| field.key != "cursor" || place.cursor.is_some());
        known.map(|field| format!("{}={}", &field.name[1..], encoded(&field.text(place)))).collect()
    }

    /// The whole request. `hidden` is what a form carries unseen.
    pub(super) fn request(&self, address: SocketAddr, place: &Place<'_>, hidden: &[(&str, String)]) -> Vec<u8> {
        let mut form = self.pairs('&', place);
        form.extend(hidden.iter().map(|(name, value)| format!("{name}={}", encoded(value))));
        let (kind, body) = match self.is_form() {
            true => ("application/x-www-form-urlencoded", form.join("&")),
            false => ("application/json", self.body(place)),
        };
        let headers = self.fields().into_iter().filter(|field| field.name.ends_with(':'));
        let mut head: String = headers.map(|field| format!("{} {}\r\n", field.name, field.text(place))).collect();
        if self.method != "GET" {
            head += &format!("content-type: {kind}\r\ncontent-length: {}\r\n", body.len());
        }
        format!("{} {} HTTP/1.1\r\nhost: {address}\r\n{head}\r\n{body}", self.method, self.target(place)).into_bytes()
    }

    /// Where one sees whether a client's request did something, if anything shows it for this client alone.
    pub(super) fn witness(&self, place: &Place<'_>) -> Option<String> {
        let queue = format!("/api/v2/queues/{}", self.queue(place));
        let of_task = || Some(format!("{queue}/tasks/{}", self.task(place)));
        match self.before {
            _ if self.method == "GET" => None,
            _ if self.has_own_queue() => Some(format!("{queue}/settings")),
            // The bulk update of any client changes the tasks of all.
            Before::Cancelled if self.path.ends_with("/tasks") => None,
            Before::Pending | Before::Cancelled | Before::Running(_) => of_task(),
            Before::Nothing | Before::Waiting if self.path.contains("/tasks") => of_task(),
            Before::Shared(..) if self.method == "PATCH" => {
                Some(format!("{queue}/tasks/count?filter=priority=={}", i64::MAX - place.client as i64))
            }
            _ => None,
        }
    }
}

impl Field {
    fn is_of_body(&self) -> bool {
        !self.name.starts_with(['?', '&']) && !self.name.ends_with(':')
    }

    fn value(&self, place: &Place<'_>) -> Value {
        match self.key.strip_prefix('\'') {
            Some(word) => word.into(),
            None => fields::largest(self.key, place).unwrap_or_default(),
        }
    }

    fn text(&self, place: &Place<'_>) -> String {
        match self.value(place) {
            Value::String(text) => text,
            other => fields::written(&other, place),
        }
    }
}

const PLAIN: AsciiSet = NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');
const REPEATED: AsciiSet = PLAIN.remove(b'&').remove(b'=');

/// As it stands in a query or a form. Parameters that are given several times hold their own separators.
fn encoded(text: &str) -> String {
    let is_repeated = ["&id=", "&column=", "&values="].iter().any(|name| text.contains(name));
    utf8_percent_encode(text, if is_repeated { &REPEATED } else { &PLAIN }).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_that_holds_less_than_its_row_says_is_told() {
        let answer = Answer::of(200, "", r#"{"count":1,234,"items":["r1","r2","r3"]}"#);
        let held = [
            Least::Anything,
            Least::Bytes(&[256, 2_560]),
            Least::Times("\"r", &[512]),
            Least::Times("\"r1\"", &[1]),
            Least::Number("\"count\":", &[1_234]),
        ];
        for least in held {
            assert_eq!(least.lacking_in(&answer, Size::Small), None, "{least:?}");
        }
        let lacking = [
            (Least::Bytes(&[25_600, 256]), "bytes: 40 in the answer instead of 200"),
            (Least::Times("\"r", &[1_024]), "\"r: 3 in the answer instead of 4"),
            (Least::Number("\"none\":", &[1]), "\"none\":: 0 in the answer instead of 1"),
        ];
        for (least, told) in lacking {
            assert_eq!(least.lacking_in(&answer, Size::Small).as_deref(), Some(told));
        }
    }
}
