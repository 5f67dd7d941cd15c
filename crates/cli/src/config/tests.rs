//! The precedence of sources, and how values are shown.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use super::source::{ConfigFile, Content, user_file};
use super::*;

/// The keys that a file may have, as the refusal of another one lists them.
pub(crate) fn file_keys() -> Vec<String> {
    let refusal = toml::from_str::<Content>("no_such_key = 1").unwrap_err();
    let (_, keys) = refusal.message().split_once("expected one of").unwrap();
    keys.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

fn shown(config: &ClientConfig) -> Vec<String> {
    config.settings().iter().map(|setting| format!("{}={} {}", setting.name, setting.value, setting.source)).collect()
}

fn write(path: &Path, text: &str, mode: u32) {
    fs::write(path, text).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

fn resolve(flags: &ConnectionArgs, queue: Option<&str>, layers: &Layers) -> Vec<String> {
    let queue = QueueArg { queue: queue.and_then(QueueName::parse) };
    shown(&ClientConfig::resolve(flags, &queue, layers).unwrap())
}

#[test]
fn each_source_hides_those_below_it() {
    let folder = tempfile::tempdir().unwrap();
    let (project, user) = (folder.path().join("taskqueue.toml"), folder.path().join("user.toml"));
    write(&user, "url = 'http://user:1'\nqueue = 'user'\ntoken = 'ut'\nallow_insecure_token = true", 0o600);
    write(&project, "url = 'http://project:1'\nqueue = 'project'", 0o644);
    let read = |path: &Path| ConfigFile::read(path).unwrap().unwrap();
    let none = ConnectionArgs::default();
    let mut layers = Layers::default();
    let expected = [
        "url=http://127.0.0.1:8000 default",
        "queue=default default",
        "token=not set -",
        "allow_insecure_token=false default",
    ];
    assert_eq!(resolve(&none, None, &layers), expected);
    layers.user = Some(read(&user));
    let of_user = format!("file {}", user.display());
    let settings = ["url=http://user:1", "queue=user", "token=sent to http://user:1", "allow_insecure_token=true"];
    assert_eq!(resolve(&none, None, &layers), settings.map(|setting| format!("{setting} {of_user}")));
    layers.project = Some(read(&project));
    let of_project = format!("file {}", project.display());
    let expected = [format!("url=http://project:1 {of_project}"), format!("queue=project {of_project}")];
    assert_eq!(resolve(&none, None, &layers)[..2], expected);
    assert_eq!(resolve(&none, None, &layers)[2], format!("token=withheld: a project file names the URL {of_user}"));
    layers.url = Some("http://env:1".to_owned());
    layers.queue = Some("env".to_owned());
    layers.token = Some(Secret::new("et".to_owned()));
    let expected = [
        "url=http://env:1 environment TASKQUEUE_URL",
        "queue=env environment TASKQUEUE_QUEUE",
        "token=sent to http://env:1 environment TASKQUEUE_TOKEN",
    ];
    assert_eq!(resolve(&none, None, &layers)[..3], expected);
    let token = folder.path().join("token");
    write(&token, "ft\n", 0o600);
    let flags = ConnectionArgs {
        url: Some("http://flag:1".to_owned()),
        token_file: Some(token),
        allow_insecure_token: true,
        ..ConnectionArgs::default()
    };
    let expected = [
        "url=http://flag:1 flag --url",
        "queue=flag flag --queue",
        "token=sent to http://flag:1 flag --token-file",
        "allow_insecure_token=true flag --allow-insecure-token",
    ];
    assert_eq!(resolve(&flags, Some("flag"), &layers), expected);
}

#[test]
fn a_file_with_a_token_is_for_its_owner_only() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("taskqueue.toml");
    for mode in [0o604, 0o640, 0o644, 0o666, 0o610] {
        write(&path, "token = 'hush'", mode);
        let refused = ConfigFile::read(&path).unwrap_err();
        let message = refused.message().unwrap();
        assert!(message.contains("chmod 600") && !message.contains("hush"), "{message}");
    }
    write(&path, "token = 'hush'", 0o600);
    let token = ConfigFile::read(&path).unwrap().unwrap().token(true).unwrap();
    assert_eq!(token.read().unwrap().expose(), "hush");
    write(&path, "queue = 'q'", 0o644);
    assert!(ConfigFile::read(&path).unwrap().is_some());
}

#[test]
fn the_nearest_file_above_is_found_and_token_files_are_relative_to_it() {
    let folder = tempfile::tempdir().unwrap();
    let mut warnings = Vec::new();
    let deep = folder.path().join("a/b/c");
    fs::create_dir_all(&deep).unwrap();
    write(&folder.path().join("taskqueue.toml"), "queue = 'far'", 0o644);
    assert_eq!(ConfigFile::find_upwards(&deep, &mut warnings).unwrap().unwrap().content.queue.as_deref(), Some("far"));
    write(&folder.path().join("a/taskqueue.toml"), "queue = 'near'\ntoken_file = 'secret/token'", 0o644);
    fs::create_dir(folder.path().join("a/secret")).unwrap();
    write(&folder.path().join("a/secret/token"), "near", 0o600);
    let file = ConfigFile::find_upwards(&deep, &mut warnings).unwrap().unwrap();
    assert_eq!(file.content.queue.as_deref(), Some("near"));
    for location in [file.token(true), file.token(false)] {
        assert_eq!(location.unwrap().read().unwrap().expose(), "near");
    }
    assert_eq!(warnings, Vec::<String>::new());
}

#[test]
fn a_file_that_cannot_be_understood_is_named_with_its_line_and_without_its_content() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("taskqueue.toml");
    let cases = [
        ("queue = 'q'\ntokn = 'hush'", "line 2"),
        ("queue = 7", "line 1"),
        ("\n\ntoken = 'hush", "line 3"),
        ("token = 'hush'\ntoken_file = 'x'", "not both"),
    ];
    for (text, expected) in cases {
        write(&path, text, 0o600);
        let Err(Failure::Usage(message)) = ConfigFile::read(&path) else { panic!("{text}") };
        assert!(message.contains(expected) && !message.contains("hush"), "{text}: {message}");
    }
}

#[test]
fn the_users_file_is_where_the_system_wants_it() {
    let path = |config: Option<&str>, home: Option<&str>| user_file(config.map(Into::into), home.map(Into::into));
    assert_eq!(path(Some("/c"), Some("/h")), Some("/c/taskqueue/config.toml".into()));
    assert_eq!(path(None, Some("/h")), Some("/h/.config/taskqueue/config.toml".into()));
    assert_eq!(path(Some("relative"), Some("/h")), Some("/h/.config/taskqueue/config.toml".into()));
    assert_eq!(path(None, None), None);
}
