//! The fenced blocks of a page, with what an HTML comment in front of them says about running them. Nobody sees the comments
//! in the rendered book.
//!
//! - `<!-- not run: needs Slurm -->`: the block below is not run.
//! - `<!-- file: train.py -->`: the block below becomes this file.
//! - `<!-- run`, lines, `-->`: a script that is run and not shown.

/// What is done with a block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// `$ ` and a command, then what it prints.
    Session,
    /// Commands alone, each of which must succeed.
    Script,
    Python,
    /// Becomes the file of this name.
    File(String),
    Shown,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Block {
    /// The number of its first line, from 1.
    pub(crate) line: usize,
    pub(crate) language: String,
    pub(crate) text: String,
    pub(crate) not_run: Option<String>,
    pub(crate) file: Option<String>,
}

impl Block {
    pub(crate) fn kind(&self) -> Kind {
        match (&self.file, self.language.as_str()) {
            (Some(name), _) => Kind::File(name.clone()),
            (None, "console") => Kind::Session,
            (None, "sh") => Kind::Script,
            (None, "python") => Kind::Python,
            _ => Kind::Shown,
        }
    }
}

pub(crate) fn of(text: &str) -> Vec<Block> {
    let (mut blocks, mut comment) = (Vec::new(), String::new());
    let mut lines = text.lines().enumerate();
    while let Some((number, line)) = lines.next() {
        let (trimmed, indent) = (line.trim_start(), line.len() - line.trim_start().len());
        if let Some(info) = trimmed.strip_prefix("```") {
            let fence = &trimmed[..trimmed.len() - info.trim_start_matches('`').len()];
            let inside = lines.by_ref().take_while(|(_, line)| line.trim() != fence);
            let text = inside.map(|(_, line)| line.get(indent..).unwrap_or("").to_owned() + "\n").collect();
            let language = info.trim_start_matches('`').to_owned();
            blocks.push(Block {
                line: number + 2,
                language,
                text,
                not_run: said(&comment, "not run:"),
                file: said(&comment, "file:"),
            });
            comment.clear();
        } else if trimmed == "<!-- run" {
            let inside = lines.by_ref().take_while(|(_, line)| line.trim() != "-->");
            let text = inside.map(|(_, line)| line.to_owned() + "\n").collect();
            blocks.push(Block { line: number + 2, language: "sh".to_owned(), text, ..Block::default() });
        } else if !trimmed.is_empty() {
            trimmed.clone_into(&mut comment);
        }
    }
    blocks
}

/// What a comment of one line says behind a word.
fn said(comment: &str, word: &str) -> Option<String> {
    Some(comment.strip_prefix("<!-- ")?.strip_suffix("-->")?.strip_prefix(word)?.trim().to_owned())
}

#[test]
fn blocks_have_their_language_and_what_is_said_of_them() {
    let page = "a\n```sh\nls\n```\n\n<!-- not run: no GPU -->\n  ```console\n  $ x\n    y\n  ```\n<!-- run\nz\n-->\n<!-- file: a.py -->\n```python\np\n```\n````\n```\n````\n";
    let block = |line, language: &str, text: &str| Block {
        line,
        language: language.to_owned(),
        text: text.to_owned(),
        ..Block::default()
    };
    let expected = [
        block(3, "sh", "ls\n"),
        Block { not_run: Some("no GPU".to_owned()), ..block(8, "console", "$ x\n  y\n") },
        block(12, "sh", "z\n"),
        Block { file: Some("a.py".to_owned()), ..block(16, "python", "p\n") },
        block(19, "", "```\n"),
    ];
    assert_eq!(of(page), expected);
    assert_eq!(expected[1].kind(), Kind::Session);
    assert_eq!(expected[3].kind(), Kind::File("a.py".to_owned()));
}
