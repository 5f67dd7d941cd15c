#![allow(clippy::unwrap_used, reason = "a test may end by panic")]

use taskqueue_core::access::{Grant, QueuePattern};

use super::super::{SharedTokens, Token, TokenSet};
use super::*;

const NOW: Timestamp = Timestamp::from_micros(1_767_225_600_000_000);

fn after(seconds: i64) -> Timestamp {
    Timestamp::from_micros(NOW.as_micros() + seconds * 1_000_000)
}

fn sessions(secret: u8) -> Sessions {
    Sessions::new(InstallationSecret::from_bytes(&[secret; 32]).unwrap())
}

fn named(name: &str, scope: Scope, expires_at: Option<Timestamp>) -> (TokenDigest, NamedToken) {
    let queues = QueuePattern::parse("experiments").into_iter().collect();
    let grant = Grant { scopes: [scope].into_iter().collect(), queues };
    (digest(name.as_bytes()), NamedToken::new(name, grant, expires_at))
}

/// `reader` sees one queue, `brief` too but only for a minute, `worker` sees nothing.
fn tokens() -> TokenSet {
    let tokens =
        [("reader", Scope::Read, None), ("brief", Scope::Read, Some(after(60))), ("worker", Scope::Work, None)];
    tokens.into_iter().map(|(name, scope, end)| named(name, scope, end)).collect()
}

fn gate() -> Gate {
    Gate::new(Token::parse("all"), Some(SharedTokens::new(tokens())))
}

fn cookie(token: &str) -> String {
    sessions(1).begin(&gate(), token, NOW).unwrap().value
}

fn is_good(cookie: &str) -> bool {
    sessions(1).find(&gate(), cookie, NOW).is_some()
}

#[test]
fn a_session_opens_what_its_token_opens() {
    let everything = sessions(1).find(&gate(), &cookie("all"), NOW).unwrap();
    assert!(everything.token.is_none() && everything.viewer.has_session());
    assert!(everything.viewer.name().is_none() && everything.viewer.may(Scope::Admin, "any"));
    let some = sessions(1).find(&gate(), &cookie("reader"), NOW).unwrap();
    assert_eq!((some.viewer.name(), &*some.token.unwrap().name), (Some("reader"), "reader"));
    assert!(some.viewer.sees("experiments") && !some.viewer.sees("other"));
    assert!(!some.viewer.may(Scope::Submit, "experiments"));
}

#[test]
fn a_wrong_token_and_one_that_cannot_read_get_no_session() {
    let begin = |token| sessions(1).begin(&gate(), token, NOW).map(drop);
    assert_eq!(begin("worker"), Err(SignInRefusal::NotForReading));
    for wrong in ["", "al", "alll", "READER", "all "] {
        assert_eq!(begin(wrong), Err(SignInRefusal::Wrong), "{wrong:?}");
    }
    let late = sessions(1).begin(&gate(), "brief", after(60)).map(drop);
    assert_eq!(late, Err(SignInRefusal::Wrong), "it has expired");
    assert_eq!(sessions(1).begin(&Gate::default(), "all", NOW).map(drop), Err(SignInRefusal::Wrong), "there is none");
}

#[test]
fn every_server_with_the_secret_and_the_token_accepts_a_session_and_no_other_one() {
    let cookie = cookie("reader");
    let other_server = Gate::new(None, Some(SharedTokens::new(tokens())));
    assert!(sessions(1).find(&other_server, &cookie, NOW).is_some());
    assert!(sessions(2).find(&other_server, &cookie, NOW).is_none(), "another installation");
    assert!(sessions(1).find(&Gate::from(Token::parse("all")), &cookie, NOW).is_none(), "it does not know the token");
    assert!(sessions(1).find(&Gate::default(), &cookie, NOW).is_none());
}

