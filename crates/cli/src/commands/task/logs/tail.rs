//! The last lines of output that came in pieces. Pure.

use taskqueue_client::Output;

/// Leaves the last lines; the end of the text may be a line without an end. Says whether something was left out.
pub(super) fn keep_last_lines(pieces: &mut Vec<Output>, lines: usize) -> bool {
    pieces.retain(|piece| !piece.text.is_empty());
    let Some(last) = pieces.len().checked_sub(1) else { return false };
    if lines == 0 {
        pieces.clear();
        return true;
    }
    let mut seen = 0;
    for index in (0..=last).rev() {
        let text = &pieces[index].text;
        let is_final = |at: usize| index == last && at + 1 == text.len();
        for (at, _) in text.rmatch_indices('\n').filter(|(at, _)| !is_final(*at)) {
            seen += 1;
            if seen == lines {
                let rest = text[at + 1..].to_owned();
                pieces.drain(..index);
                pieces[0].start = pieces[0].end - rest.len() as u64;
                pieces[0].text = rest;
                return true;
            }
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tail(texts: &[&str], lines: usize) -> (String, u64, bool) {
        let mut pieces = Vec::new();
        let mut start = 100;
        for text in texts {
            let end = start + text.len() as u64;
            pieces.push(Output { attempt: 1, start, end, text: (*text).to_owned(), ended: true });
            start = end;
        }
        let is_cut = keep_last_lines(&mut pieces, lines);
        let start = pieces.first().map_or(start, |piece| piece.start);
        (pieces.iter().map(|piece| piece.text.as_str()).collect(), start, is_cut)
    }

    #[test]
    fn the_last_lines_stay_wherever_the_pieces_are_cut() {
        let whole = "one\ntwo\nthree\n";
        for at in 0..=whole.len() {
            let pieces = [&whole[..at], &whole[at..]];
            assert_eq!(tail(&pieces, 2), ("two\nthree\n".to_owned(), 104, true), "{pieces:?}");
            assert_eq!(tail(&pieces, 3), (whole.to_owned(), 100, false), "{pieces:?}");
            assert_eq!(tail(&pieces, 1), ("three\n".to_owned(), 108, true), "{pieces:?}");
        }
        assert_eq!(tail(&["a\nb"], 1), ("b".to_owned(), 102, true));
        assert_eq!(tail(&["a\n\n"], 1), ("\n".to_owned(), 102, true));
        assert_eq!(tail(&["a\n"], 0), (String::new(), 102, true));
        assert_eq!(tail(&[], 5), (String::new(), 100, false));
        assert_eq!(tail(&["a\n"], usize::MAX), ("a\n".to_owned(), 100, false));
    }
}
