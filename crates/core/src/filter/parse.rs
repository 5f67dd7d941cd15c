//! Tokens to a tree, by recursive descent: one function per rule of the grammar, nesting counted.
//! Which paths exist and which literals they take is decided by a [`FieldSet`].

use std::mem;

use super::ast::{Expression, Literal, Membership, Number, Test};
use super::fields::{FieldSet, Path, Question};
use super::lexer::{Lexer, Operator, Token};
use super::suggest;
use super::{At, Fault};
use crate::limits::FILTER_DEPTH;

const A_PREDICATE: &str = "a predicate such as `id == 'x'`";
const A_LITERAL: &str = "a literal";
const AN_OPERATOR: &str = "a comparison, `in` or `not in`";

/// The expression that `text` holds.
pub(super) fn parse<P: FieldSet>(text: &str) -> Result<Expression<P>, Fault> {
    let mut lexer = Lexer::new(text);
    let token = lexer.next();
    let mut parser = Parser { lexer, token, depth: 0 };
    let expression = parser.disjunction()?;
    match parser.token.value {
        Token::End => Ok(expression),
        _ => Err(parser.unexpected("`and`, `or` or the end of the filter")),
    }
}

struct Parser<'a> {
    lexer: Lexer<'a>,
    /// The token to be read next.
    token: At<Token<'a>>,
    /// How many parentheses and `not` are open here.
    depth: usize,
}

impl<'a> Parser<'a> {
    fn disjunction<P: FieldSet>(&mut self) -> Result<Expression<P>, Fault> {
        let mut parts = vec![self.conjunction()?];
        while self.take_word("or") {
            parts.push(self.conjunction()?);
        }
        Ok(Expression::any(parts))
    }

    fn conjunction<P: FieldSet>(&mut self) -> Result<Expression<P>, Fault> {
        let mut parts = vec![self.negation()?];
        while self.take_word("and") {
            parts.push(self.negation()?);
        }
        Ok(Expression::all(parts))
    }

    fn negation<P: FieldSet>(&mut self) -> Result<Expression<P>, Fault> {
        match self.token.value {
            Token::Word("not") => {
                self.open()?;
                let part = self.negation()?;
                self.depth -= 1;
                Ok(Expression::Not(Box::new(part)))
            }
            Token::Symbol('(') => {
                self.open()?;
                let inner = self.disjunction()?;
                self.expect(')', "`and`, `or` or `)`")?;
                self.depth -= 1;
                Ok(inner)
            }
            _ => self.predicate().map(Expression::Is),
        }
    }

    fn predicate<P: FieldSet>(&mut self) -> Result<P, Fault> {
        let (path, question) = match self.token.value {
            Token::Word("exists") => self.presence(true)?,
            Token::Word("missing") => self.presence(false)?,
            Token::Word(word) if !suggest::KEYWORDS.contains(&word) => self.path_first()?,
            _ => self.literal_first()?,
        };
        P::resolve(&path, question)
    }

    fn presence(&mut self, exists: bool) -> Result<(Path<'a>, Question), Fault> {
        self.advance();
        self.expect('(', "`(`")?;
        let path = self.path()?;
        self.expect(')', "`)`")?;
        Ok((path, Question::Presence(exists)))
    }

    fn path_first(&mut self) -> Result<(Path<'a>, Question), Fault> {
        let path = self.path()?;
        let test = match self.relation()? {
            Some(Relation::Compare(operator)) => compare(operator, self.literal(A_LITERAL)?),
            Some(Relation::In) => Test::OneOf(self.list()?),
            Some(Relation::NotIn) => Test::NoneOf(self.list()?),
            None => return Err(self.no_relation(&path)),
        };
        Ok((path, Question::Value(test)))
    }

