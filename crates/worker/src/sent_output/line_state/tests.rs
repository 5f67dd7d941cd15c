//! Output as real programs print it, and what is to be seen of it.

use super::*;

/// Everything at the end, printed in pieces of any length.
#[track_caller]
fn at_the_end(printed: &str, expected: &str) {
    for piece in [1, 2, 3, 7, 100_000] {
        let mut lines = LineState::default();
        printed.as_bytes().chunks(piece).for_each(|bytes| lines.push(bytes));
        lines.end();
        let text = lines.take_finished() + &lines.take_all();
        assert_eq!(text, expected, "in pieces of {piece}");
        assert!(lines.is_shown());
    }
}

#[test]
fn plain_lines_stay_as_they_are() {
    at_the_end("one\n\n\ttwo\r\nthree", "one\n\n\ttwo\nthree");
    at_the_end("", "");
    at_the_end("\n", "\n");
    at_the_end("grüße 🦀 日本\n", "grüße 🦀 日本\n");
}

#[test]
fn a_bar_of_tqdm_is_its_last_state() {
    let bar = "\r  0%|          | 0/3 [00:00<?, ?it/s]\r 33%|███▎      | 1/3 [00:01<00:02,  1.00s/it]\
               \r 67%|██████▋   | 2/3 [00:02<00:01,  1.00s/it]\r100%|██████████| 3/3 [00:03<00:00,  1.00s/it]\
               \r100%|██████████| 3/3 [00:03<00:00,  1.00s/it]\nafter\n";
    at_the_end(bar, "100%|██████████| 3/3 [00:03<00:00,  1.00s/it]\nafter\n");
}

#[test]
fn the_downloads_of_pip_are_their_last_state() {
    let pip = "Collecting torch\n  Downloading torch-2.1.0.whl (670.2 MB)\n\
               \u{1b}[?25l     \u{1b}[90m━━━━━━\u{1b}[0m \u{1b}[32m0.0/670.2 MB\u{1b}[0m \u{1b}[31m?\u{1b}[0m eta \u{1b}[36m-:--:--\u{1b}[0m\
               \r\u{1b}[2K     \u{1b}[91m━━━\u{1b}[0m\u{1b}[90m━━━\u{1b}[0m \u{1b}[32m335.1/670.2 MB\u{1b}[0m\
               \r\u{1b}[2K     \u{1b}[90m━━━━━━\u{1b}[0m \u{1b}[32m670.2/670.2 MB\u{1b}[0m \u{1b}[31m9.9 MB/s\u{1b}[0m\n\u{1b}[?25hDone\n";
    at_the_end(
        pip,
        "Collecting torch\n  Downloading torch-2.1.0.whl (670.2 MB)\n     \u{1b}[90m━━━━━━\u{1b}[0m \u{1b}[32m670.2/670.2 MB\u{1b}[0m \u{1b}[31m9.9 MB/s\u{1b}[0m\nDone\n",
    );
}

#[test]
fn lines_that_docker_writes_again_are_their_last_state() {
    let docker = "Pulling\n a: Waiting\n b: Waiting\n\u{1b}[2A\u{1b}[2K a: Downloading 10%\r\u{1b}[1B\u{1b}[1B\
                  \u{1b}[1A\u{1b}[2K b: Pull complete\r\u{1b}[1B\u{1b}[2A\u{1b}[2K a: Pull complete\r\u{1b}[2BDone\n";
    at_the_end(docker, "Pulling\n a: Pull complete\n b: Pull complete\nDone\n");
}

#[test]
fn a_table_of_rich_that_is_drawn_again_is_there_once() {
    let frame = |n: u8| format!("┌────┐\n│ {n:>2} │\n└────┘");
    let again = "\r\u{1b}[2K\u{1b}[1A\u{1b}[2K\u{1b}[1A\u{1b}[2K";
    let mut rich = format!("\u{1b}[?25l{}", frame(0));
    (1..=20).for_each(|n| rich += &format!("{again}{}", frame(n)));
    rich += "\n\u{1b}[?25h";
    at_the_end(&rich, "┌────┐\n│ 20 │\n└────┘\n");
    at_the_end(&format!("{}{again}bye\n", frame(1)), "bye\n");
}

