//! What a task is made of: its definition, the identity that makes creation idempotent, and its stored size
//! (docs/reference/http-api.md §6.2 to §6.4). Reading a definition from a request body is the business of the `api`
//! crate.

use std::cmp::Ordering;
use std::sync::Arc;

use sha2::{Digest, Sha256};

use crate::ids::Route;
use crate::json::{self, JsonObject, ObjectWriter};
use crate::limits::{
    MAX_ATTEMPTS_DEFAULT, PRIORITY_DEFAULT, ROUTE_DEFAULT, TASK_DATA_BYTES, TASK_NAME_CHARS, TASK_ROUTES,
};
use crate::refusal::Refusal;
use crate::scheduling::Scheduling;
use crate::time::Timestamp;

/// The routes of a task: at least one, distinct, sorted by code point. Kept as the JSON array that is stored and
/// returned, because that is what nearly every use of them wants.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Routes(Arc<str>);

/// Why a request may not give these routes to a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InvalidRoutes {
    /// More than [`TASK_ROUTES`].
    TooMany,
    /// None at all, or one of them twice.
    NoSet,
}

/// Refuses more routes than a request may name.
pub fn check_route_count(count: usize) -> Result<(), InvalidRoutes> {
    if count > TASK_ROUTES { Err(InvalidRoutes::TooMany) } else { Ok(()) }
}

impl Routes {
    /// The routes that a request gives to a task.
    pub fn requested(routes: Vec<Route>) -> Result<Self, InvalidRoutes> {
        check_route_count(routes.len())?;
        Self::new(routes).ok_or(InvalidRoutes::NoSet)
    }

    /// The set of these routes, however many; nothing when there is none or one is named twice.
    pub fn new(mut routes: Vec<Route>) -> Option<Self> {
        let given = routes.len();
        routes.sort();
        routes.dedup();
        if routes.is_empty() || routes.len() < given {
            return None;
        }
        // A route holds no character that JSON escapes.
        let text: Vec<String> = routes.iter().map(|route| format!("\"{route}\"")).collect();
        Some(Self(format!("[{}]", text.join(",")).into()))
    }

    /// Trusts `text` to be what [`Routes::as_json`] gave earlier.
    pub fn from_json(text: &str) -> Self {
        Self(text.into())
    }

    /// The JSON array.
    pub fn as_json(&self) -> &str {
        &self.0
    }

    /// The routes, sorted.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        routes_of(&self.0)
    }

    /// How many they are.
    pub fn count(&self) -> usize {
        self.0.bytes().filter(|byte| *byte == b',').count() + 1
    }

    /// Returns whether `route` is one of them, exactly and case-sensitively. They are sorted, so this halves the text until it is
    /// found: a stored task may have a hundred thousand.
    pub fn contains(&self, route: &str) -> bool {
        let mut among = self.0.trim_matches(['[', ']']);
        while !among.is_empty() {
            let (before, behind) = among.split_at(among.len() / 2);
            let start = before.rfind(',').map_or(0, |comma| comma + 1);
            let end = behind.find(',').map_or(among.len(), |comma| before.len() + comma);
            match among[start..end].trim_matches('"').cmp(route) {
                Ordering::Equal => return true,
                Ordering::Less => among = among.get(end + 1..).unwrap_or_default(),
                Ordering::Greater => among = &among[..start.saturating_sub(1)],
            }
        }
        false
    }
}

impl Default for Routes {
    fn default() -> Self {
        Self(format!("[\"{ROUTE_DEFAULT}\"]").into())
    }
}

/// The routes in the text that [`Routes::as_json`] gives.
pub fn routes_of(json: &str) -> impl Iterator<Item = &str> {
    json.trim_matches(['[', ']']).split(',').map(|quoted| quoted.trim_matches('"'))
}

/// Why a text is no task name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InvalidTaskName;

/// Checks a task name: at most 256 code points, none of category Cc. The empty name is a name.
pub fn task_name(text: &str) -> Result<Arc<str>, InvalidTaskName> {
    // A code point has at least one byte: most names are short enough without counting.
    let fits = text.len() <= TASK_NAME_CHARS || text.chars().count() <= TASK_NAME_CHARS;
    if fits && !text.chars().any(char::is_control) { Ok(text.into()) } else { Err(InvalidTaskName) }
}

/// The part of a task that creation and update set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Definition {
    /// A label for people; null and empty differ.
    pub name: Option<Arc<str>>,
    /// The input of the worker.
    pub args: JsonObject,
    /// Notes of the client.
    pub metadata: JsonObject,
    /// Higher is claimed first.
    pub priority: i64,
    /// The attempt budget, at least 1.
    pub max_attempts: i64,
    /// Who may claim it.
    pub routes: Routes,
    /// Beyond the contract.
    pub scheduling: Scheduling,
}