    fn literal_first(&mut self) -> Result<(Path<'a>, Question), Fault> {
        let literal = self.literal(A_PREDICATE)?;
        let question = match self.relation()? {
            Some(Relation::Compare(operator)) => Question::Value(compare(operator.mirrored(), literal)),
            Some(Relation::In) => Question::Elements(Membership::Contains(literal)),
            Some(Relation::NotIn) => Question::Elements(Membership::Lacks(literal)),
            None => return Err(self.unexpected(AN_OPERATOR)),
        };
        Ok((self.path()?, question))
    }

    /// Takes what stands between the two sides of a predicate.
    fn relation(&mut self) -> Result<Option<Relation>, Fault> {
        let relation = match self.token.value {
            Token::Operator(operator) => Relation::Compare(operator),
            Token::Word("in") => Relation::In,
            Token::Word("not") => Relation::NotIn,
            _ => return Ok(None),
        };
        self.advance();
        if matches!(relation, Relation::NotIn) && !self.take_word("in") {
            return Err(self.unexpected("`in`"));
        }
        Ok(Some(relation))
    }

    fn path(&mut self) -> Result<Path<'a>, Fault> {
        let offset = self.token.offset;
        let first = match self.token.value {
            Token::Word(word) if !suggest::KEYWORDS.contains(&word) => word,
            _ => return Err(self.unexpected("a field")),
        };
        self.advance();
        let mut names = vec![first];
        while self.take_symbol('.') {
            // Behind a dot keywords are names like any other.
            let Token::Word(name) = self.token.value else { return Err(self.unexpected("a name")) };
            names.push(name);
            self.advance();
        }
        Ok(Path { offset, names })
    }

    fn list(&mut self) -> Result<Vec<At<Literal>>, Fault> {
        self.expect('[', "a list such as `[1, 2]`")?;
        let mut list = Vec::new();
        while !self.take_symbol(']') {
            list.push(self.literal("a literal or `]`")?);
            if !self.take_symbol(',') {
                self.expect(']', "`,` or `]`")?;
                break;
            }
        }
        Ok(list)
    }

    fn literal(&mut self, expected: &str) -> Result<At<Literal>, Fault> {
        let offset = self.token.offset;
        let value = match &mut self.token.value {
            Token::Word("null" | "None") => Literal::Null,
            Token::Word("true" | "True") => Literal::Bool(true),
            Token::Word("false" | "False") => Literal::Bool(false),
            Token::Text(text) => Literal::Text(mem::take(text)),
            Token::Number(digits) => Literal::Number(number("", digits, offset)?),
            Token::Symbol('-') => {
                self.advance();
                let Token::Number(digits) = self.token.value else { return Err(self.unexpected("a number")) };
                Literal::Number(number("-", digits, offset)?)
            }
            _ => return Err(self.unexpected(expected)),
        };
        self.advance();
        Ok(At { offset, value })
    }

    fn open(&mut self) -> Result<(), Fault> {
        if self.depth == FILTER_DEPTH {
            return Err(Fault::new(self.token.offset, format!("nested deeper than {FILTER_DEPTH} levels")));
        }
        self.depth += 1;
        self.advance();
        Ok(())
    }

    fn take_word(&mut self, wanted: &str) -> bool {
        let found = matches!(self.token.value, Token::Word(word) if word == wanted);
        if found {
            self.advance();
        }
        found
    }

    fn take_symbol(&mut self, wanted: char) -> bool {
        let found = matches!(self.token.value, Token::Symbol(symbol) if symbol == wanted);
        if found {
            self.advance();
        }
        found
    }

    fn expect(&mut self, symbol: char, expected: &str) -> Result<(), Fault> {
        if self.take_symbol(symbol) { Ok(()) } else { Err(self.unexpected(expected)) }
    }

    fn advance(&mut self) {
        self.token = self.lexer.next();
    }

    /// The error that the next token is not what was `expected`, with what may have been meant.
    fn unexpected(&mut self, expected: &str) -> Fault {
        let found = match &mut self.token.value {
            Token::Invalid(fault) => return Fault::new(fault.offset, mem::take(&mut fault.message)),
            Token::Word(word) => match suggest::keyword(word) {
                Some(meant) if meant != *word => format!("`{word}`, did you mean `{meant}`?"),
                // `status == pending`: the quotes were forgotten.
                None if expected == A_LITERAL => format!("`{0}`, strings need quotes", suggest::shortened(word)),
                _ => format!("`{}`", suggest::shortened(word)),
            },
            Token::Number(_) => "a number".to_owned(),
            Token::Text(_) => "a string".to_owned(),
            Token::Operator(operator) => format!("`{}`", operator.as_str()),
            Token::Symbol(symbol) => format!("`{symbol}`"),
            Token::End => "the end of the filter".to_owned(),
        };
        Fault::new(self.token.offset, format!("expected {expected}, found {found}"))
    }

    /// The error that nothing is asked of `path`, which may be a misspelt keyword: `NOT (…)`, `NULL == name`.
    fn no_relation(&mut self, path: &Path<'_>) -> Fault {
        match suggest::keyword(path.names[0]) {
            Some(meant) if path.names.len() == 1 => {
                let found = path.names[0];
                Fault::new(path.offset, format!("expected {A_PREDICATE}, found `{found}`, did you mean `{meant}`?"))
            }
            _ => self.unexpected(AN_OPERATOR),
        }
    }
}