#[test]
fn overwriting_leaves_the_rest_of_the_line_unless_it_is_erased() {
    at_the_end("abcdef\rxy\n", "xycdef\n");
    at_the_end("abcdef\rxy\u{1b}[K\n", "xy\n");
    at_the_end("abcdef\u{8}\u{8}X\n", "abcdXf\n");
    at_the_end("abc\u{1b}[1K!\n", "   !\n");
    at_the_end("abcdef\u{1b}[3G-\u{1b}[C+\n", "ab-d+f\n");
    at_the_end("a\u{1b}[5Gb\n", "a   b\n");
    at_the_end("one\ntwo\nthree\u{1b}[2A\r\u{1b}[Jall\n", "all\n");
}

#[test]
fn colours_stay_and_each_line_has_its_own() {
    at_the_end("\u{1b}[31mred\u{1b}[0m plain\n", "\u{1b}[31mred\u{1b}[0m plain\n");
    at_the_end("\u{1b}[31mone\ntwo\u{1b}[m\n", "\u{1b}[31mone\u{1b}[0m\n\u{1b}[31mtwo\u{1b}[0m\n");
    at_the_end("\u{1b}[1m\u{1b}[31mx\u{1b}[0;32my\u{1b}[0m\n", "\u{1b}[1m\u{1b}[31mx\u{1b}[0m\u{1b}[0;32my\u{1b}[0m\n");
    at_the_end("\u{1b}[31m\u{1b}[0m\n", "\n");
}

#[test]
fn bytes_that_are_no_text_are_replaced() {
    let mut lines = LineState::default();
    lines.push(b"a\xffb\0c\xe2\x82");
    lines.end();
    assert_eq!(lines.take_all(), "a\u{fffd}bc\u{fffd}");
}

#[test]
fn an_unfinished_line_is_given_as_far_as_it_is_new() {
    let mut lines = LineState::default();
    lines.push(b"Name: ");
    assert_eq!((lines.take_finished(), lines.is_rewritten()), (String::new(), false));
    assert_eq!(lines.take_all(), "Name: ");
    assert!(lines.is_shown());
    lines.push(b"x");
    assert_eq!((lines.is_shown(), lines.take_all()), (false, "x".to_owned()));
    lines.push(b"y\nz");
    assert_eq!(lines.take_finished(), "y\n");
    assert_eq!(lines.take_all(), "z");
}

#[test]
fn a_line_that_changed_since_is_given_again_behind_a_carriage_return() {
    let mut lines = LineState::default();
    lines.push(b"10%");
    assert_eq!(lines.take_all(), "10%");
    lines.push(b"\r20%");
    assert!(lines.is_rewritten() && lines.take_finished().is_empty());
    assert_eq!(lines.take_all(), "\r20%");
    lines.push(b"\r30%\r40%\nnext\n");
    assert_eq!(lines.take_finished(), "\r40%\nnext\n");
    lines.push(b"\r\n");
    assert_eq!(lines.take_finished(), "\n");
}

#[test]
fn lines_that_a_cursor_goes_up_to_are_held_until_it_no_longer_does() {
    let mut lines = LineState::default();
    lines.push(b"log\na 1\nb 1\n\x1b[2Aa 2\nb 2\n");
    assert_eq!(lines.take_finished(), "log\n");
    lines.settle();
    lines.push(b"\x1b[2Aa 3\nb 3\n");
    assert_eq!(lines.take_finished(), "");
    assert!(lines.is_rewritten());
    lines.settle();
    lines.settle();
    assert_eq!(lines.take_finished(), "a 3\nb 3\n");
    // What was given away cannot be changed any more.
    lines.push(b"\x1b[2Aa 4\nb 4\n");
    assert_eq!(lines.take_all(), "a 4\nb 4\n");
}

#[test]
fn nothing_grows_without_end() {
    let mut lines = LineState::default();
    let mut text = String::new();
    for _ in 0..100 {
        lines.push(&[b'x'; 5000]);
        text += &lines.take_finished();
        assert!(lines.rows[0].len() <= LINE_CELLS);
    }
    assert_eq!((text + &lines.take_all()).len(), 500_000);

    let mut lines = LineState::default();
    lines.push("\u{1b}[99A".as_bytes());
    let (mut text, printed) = (String::new(), (0..5000).map(|n| format!("line {n}\n")).collect::<String>());
    for piece in printed.as_bytes().chunks(1000) {
        lines.push(piece);
        assert!(lines.rows.len() <= HELD_ROWS && lines.held_cells <= HELD_CELLS + LINE_CELLS);
        text += &lines.take_finished();
    }
    assert_eq!(text + &lines.take_all(), printed);

    let colours: String = (0..3000).map(|n| format!("\u{1b}[38;5;{n}mx")).collect();
    lines.push(colours.as_bytes());
    assert_eq!(lines.take_all().matches('x').count(), 3000);
    lines.push(b"\x1b[999999999C!\x1b[99999999999999999999C!\n");
    assert!(lines.take_finished().len() < 3 * LINE_CELLS);
}

