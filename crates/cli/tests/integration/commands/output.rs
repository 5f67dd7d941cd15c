//! Rules for all output: escaped text, plain when piped, no error when the reader closes the pipe.

use std::io::{BufRead, BufReader};

use super::support::{Server, numbered_lines, start};

#[test]
fn text_of_others_cannot_command_the_terminal() {
    let args = "{\"text\":\"\\u001b[31m\u{9b}\u{202e}\u{7f}\"}";
    let server = Server::with_task(&["--args", args, "--name", "evil\u{202e}name"]);
    server.claim("default", 1);
    let error = "{\"type\":\"E\",\"message\":\"\\u001b]0;title\\u0007\\r\\n\u{85}\",\"traceback\":\"a\\u001b[2Jb\"}";
    let body = format!(r#"{{"run_id":"r_run000000001","error":{error}}}"#);
    assert_eq!(server.post("tasks/t_aaaaaaaaaaaa/fail", &body), 204);
    let is_harmful = |character: char| {
        (character.is_control() && character != '\n')
            || matches!(character, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    for line in ["task list", "task get t_aaaaaaaaaaaa"] {
        for format in ["table", "json", "jsonl"] {
            let shown = server.run(&format!("{line} -o {format}")).ok();
            assert!(!shown.contains(is_harmful), "{line} {format}: {shown:?}");
            if format.starts_with("json") {
                let value: serde_json::Value = serde_json::from_str(&shown).unwrap();
                let task = value.get(0).unwrap_or(&value);
                assert_eq!(task["args"]["text"], "\u{1b}[31m\u{9b}\u{202e}\u{7f}");
                assert_eq!(task["name"], "evil\u{202e}name");
            }
        }
    }
    assert!(server.run("task list").ok().contains(r"evil\u{202e}name"));
}

#[test]
fn csv_keeps_every_character_and_holds_no_formula() {
    let server = Server::start();
    let text = "two\r\nlines \u{1b}[31m\u{9b}\u{202e}\\r";
    let args = serde_json::json!({ "text": text, "formula": "=1+1", "less": -5 }).to_string();
    server.submit("t_aaaaaaaaaaaa", &["--args", &args, "--name", "@name"]);
    let list =
        |flags: &str| server.run(&format!("task list --columns id,name,args.formula,args.less,args.text {flags}")).ok();
    let head = "id,name,args.formula,args.less,args.text\n";
    assert_eq!(list("-o csv"), format!("{head}t_aaaaaaaaaaaa,'@name,'=1+1,-5,\"{text}\"\n"));
    for raw in ["--raw-csv", "-o csv --raw-csv"] {
        assert_eq!(list(raw), format!("{head}t_aaaaaaaaaaaa,@name,=1+1,-5,\"{text}\"\n"));
    }
    assert_eq!(server.run("--raw-csv task list --columns name").ok(), "name\n@name\n");
}

#[test]
fn raw_csv_is_no_other_format() {
    let server = Server::start();
    for line in ["task list --raw-csv -o json", "-o jsonl task list --raw-csv", "queue list -o quiet --raw-csv"] {
        server.run(line).refuses_with(2, &["'--raw-csv' cannot be used with '--output "]);
    }
    server.run("queue list -o table --raw-csv").ok();
}

#[test]
fn numbers_come_back_as_they_are() {
    let args = r#"{"big":9007199254740993,"exp":1e300,"float":1.0,"zero":-0.0}"#;
    let server = Server::with_task(&["--args", args, "--priority", "-9223372036854775808"]);
    let parts = [r#""big":9007199254740993,"#, r#""float":1.0,"zero":-0.0"#, r#""priority":-9223372036854775808"#];
    server.run("task get t_aaaaaaaaaaaa -o json").ok_with(&parts);
}

#[test]
fn piped_output_is_neither_coloured_nor_cut() {
    let long = "x".repeat(250);
    let server = Server::with_task(&["--name", &long, "--arg", &format!("y={long}")]);
    let shown = server.run("task list").ok();
    assert!(shown.contains(&format!("{{\"y\":\"{long}\"}}")) && !shown.contains('\u{1b}'), "{shown}");
}

#[test]
fn a_closed_pipe_ends_the_command_quietly() {
    let server = Server::start();
    server.run_reading("task submit --from -", &numbered_lines(3000)).ok();
    for format in ["table", "json", "jsonl", "csv", "quiet"] {
        let mut child = start(&mut server.command(&["task", "list", "--all", "-o", format]));
        let mut line = String::new();
        BufReader::with_capacity(16, child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let ended = child.wait_with_output().unwrap();
        assert_eq!((ended.status.code(), ended.stderr), (Some(0), Vec::new()), "{format}");
    }
}