impl Default for Definition {
    fn default() -> Self {
        Self {
            name: None,
            args: JsonObject::empty(),
            metadata: JsonObject::empty(),
            priority: PRIORITY_DEFAULT,
            max_attempts: MAX_ATTEMPTS_DEFAULT,
            routes: Routes::default(),
            scheduling: Scheduling::default(),
        }
    }
}

/// The digest of a normalised creation request.
pub type Identity = [u8; 32];

impl Definition {
    /// Returns what makes two creations the same: the digest of the canonical JSON of all six members, and of what else is used.
    /// Since when a task may be claimed is part of its creation and not of its definition: a claim clears it.
    pub fn identity(&self, not_before: Option<Timestamp>) -> Identity {
        let mut text = Vec::with_capacity(self.args.as_str().len() + self.metadata.as_str().len() + 128);
        ObjectWriter::append_to(&mut text)
            .json("args", self.args.as_str())
            .integer("max_attempts", self.max_attempts)
            .json("metadata", self.metadata.as_str())
            .text_or_null("name", self.name.as_deref())
            .integer("priority", self.priority)
            .json("routes", self.routes.as_json())
            .optional(not_before, |object, at| object.time("not_before", at))
            .optional(self.scheduling.as_json(), |object, scheduling| object.json("scheduling", scheduling))
            .end();
        Sha256::digest(&text).into()
    }

    /// The size of the stored data without the result itself: the canonical JSON of all seven members, and of what else is
    /// used, is this many bytes plus the canonical result.
    pub fn stored_bytes(&self) -> usize {
        const FRAME: usize = r#"{"args":,"max_attempts":,"metadata":,"name":,"priority":,"result":,"routes":}"#.len();
        FRAME
            + self.args.as_str().len()
            + json::integer_len(self.max_attempts)
            + self.metadata.as_str().len()
            + self.name.as_deref().map_or("null".len(), json::string_len)
            + json::integer_len(self.priority)
            + self.routes.as_json().len()
            + self.scheduling.stored_bytes()
    }
}

/// Returns what the time before which a task is not claimable counts towards the stored size, at creation and update.
pub fn not_before_bytes(not_before: Option<Timestamp>) -> usize {
    const MEMBER: usize = r#","not_before":"2026-01-01T00:00:00.000000Z""#.len();
    not_before.map_or(0, |_| MEMBER)
}

