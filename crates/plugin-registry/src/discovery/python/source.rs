//! Reads Python source without running it: finds a `register_plugin("name", priority=N)` call, and the dictionaries of
//! an editable installation.

/// Maximum number of occurrences of a name that are examined. Examining one occurrence may require a scan of the whole
/// file.
const MOST_USES: usize = 256;

/// A call of `register_plugin` in Python source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RegisterCall {
    /// The plugin's name.
    pub(super) name: String,
    /// The plugin's priority, if the call contains it as an integer literal.
    pub(super) priority: Option<i32>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Token<'s> {
    Word(&'s str),
    /// A string literal.
    Text(&'s str),
    /// An f-string, whose value is unknown before run time, or a bytes literal, which cannot be a name.
    Formatted,
    Punctuation(char),
}

/// Returns the first call of `register_plugin` whose plugin name is a string literal, or a variable of the module that
/// is assigned a string literal.
pub(super) fn register_call(source: &str) -> Option<RegisterCall> {
    let tokens = tokens(source);
    let constant = |name: &str| {
        tokens.windows(3).find_map(|window| match window {
            [Token::Word(word), Token::Punctuation('='), Token::Text(text)] if *word == name => Some(*text),
            _ => None,
        })
    };
    let uses = tokens.iter().enumerate().filter(|(_, token)| **token == Token::Word("register_plugin"));
    for (at, _) in uses.take(MOST_USES) {
        let defined = at > 0 && tokens[at - 1] == Token::Word("def");
        if defined || tokens.get(at + 1) != Some(&Token::Punctuation('(')) {
            continue;
        }
        let arguments = arguments(&tokens[at + 2..]);
        let value = |keyword: &str| {
            arguments.iter().find_map(|argument| match argument {
                [Token::Word(word), Token::Punctuation('='), value @ ..] if *word == keyword => Some(value),
                _ => None,
            })
        };
        let positional = arguments.first().filter(|argument| argument.get(1) != Some(&Token::Punctuation('=')));
        let name = match positional.copied().or_else(|| value("plugin_name")) {
            Some([Token::Text(text)]) => Some(*text),
            Some([Token::Word(word)]) => constant(word),
            _ => None,
        };
        let priority = match value("priority") {
            Some([Token::Word(number)]) => number.parse().ok(),
            Some([Token::Punctuation('-'), Token::Word(number)]) => number.parse::<i32>().ok().map(|number| -number),
            _ => None,
        };
        if let Some(name) = name.filter(|name| !name.trim().is_empty()) {
            return Some(RegisterCall { name: name.to_owned(), priority });
        }
    }
    None
}

/// Returns the value of an argument by position, in the first call of a function in which it is a string literal.
pub(super) fn text_argument(source: &str, function: &str, index: usize) -> Option<String> {
    let tokens = tokens(source);
    let uses = tokens.iter().enumerate().filter(|(_, token)| **token == Token::Word(function)).take(MOST_USES);
    let mut calls = uses.filter(|(at, _)| tokens.get(at + 1) == Some(&Token::Punctuation('(')));
    calls.find_map(|(at, _)| match arguments(&tokens[at + 2..]).get(index) {
        Some([Token::Text(text)]) => Some(text.replace(r"\\", r"\")),
        _ => None,
    })
}

/// Returns the strings of a dictionary literal that is assigned to a variable of the module, each with its key. For
/// `{'a': 'b', 'c': ['d', 'e']}`, returns `('a', 'b')`, `('c', 'd')` and `('c', 'e')`.
pub(super) fn dictionary(source: &str, variable: &str) -> Vec<(String, String)> {
    let tokens = tokens(source);
    let mut pairs = Vec::new();
    // The assignment is `NAME = {` or `NAME: type = {`.
    let mut uses = tokens.iter().enumerate().filter(|(_, token)| **token == Token::Word(variable)).take(MOST_USES);
    let start = uses.find_map(|(at, _)| {
        let assigned = tokens[at..].iter().position(|token| *token == Token::Punctuation('='))?;
        let opened = tokens.get(at + assigned + 1) == Some(&Token::Punctuation('{'));
        opened.then_some(at + assigned + 2)
    });
    let Some(start) = start else { return pairs };
    for item in arguments(&tokens[start..]) {
        if let [Token::Text(key), Token::Punctuation(':'), values @ ..] = item {
            for value in values {
                if let Token::Text(value) = value {
                    // `setuptools` writes the mapping with `repr`, which doubles backslashes.
                    pairs.push(((*key).to_owned(), value.replace(r"\\", r"\")));
                }
            }
        }
    }
    pairs
}

/// Splits the arguments of a call or the items of a dictionary at commas, up to the closing bracket.
fn arguments<'t, 's>(tokens: &'t [Token<'s>]) -> Vec<&'t [Token<'s>]> {
    let (mut depth, mut start) = (0usize, 0);
    let mut arguments = Vec::new();
    for (at, token) in tokens.iter().enumerate() {
        match token {
            Token::Punctuation('(' | '[' | '{') => depth += 1,
            Token::Punctuation(')' | ']' | '}') if depth == 0 => {
                if start < at {
                    arguments.push(&tokens[start..at]);
                }
                return arguments;
            }
            Token::Punctuation(')' | ']' | '}') => depth -= 1,
            Token::Punctuation(',') if depth == 0 => {
                arguments.push(&tokens[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    arguments
}

/// Splits source into words, string literals and punctuation. Drops comments, whitespace and backslashes outside of
/// literals.
fn tokens(source: &str) -> Vec<Token<'_>> {
    let mut tokens = Vec::new();
    let mut rest = source;
    while let Some(first) = rest.chars().next() {
        if first == '#' {
            rest = rest.split_once('\n').map_or("", |(_, after)| after);
        } else if first.is_alphanumeric() || first == '_' {
            let end = rest.find(|c: char| !(c.is_alphanumeric() || c == '_')).unwrap_or(rest.len());
            let (word, after) = rest.split_at(end);
            let prefix = word.len() <= 2 && word.chars().all(|c| "rRbBuUfF".contains(c));
            if prefix && after.starts_with(['"', '\'']) {
                let (text, after) = literal(after);
                let plain = !word.contains(['f', 'F', 'b', 'B']);
                tokens.push(if plain { Token::Text(text) } else { Token::Formatted });
                rest = after;
            } else {
                tokens.push(Token::Word(word));
                rest = after;
            }
        } else if first == '"' || first == '\'' {
            let (text, after) = literal(rest);
            tokens.push(Token::Text(text));
            rest = after;
        } else {
            if !first.is_whitespace() && first != '\\' {
                tokens.push(Token::Punctuation(first));
            }
            rest = &rest[first.len_utf8()..];
        }
    }
    tokens
}

/// Splits a string literal from the start of the source. Returns the content of the literal and the rest of the source.
fn literal(source: &str) -> (&str, &str) {
    let quote = &source[..1];
    let triple = [quote; 3].concat();
    let mark = if source.starts_with(&triple) { triple.as_str() } else { quote };
    let body = &source[mark.len()..];
    let mut at = 0;
    while let Some(rest) = body.get(at..) {
        if let Some(after) = rest.strip_prefix(mark) {
            return (&body[..at], after);
        }
        let mut characters = rest.chars();
        match characters.next() {
            None => break,
            Some('\\') => at += 1 + characters.next().map_or(0, char::len_utf8),
            // A literal without triple quotes ends at the end of its line, even if the closing quote is missing.
            Some('\n') if mark.len() == 1 => return (&body[..at], rest),
            Some(other) => at += other.len_utf8(),
        }
    }
    (body, "")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(name: &str, priority: Option<i32>) -> Option<RegisterCall> {
        Some(RegisterCall { name: name.to_owned(), priority })
    }

    #[test]
    fn dictionaries() {
        let source = "X = 1\nMAPPING: dict[str, str] = {'a': '/x/a', 'b.c': \"/y\"}\nSPACES: dict[str, list[str]] = {'n': ['/1', '/2']}";
        let pairs = |variable| dictionary(source, variable);
        let pair = |key: &str, value: &str| (key.to_owned(), value.to_owned());
        assert_eq!(pairs("MAPPING"), [pair("a", "/x/a"), pair("b.c", "/y")]);
        assert_eq!(pairs("SPACES"), [pair("n", "/1"), pair("n", "/2")]);
        assert_eq!(pairs("OTHER"), []);
        assert_eq!(dictionary("MAPPING = {'a': '/x'", "MAPPING"), []);
        assert_eq!(dictionary(r"MAPPING = {'a': 'C:\\b\\c'}", "MAPPING"), [pair("a", r"C:\b\c")]);
    }

    /// Returns the CPU time of this thread in seconds.
    #[cfg(unix)]
    fn processor_time() -> i64 {
        rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime).tv_sec
    }

    #[test]
    #[cfg(unix)]
    fn long_file_takes_linear_time() {
        // An implementation with quadratic run time takes minutes for a megabyte of each pattern.
        let start = processor_time();
        for part in ["a ", "MAPPING ", "MAPPING = ", "register_plugin(", "register_plugin(x) ", "(", "'", "\\"] {
            let source = part.repeat((1 << 20) / part.len());
            assert_eq!(register_call(&source), None);
            assert!(dictionary(&source, "MAPPING").is_empty());
        }
        let seconds = processor_time() - start;
        assert!(seconds < 30, "{seconds} s");
    }

    #[test]
    fn calls() {
        for (source, expected) in [
            (
                r#"xb.register_plugin("cuda", priority=500, library_path=str(p), options=f(1, 2))"#,
                call("cuda", Some(500)),
            ),
            ("c = xb.register_plugin(\n    'rocm',\n    priority=-1,  # late\n)", call("rocm", Some(-1))),
            ("register_plugin('x')", call("x", None)),
            ("register_plugin(library_path=p(a, b), plugin_name = 'y', priority = 7)", call("y", Some(7))),
            ("NAME = \"tt\"\ndef initialize():\n  xb.register_plugin(NAME, priority=PRIORITY)", call("tt", None)),
            ("# register_plugin('no')\n'''register_plugin(\"no\")'''\nregister_plugin(r'yes')", call("yes", None)),
            ("def register_plugin(name): pass\nregister_plugin(f'a{b}')\nregister_plugin('c')", call("c", None)),
            ("register_plugin(name)", None),
            ("register_plugin", None),
            ("register_plugin('unfinished", call("unfinished", None).filter(|_| false)),
            ("x = 'it\\'s'; register_plugin('é')", call("é", None)),
            ("", None),
        ] {
            assert_eq!(register_call(source), expected, "{source}");
        }
    }
}