/// The relation between the two sides of a predicate.
enum Relation {
    Compare(Operator),
    In,
    NotIn,
}

fn compare(operator: Operator, literal: At<Literal>) -> Test<At<Literal>> {
    match operator {
        Operator::Equal => Test::Equal(literal),
        Operator::NotEqual => Test::NotEqual(literal),
        Operator::Order(order) => Test::Order(order, literal),
    }
}

/// The number with this sign; `digits` is a number of the grammar.
fn number(sign: &str, digits: &str, offset: usize) -> Result<Number, Fault> {
    let text = format!("{sign}{digits}");
    if !digits.bytes().all(|b| b.is_ascii_digit()) {
        let float = text.parse().ok().filter(|float: &f64| float.is_finite());
        return float.map(Number::Float).ok_or_else(|| Fault::new(offset, "expected a finite number"));
    }
    if digits.len() > 1 && digits.starts_with('0') {
        return Err(Fault::new(offset, "expected an integer without leading zeros"));
    }
    text.parse().map(Number::Int).map_err(|_| Fault::new(offset, "expected an integer of 64 bits"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::filter::{FilterError, ObservationFilter, TaskFilter, TaskPredicate};

    fn accepted(text: &str) -> bool {
        TaskFilter::parse(text).is_ok()
    }

    fn tree(text: &str) -> Expression<TaskPredicate> {
        parse(text).unwrap_or_else(|error| panic!("{text}: {error:?}"))
    }

    #[test]
    fn the_grammar_accepts() {
        let texts = "priority == 1 ¦ 1 == priority ¦ priority==1and attempt==0 ¦ priority==1.and attempt==0 ¦ \
             priority in[1,2]or'x'in routes ¦ not(priority==1)and not'x'in routes ¦ \
             exists ( args . a ) and missing(args.b) ¦ priority in [] ¦ priority in [1,] ¦ \
             priority not in [1, 2.5 , -3,] ¦ name not\nin ['a', None, null] ¦ 'x' not in routes ¦ \
             not not not priority == 1 ¦ ((priority == 1)) ¦ \
             args.lambda == 1 and args.class == 1 and args.in == 1 and args.and.or.not.exists.null.None.True == 1 ¦ \
             metadata._a9.B == true and metadata.x == True and metadata.x != false or metadata.x == False ¦ \
             args.x == None and null != args.x ¦ name == 'it\\'s' or name == \"it's\" ¦ name == '' ¦ \
             name == '\u{a0}\u{7f}ä😀' ¦ args.x in [1, 'a', true, None, -0.0] ¦ None in args.x ¦ - 5 < priority";
        for text in texts.split(" ¦ ").chain([" \t\r\npriority\n==\t1\r\n"]) {
            assert!(accepted(text), "{text}: {:?}", TaskFilter::parse(text));
        }
    }

    #[test]
    fn the_grammar_refuses() {
        let texts = "() ¦ (priority == 1 ¦ priority == 1) ¦ priority ¦ 1 ¦ 'x' ¦ true ¦ not ¦ priority == 1 and ¦ \
             and priority == 1 ¦ priority == 1 priority == 2 ¦ 1 < priority < 3 ¦ priority == 1 == 1 ¦ \
             priority == attempt ¦ 1 == 1 ¦ 'x' in 'xyz' ¦ 1 in [1] ¦ priority in (1, 2) ¦ priority in 1 ¦ \
             priority in attempt ¦ priority in [,] ¦ priority in [1,,] ¦ priority in [1 2] ¦ priority in [1 ¦ \
             priority in [[1]] ¦ priority in [attempt] ¦ priority not [1] ¦ priority == [1] ¦ [1] == priority ¦ \
             [1] ¦ priority == 1 + 1 ¦ priority + 1 == 1 ¦ -priority == 1 ¦ priority == -'x' ¦ priority == --1 ¦ \
             priority == +1 ¦ priority == - ¦ len(name) == 1 ¦ exists() ¦ exists('x') ¦ exists(1) ¦ exists args.x ¦ \
             exists(args.x, args.y) ¦ exists(args.x ¦ exists == 1 ¦ missing.x == 1 ¦ null.x == 1 ¦ args[0] == 1 ¦ \
             args.a[0] == 1 ¦ args.0 == 1 ¦ args.'a' == 1 ¦ args. == 1 ¦ args..a == 1 ¦ .args == 1 ¦ \
             args.a-b == 1 ¦ args.ä == 1 ¦ priority = 1 ¦ priority <> 1 ¦ ! priority == 1 ¦ !(priority == 1) ¦ \
             priority == 1 && attempt == 1 ¦ priority == 1 || attempt == 1 ¦ priority == 1 & attempt == 1 ¦ \
             name is None ¦ name is not None ¦ priority === 1 ¦ priority =< 1 ¦ priority ~ 1 ¦ name like 'x' ¦ \
             NOT priority == 1 ¦ priority == 1 AND attempt == 1 ¦ priority == 1 Or attempt == 1 ¦ name == NULL ¦ \
             name == none ¦ args.x == TRUE ¦ priority IN [1] ¦ Exists(args.x) ¦ name == x ¦ name == `x` ¦ \
             name == \"x ¦ name == 'x\" ¦ name == 'a\nb' ¦ name == '\\x41' ¦ name == '\\ud800' ¦ name == u'x' ¦ \
             name == 'a' 'b' ¦ priority\u{a0}== 1 ¦ \u{feff}priority == 1 ¦ priority == 1; ¦ \
             priority == 1 # comment ¦ priority == 1\0 ¦ priority == 1, attempt == 1";
        for text in texts.split(" ¦ ").chain(["", " \t\r\n"]) {
            assert!(!accepted(text), "{text}");
            assert!(ObservationFilter::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn what_is_nearly_a_filter_is_refused() {
        let texts = "priority == == 1 ¦ (priority) == 1 ¦ (1) == priority ¦ priority == (1) ¦ not 1 ¦ not priority ¦ \
             priority and attempt ¦ priority == 1 and 1 ¦ priority == not 1 ¦ priority => 1 ¦ priority ! = 1 ¦ \
             priority < = 1 ¦ priority == 2 - 1 ¦ priority == -(1) ¦ args.x == -true ¦ priority between 1 and 2 ¦ \
             lambda: 1 ¦ priority := 1 ¦ priority == 1 if True else False ¦ priority == 1 -- comment ¦ \
             priority == 1 /* */ ¦ exists(name == 'a') ¦ exists((name)) ¦ exists(name) == True ¦ exists(exists) ¦ \
             name.lower() == 'a' ¦ args.[a] == 1 ¦ not == 1 ¦ or == 1 ¦ name == [] ¦ priority == {} ¦ \
             name not == 'a' ¦ priority in not [1] ¦ priority not not in [1] ¦ name in None ¦ name in ['a'] in routes ¦ \
             priority == ² ¦ name == '''a''' ¦ name == “a” ¦ name == '\\U00000041' ¦ rowid == 1 ¦ pending_order > 1 ¦ \
             sequence > 1 ¦ task_id == 't' ¦ priority in [1, '2'] ¦ created_at > '2024-W01-1T00:00:00Z'";
        for text in texts.split(" ¦ ") {
            assert!(!accepted(text), "{text}");
        }
    }

    #[test]
    fn numbers_are_64_bit_integers_or_finite_floats() {
        let cases = [
            ("0", "0"),
            ("-0", "0"),
            ("- 7", "-7"),
            ("9223372036854775807", "9223372036854775807"),
            ("-9223372036854775808", "-9223372036854775808"),
            ("-\t9223372036854775808", "-9223372036854775808"),
            ("9223372036854775808.0", "9.223372036854776e18"),
            ("01.5", "1.5"),
            ("1.", "1.0"),
            (".5", "0.5"),
            ("-.5", "-0.5"),
            ("1e5", "100000.0"),
            ("1E+2", "100.0"),
            ("1.e-2", "0.01"),
            ("-0.0", "-0.0"),
            ("1e-400", "0.0"),
        ];
        for (text, expected) in cases {
            let found = tree(&format!("priority == {text}"));
            let Expression::Is(TaskPredicate::Priority(Test::Equal(number))) = found else { panic!("{found:?}") };
            assert_eq!(number.to_string(), expected, "{text}");
        }
        let refused = "9223372036854775808 -9223372036854775809 007 00 -01 1e400 -1e400 1e 1e+ . .e5 1.2.3 0x10 1_000 1f \
             Infinity NaN １";
        for text in refused.split(' ') {
            assert!(!accepted(&format!("priority == {text}")), "{text}");
        }
    }

    #[test]
    fn and_binds_tighter_than_or_and_not_tightest() {
        let [a, b, c] = ["priority == 1", "priority == 2", "priority == 3"];
        let same = [
            (format!("{a} or {b} and {c}"), format!("{a} or ({b} and {c})")),
            (format!("{a} and {b} or {c}"), format!("({a} and {b}) or {c}")),
            (format!("not {a} and {b}"), format!("(not {a}) and {b}")),
            (format!("not {a} or {b}"), format!("(not {a}) or {b}")),
            (format!("{a} and {b} and {c}"), format!("{a} and ({b} and {c})")),
            (format!("{a} or {b} or {c}"), format!("({a} or {b}) or {c}")),
            ("not priority in [1]".to_owned(), "not (priority in [1])".to_owned()),
        ];
        for (plain, explicit) in same {
            assert_eq!(tree(&plain), tree(&explicit), "{plain}");
        }
        assert_ne!(tree(&format!("({a} or {b}) and {c}")), tree(&format!("{a} or {b} and {c}")));
    }

    #[test]
    fn different_spellings_make_the_same_tree() {
        let cases = [
            ("((priority==1))", "priority == 1"),
            ("5 < priority and (attempt >= - 2)", "priority > 5 and attempt >= -2"),
            ("not not(id=='a' or id=='b')", "not (not (id == \"a\" or id == \"b\"))"),
            ("not(id in['a',])and name not in[]", "(not id in [\"a\"]) and name not in []"),
            ("None == name or exists(name)", "name == null or exists(id)"),
            ("args . a . in == .5", "args.a.in == 0.5"),
            ("1e3 in args.x or 'k' not in args", "1000.0 in args.x or \"k\" not in args"),
            (r#"name == 'a"\'\\\n\u0000ä'"#, r#"name == "a\"'\\\u000a\u0000ä""#),
            ("created_at < '2026-01-01T01:00:00+01:00'", "created_at < \"2026-01-01T00:00:00.000000Z\""),
            ("missing(last_error.traceback)", "missing(last_error.type)"),
            ("exists(last_run.run_id)or last_run.run_id==None", "exists(last_run.attempt) or last_run.run_id == null"),
            ("'k' in last_run.worker and 1<last_run.worker.a", "\"k\" in last_run.worker and last_run.worker.a > 1"),
            ("missing(progress.a)or'k'not in progress", "missing(progress.a) or \"k\" not in progress"),
        ];
        for (text, plain) in cases {
            assert_eq!(tree(text), tree(plain), "{text}");
        }
        let text = "'k' in metadata and 90<telemetry.gpus.a or telemetry_updated_at in[None]";
        let plain = "(\"k\" in metadata and telemetry.gpus.a > 90) or telemetry_updated_at in [null]";
        let tree = |text| parse::<crate::filter::ObservationPredicate>(text).unwrap();
        assert_eq!(tree(text), tree(plain));
    }

    #[test]
    fn a_literal_on_the_left_says_the_same_as_on_the_right() {
        for (left, right) in [("<", ">"), ("<=", ">="), (">", "<"), (">=", "<="), ("==", "=="), ("!=", "!=")] {
            assert_eq!(tree(&format!("5 {left} priority")), tree(&format!("priority {right} 5")));
        }
    }

    #[test]
    fn parentheses_and_not_nest_200_levels_and_no_deeper() {
        let nested = |open: &str, close: &str, levels: usize| {
            format!("{}priority==1{}", open.repeat(levels), close.repeat(levels))
        };
        let too_deep =
            |column| Err(FilterError::Invalid { column, message: "nested deeper than 200 levels".to_owned() });
        assert!(TaskFilter::parse(&nested("(", ")", 200)).is_ok());
        assert_eq!(TaskFilter::parse(&nested("(", ")", 201)), too_deep(201));
        assert!(TaskFilter::parse(&nested("not ", "", 200)).is_ok());
        assert_eq!(TaskFilter::parse(&nested("not ", "", 201)), too_deep(801));
        assert!(TaskFilter::parse(&nested("not(", ")", 100)).is_ok());
        assert_eq!(TaskFilter::parse(&nested("not(", ")", 101)), too_deep(401));
        assert!(TaskFilter::parse(&nested("(", ")", 4000)).is_err());
        assert!(TaskFilter::parse(&"(".repeat(8192)).is_err());
        assert!(TaskFilter::parse(&"not ".repeat(2048)).is_err());
        // Levels that are closed again do not count.
        assert!(TaskFilter::parse(&["(not priority==1)"; 380].join(" or ")).is_ok());
        assert!(TaskFilter::parse(&["exists(id)"; 500].join(" or ")).is_ok());
    }

    #[test]
    fn long_filters_without_sense_are_refused() {
        let ends = ["(", "not ", "[", "'", "\"", "1", "\\", "exists(", "\0", "€", "priority == 0 and ", "args."];
        let long = ends.map(|part| part.repeat(8000 / part.len()));
        let beyond = [format!("priority == {}", "9".repeat(8000)), format!("priority in {}", "[".repeat(4000))];
        for text in long.into_iter().chain(beyond).chain(["-".repeat(8000), "args".to_owned() + &".".repeat(8000)]) {
            assert!(!accepted(&text), "{text:.20}");
        }
        let path = format!("missing(args{})", ".a".repeat(4000));
        let string = format!("name != '{}'", "%_".repeat(4000));
        let lists = vec!["name in ['x']"; 400].join(" and ");
        for text in [path, string, lists] {
            assert!(accepted(&text), "{text:.20}");
        }
    }

    #[test]
    fn deep_and_long_filters_need_little_stack() {
        // 200 levels that alternate between `or` and `and`: the deepest tree there can be.
        let deepest = format!("{}priority==1{}", "id=='a'or id=='b'and(".repeat(200), ")".repeat(200));
        let longest = ["id!='a'"; 700].join("and ");
        let list = format!("priority in [{}1]", "1,".repeat(4000));
        let walk = move || {
            for text in [&deepest, &longest, &list] {
                let filter = TaskFilter::parse(text).unwrap_or_else(|error| panic!("{error}"));
                let copy = filter.expression().clone();
                assert_eq!(&copy, filter.expression());
                assert!(!copy.holds(&mut |_| false));
            }
        };
        let thread = std::thread::Builder::new().stack_size(1024 * 1024).spawn(walk).unwrap();
        assert!(thread.join().is_ok());
    }

    #[test]
    fn an_error_says_where_it_begins_and_what_was_expected() {
        let cases = [
            ("", 1, "expected a predicate such as `id == 'x'`, found the end of the filter"),
            ("  ", 3, "expected a predicate such as `id == 'x'`, found the end of the filter"),
            ("name == 'ä' oder", 13, "expected `and`, `or` or the end of the filter, found `oder`"),
            ("priority", 9, "expected a comparison, `in` or `not in`, found the end of the filter"),
            ("priority = 1", 10, "`=` is not an operator, did you mean `==`?"),
            ("priority <> 1", 10, "`<>` is not an operator, did you mean `!=`?"),
            ("priority == 1 && id == 'x'", 15, "`&&` is not an operator, did you mean `and`?"),
            ("priority == 1 || id == 'x'", 15, "`||` is not an operator, did you mean `or`?"),
            ("!(priority == 1)", 1, "`!` is not an operator, did you mean `not`?"),
            ("name is None", 6, "expected a comparison, `in` or `not in`, found `is`, did you mean `==`?"),
            (
                "id == 'x' AND id == 'y'",
                11,
                "expected `and`, `or` or the end of the filter, found `AND`, did you mean `and`?",
            ),
            ("NOT (id == 'x')", 1, "expected a predicate such as `id == 'x'`, found `NOT`, did you mean `not`?"),
            ("name == NULL", 9, "expected a literal, found `NULL`, did you mean `null`?"),
            ("status == pending", 11, "expected a literal, found `pending`, strings need quotes"),
            ("1 < priority < 3", 14, "expected `and`, `or` or the end of the filter, found `<`"),
            ("(priority == 1", 15, "expected `and`, `or` or `)`, found the end of the filter"),
            ("1 == 1", 6, "expected a field, found a number"),
            ("priority == -'x'", 14, "expected a number, found a string"),
            ("priority in 1", 13, "expected a list such as `[1, 2]`, found a number"),
            ("priority in [1 2]", 16, "expected `,` or `]`, found a number"),
            ("priority in [,]", 14, "expected a literal or `]`, found `,`"),
            ("priority not [1]", 14, "expected `in`, found `[`"),
            ("exists args.x", 8, "expected `(`, found `args`"),
            ("args. == 1", 7, "expected a name, found `==`"),
            ("priority == 007", 13, "expected an integer without leading zeros"),
            ("priority == -9223372036854775809", 13, "expected an integer of 64 bits"),
            ("priority == 1e999", 13, "expected a finite number"),
            ("name == 'ä\\q'", 11, "invalid escape in the string"),
            ("name == 'ä", 9, "the string has no closing quote"),
            ("name\u{a0}== 'x'", 5, "unexpected character `\\u{a0}`"),
        ];
        for (text, column, message) in cases {
            let expected = FilterError::Invalid { column, message: message.to_owned() };
            assert_eq!(TaskFilter::parse(text), Err(expected), "{text}");
        }
    }
}