#[test]
fn a_cursor_that_goes_far_to_the_right_does_not_make_blanks_without_end() {
    let mut lines = LineState::default();
    for _ in 0..1000 {
        lines.push(b"\x1b[99999Gx\x1b[99999Cy\n");
    }
    assert!(lines.take_finished().len() < 4 * 1000 * SCREEN_COLUMNS);
    let mut long = LineState::default();
    long.push(format!("{}\r\u{1b}[1500Cx", "a".repeat(2000)).as_bytes());
    assert_eq!(long.take_all(), format!("{}x{}", "a".repeat(1500), "a".repeat(499)));
}

/// Returns what a reader shows of a text: each line as it is behind its last carriage return. One at its end replaces nothing, so that a
/// Windows line end does not.
fn read(text: &str) -> Vec<String> {
    let shown = |line: &str| {
        let line = line.strip_suffix('\r').unwrap_or(line);
        line.rsplit_once('\r').map_or(line, |(_, last)| last).replace("\u{1b}[K", "")
    };
    text.split('\n').map(shown).collect()
}

#[test]
fn a_line_that_was_erased_is_said_to_be_empty() {
    let mut lines = LineState::default();
    lines.push(b"50%");
    assert_eq!(lines.take_all(), "50%");
    lines.push(b"\r\x1b[2K");
    assert_eq!(lines.take_all(), "\r\u{1b}[K");
    assert_eq!(lines.take_all(), "");
    lines.push(b"60%");
    assert_eq!(lines.take_all(), "60%");
    lines.push(b"\r\x1b[2K\nnext\n");
    assert_eq!(lines.take_finished(), "\r\u{1b}[K\nnext\n");
}

#[test]
fn a_reader_sees_the_same_lines_whenever_they_are_taken() {
    let parts = "a bc ü 🦀 \r \n \r\n \u{8} \u{1b}[K \u{1b}[2K \u{1b}[1K \u{1b}[3C \u{1b}[31m \u{1b}[0m";
    let parts: Vec<&str> = parts.split(' ').collect();
    let mut seed = 1_u64;
    let mut random = |below: usize| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) as usize % below
    };
    for trial in 0..20_000 {
        let printed: Vec<&str> = (0..random(30)).map(|_| parts[random(parts.len())]).collect();
        let (mut whole, mut parted, mut taken) = (LineState::default(), LineState::default(), String::new());
        whole.push(printed.concat().as_bytes());
        for part in &printed {
            parted.push(part.as_bytes());
            match random(4) {
                0 => taken += &parted.take_finished(),
                1 => taken += &parted.take_all(),
                _ => parted.settle(),
            }
        }
        taken += &parted.take_all();
        let expected = whole.take_all();
        assert_eq!(read(&taken), read(&expected), "{trial}: {printed:?}");
    }
}

/// Every way to cut this into three parts gives the same text.
#[test]
fn cuts_change_nothing() {
    let bytes = b"a\xc3\xbc\xe2\x82\xac\xf0\x9f\xa6\x80\xff\xc3(\xed\xa0\x80\xf0\x9f\xe2\x82z\xc0\x80\xf5";
    let expected = String::from_utf8_lossy(bytes).into_owned();
    for first in 0..=bytes.len() {
        for second in first..=bytes.len() {
            let mut decoder = Decoder::default();
            let parts = [&bytes[..first], &bytes[first..second], &bytes[second..]];
            let text: String = parts.iter().map(|part| decoder.push(part)).collect();
            assert_eq!(text, expected, "{first} {second}");
            assert!(!decoder.end());
        }
    }
}

#[test]
fn half_a_character_is_waited_for() {
    let mut decoder = Decoder::default();
    assert_eq!(decoder.push(b"x\xe2\x82"), "x");
    assert_eq!(decoder.push(b"\xac"), "€");
    assert_eq!(decoder.push(b"\xf0\x9f"), "");
    assert!(decoder.end());
    assert_eq!(decoder.push(b"y"), "y");
}