/// Refuses a task whose stored data would exceed the limit: its definition, its result and its progress, which is a member like the
/// others where there is one.
pub fn check_stored_size(definition_bytes: usize, result_bytes: usize, progress_bytes: usize) -> Result<(), Refusal> {
    const MEMBER: usize = r#","progress":"#.len();
    let member = if progress_bytes > 0 { MEMBER } else { 0 };
    let bytes = definition_bytes + result_bytes + member + progress_bytes;
    if bytes > TASK_DATA_BYTES { Err(Refusal::TaskDataTooLarge) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::object;

    #[test]
    fn routes_are_a_sorted_set() {
        let route = |text| Route::parse(text).unwrap();
        let routes = Routes::new(vec![route("b"), route("A"), route("a.1")]).unwrap();
        assert_eq!(routes.as_json(), r#"["A","a.1","b"]"#);
        assert_eq!(routes.iter().collect::<Vec<_>>(), ["A", "a.1", "b"]);
        assert!(routes.contains("A") && !routes.contains("B") && !routes.contains("a"));
        assert_eq!(Routes::new(vec![route("a"), route("a")]), None);
        assert_eq!(Routes::new(vec![]), None);
    }

    #[test]
    fn a_route_is_found_among_any_number_of_routes_and_nothing_else_is() {
        for count in [1, 2, 3, 4, 7, 100, 257] {
            // Of different lengths, so that halves of the text are no halves of the list.
            let name = |n: usize| format!("{}{n}", "r".repeat(1 + n % 5));
            let routes = Routes::new((0..count).map(|n| Route::parse(&name(n)).unwrap()).collect()).unwrap();
            assert_eq!(routes.count(), count);
            assert!((0..count).all(|n| routes.contains(&name(n))), "{routes:?}");
            for other in [name(count).as_str(), "", "r", "R0", "0", "rrrrrrr", "A", "zzz", "r0\",\"rr1", ","] {
                assert!(!routes.contains(other), "{other:?} in {routes:?}");
            }
        }
    }

    #[test]
    fn a_request_may_give_a_task_up_to_256_distinct_routes() {
        let numbered = |count: usize| (0..count).map(|n| Route::parse(&format!("r{n}")).unwrap()).collect::<Vec<_>>();
        let mut repeated = numbered(255);
        repeated.push(repeated[7].clone());
        let cases = [
            (vec![], Err(InvalidRoutes::NoSet)),
            (numbered(1), Ok(1)),
            (numbered(256), Ok(256)),
            (numbered(257), Err(InvalidRoutes::TooMany)),
            (numbered(150_000), Err(InvalidRoutes::TooMany)),
            (repeated, Err(InvalidRoutes::NoSet)),
            // Many times the same one is too many as well: what is counted is what was sent.
            (vec![numbered(1)[0].clone(); 257], Err(InvalidRoutes::TooMany)),
        ];
        for (given, expected) in cases {
            let count = given.len();
            assert_eq!(Routes::requested(given).map(|routes| routes.iter().count()), expected, "{count} routes");
        }
        assert_eq!(Routes::new(numbered(300)).unwrap().iter().count(), 300, "what is stored stays readable");
    }

    #[test]
    fn a_task_name_has_at_most_256_code_points_and_no_control_character() {
        let unseen = "\u{200b}\u{feff}\u{ad}\u{2028}\u{2029}\u{e000}\u{378}";
        for name in ["", " ", &"é".repeat(256), &"😀".repeat(256), unseen, "\u{a0}"] {
            assert!(task_name(name).is_ok(), "{name:?}");
        }
        for name in ["a\nb", &"a".repeat(257), "\u{0}", "\u{7f}", "\u{9f}"] {
            assert!(task_name(name).is_err(), "{name:?}");
        }
    }

    #[test]
    fn the_smallest_stored_data_is_the_one_of_the_contract() {
        let smallest =
            r#"{"args":{},"max_attempts":3,"metadata":{},"name":null,"priority":0,"result":{},"routes":["default"]}"#;
        assert_eq!(Definition::default().stored_bytes() + "{}".len(), smallest.len());
    }

    #[test]
    fn identity_ignores_key_order_and_route_order_but_not_number_kinds() {
        let with_args = |text| Definition { args: object(text), ..Definition::default() }.identity(None);
        assert_eq!(with_args(r#"{"a":1,"b":2}"#), with_args(r#"{"b":2,"a":1}"#));
        assert_eq!(with_args(r#"{"a":1e2,"b":-0}"#), with_args(r#"{"a":100.0,"b":0}"#));
        assert_eq!(with_args(r#"{"a":"\u00e9"}"#), with_args(r#"{"a":"é"}"#));
        assert_ne!(with_args(r#"{"a":1}"#), with_args(r#"{"a":1.0}"#));
        assert_ne!(with_args(r#"{"a":0.0}"#), with_args(r#"{"a":-0.0}"#));
        assert_ne!(with_args(r#"{"a":[1,2]}"#), with_args(r#"{"a":[2,1]}"#));
        let named =
            |name: Option<&str>| Definition { name: name.map(Into::into), ..Definition::default() }.identity(None);
        assert_ne!(named(None), named(Some("")));
        assert_ne!(named(None), named(Some("null")));
        assert_eq!(with_args(r#"{"a":0.0}"#), with_args(r#"{"a":1e-400}"#));
        for (one, other) in [
            (r#"{"a":9007199254740993}"#, r#"{"a":9007199254740992}"#),
            (r#"{"a":1}"#, r#"{"a":true}"#),
            (r#"{"a":1}"#, r#"{"a":"1"}"#),
            (r#"{"a":null}"#, "{}"),
            (r#"{"a":[]}"#, r#"{"a":{}}"#),
            ("{\"a\":\"é\"}", "{\"a\":\"e\u{301}\"}"),
        ] {
            assert_ne!(with_args(one), with_args(other), "{one} {other}");
        }
        let others = [
            Definition { metadata: object(r#"{"a":1}"#), ..Definition::default() },
            Definition { priority: 1, ..Definition::default() },
            Definition { max_attempts: 4, ..Definition::default() },
            Definition { routes: Routes::new(vec![Route::parse("other").unwrap()]).unwrap(), ..Definition::default() },
        ];
        for other in others {
            assert_ne!(other.identity(None), Definition::default().identity(None), "{other:?}");
            assert_ne!(other.identity(None), with_args(r#"{"a":1}"#), "{other:?}");
        }
    }

    /// As labtasker 2.8 counts it.
    #[test]
    fn progress_counts_as_a_member_with_its_name() {
        let task = r#"{"args":{},"max_attempts":3,"metadata":{},"name":null,"priority":0,"progress":{"step":1},"result":{},"routes":["default"]}"#;
        let room = TASK_DATA_BYTES - task.len();
        let checked = |result| check_stored_size(Definition::default().stored_bytes(), result, r#"{"step":1}"#.len());
        assert_eq!(checked("{}".len() + room), Ok(()));
        assert_eq!(checked("{}".len() + room + 1), Err(Refusal::TaskDataTooLarge));
    }
}