#[test]
fn a_session_ends_after_twelve_hours_with_its_token_or_when_that_is_removed() {
    let begun = sessions(1).begin(&gate(), "reader", NOW).unwrap();
    assert_eq!(begun.lifetime, Duration::from_secs(43_200));
    let at = |seconds| sessions(1).find(&gate(), &begun.value, after(seconds)).is_some();
    assert_eq!([at(0), at(43_199), at(43_200), at(99_999)], [true, true, false, false]);
    let brief = cookie("brief");
    let at = |seconds| sessions(1).find(&gate(), &brief, after(seconds)).is_some();
    assert_eq!([at(59), at(60)], [true, false]);

    let shared = SharedTokens::new(tokens());
    let gate = Gate::new(None, Some(shared.clone()));
    assert!(sessions(1).find(&gate, &begun.value, NOW).is_some());
    shared.replace([named("brief", Scope::Read, None)].into_iter().collect());
    assert!(sessions(1).find(&gate, &begun.value, NOW).is_none(), "its token was removed");
    assert!(sessions(1).find(&gate, &brief, NOW).is_some(), "another one was not");
}

#[test]
fn a_token_that_may_do_less_by_now_opens_less() {
    let shared = SharedTokens::new([named("x", Scope::Admin, None)].into_iter().collect());
    let gate = Gate::new(None, Some(shared.clone()));
    let cookie = sessions(1).begin(&gate, "x", NOW).unwrap().value;
    shared.replace([named("x", Scope::Work, None)].into_iter().collect());
    let session = sessions(1).find(&gate, &cookie, NOW).unwrap();
    assert!(!session.viewer.may_somewhere(Scope::Read) && !session.viewer.may(Scope::Admin, "experiments"));
}

#[test]
fn no_bit_of_a_session_can_be_changed_and_no_part_of_it_left_out() {
    let good = BASE64_URL_SAFE_NO_PAD.decode(cookie("reader")).unwrap();
    assert_eq!(good.len(), COOKIE_BYTES);
    for place in 0..good.len() * 8 {
        let mut forged = good.clone();
        forged[place / 8] ^= 1 << (place % 8);
        assert!(!is_good(&text(&forged)), "bit {place}");
    }
    for length in 0..good.len() {
        assert!(!is_good(&text(&good[..length])), "{length} bytes");
    }
    let longer = [&good[..], &[0]].concat();
    let huge = "A".repeat(1 << 20);
    for other in [text(&longer), format!("{}=", text(&good)), format!(" {}", text(&good)), huge, "é".to_owned()] {
        assert!(!is_good(&other));
    }
    assert!(is_good(&text(&good)));
}

/// Whoever has the tokens file knows digests and ids; whoever has a backup of the database knows the secret.
#[test]
fn neither_the_tokens_file_nor_the_database_is_enough_to_forge_a_session() {
    let (digest, end) = (digest(b"reader"), after(60).as_micros().to_be_bytes());
    let cookie = |by: &Sessions, sealed_for: &TokenDigest| {
        let id = TokenId::of(&digest);
        text(&[&[VERSION][..], &end, &by.hide(end, id).0, &by.seal(sealed_for, end, id)].concat())
    };
    assert!(is_good(&cookie(&sessions(1), &digest)), "with both it works");
    assert!(!is_good(&cookie(&sessions(0), &digest)), "without the secret");
    assert!(!is_good(&cookie(&sessions(1), &[0; 32])), "without the digest");
}

#[test]
fn a_session_tells_nothing_of_its_token_to_who_does_not_have_the_secret() {
    let bytes = BASE64_URL_SAFE_NO_PAD.decode(cookie("reader")).unwrap();
    let id = TokenId::of(&digest(b"reader"));
    assert!(!bytes.windows(TOKEN_ID_BYTES).any(|part| part == id.0));
}

#[test]
fn viewers_with_one_token_have_one_form_token_and_others_have_others() {
    let form_token = |secret, token: &str| {
        let cookie = sessions(secret).begin(&gate(), token, NOW).unwrap().value;
        sessions(secret).find(&gate(), &cookie, NOW).unwrap().viewer.form_token().to_owned()
    };
    let later = sessions(1).begin(&gate(), "all", after(9)).unwrap().value;
    let later = sessions(1).find(&gate(), &later, after(9)).unwrap().viewer;
    assert!(later.has_form_token(&form_token(1, "all")));
    let everybody = |secret| sessions(secret).of_everybody().viewer.form_token().to_owned();
    let all = [form_token(1, "all"), form_token(1, "reader"), form_token(2, "all"), everybody(1), everybody(2)];
    for (place, one) in all.iter().enumerate() {
        assert_eq!(one.len(), 43);
        assert!(!all[..place].contains(one));
    }
    assert!(!sessions(1).of_everybody().viewer.has_session());
}
