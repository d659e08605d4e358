//! Patterns of unidiomatic English that `cargo xtask tidy` reports in comments, documentation and messages.

use std::sync::LazyLock;

use regex::Regex;

use super::prose::{Kind, Paragraph, regex};

/// A pattern of unidiomatic English, with a remedy. A space in a pattern matches any white space.
struct Rule {
    name: &'static str,
    /// The pattern that is matched against each sentence.
    pattern: &'static str,
    /// The pattern of the exceptions. A match of `pattern` is not reported if it overlaps with a match of `except`.
    /// Empty if there are no exceptions.
    except: &'static str,
    /// Whether string literals are checked as well.
    messages: bool,
    remedy: &'static str,
    /// A sentence that the rule reports, and a better sentence.
    example: (&'static str, &'static str),
    /// More sentences that the rule must report.
    #[cfg_attr(not(test), expect(dead_code, reason = "only the tests read it"))]
    bad: &'static [&'static str],
    /// Sentences that the rule must not report.
    #[cfg_attr(not(test), expect(dead_code, reason = "only the tests read it"))]
    good: &'static [&'static str],
}

const RULES: &[Rule] = &[
    Rule {
        name: "is-no",
        pattern: r"(?i)\b(is|are|was|were|be|been|being) no\b",
        except: r"(?i)\bno (longer|different|better|worse|\w+er than|one\b|need|reason|way|guarantee|doubt)|\bthere (is|are|was|were|can be|will be|would be|may be|must be|has been|should be) no\b|\bno-",
        messages: true,
        remedy: "use a verb: \"is not a\", \"lacks\", \"does not support\"",
        example: ("a byte that is no `bool`", "a byte that is not a valid `bool`"),
        bad: &["Names that are no identifiers.", "34 is no element type."],
        good: &[
            "It is no longer used.",
            "There is no such file.",
            "The call is no-op safe.",
            "The index is no larger than the length.",
        ],
    },
    Rule {
        name: "none-where",
        pattern: r"(?i)\bnone (where|for|beside|yet)\b|\bnone of (its|their) own\b|^none (but|other)\b",
        except: r"\breturns None for\b",
        messages: true,
        remedy: "write a sentence: \"Returns `None` if\", \"Empty if\"",
        example: ("None where they bear any number.", "Returns `None` if any number of clients is allowed."),
        bad: &["The error, none where it succeeded.", "The name, if any: none for tokens."],
        good: &["None of the tests ran.", "Returns `None` if it is empty.", "If none is set, the default applies."],
    },
    Rule {
        name: "opens-with-who",
        pattern: r"^(Who|Whose|Whom)\b[^?]*$",
        except: r"^Who (this is for|we are)",
        messages: false,
        remedy: "name the subject: \"the caller\", \"a program that\"; or \"To do X, use Y\"",
        example: (
            "Who has a plugin in C++ reads the next chapter.",
            "To wrap an existing C++ plugin, see the next chapter.",
        ),
        bad: &["Who put the key did so for nobody."],
        good: &["Who frees the buffer?", "Whoever calls this function owns the buffer."],
    },
    Rule {
        name: "opens-with-what",
        pattern: r"^What\b[^?]*$",
        except: r"^What (follows|matters)\b",
        messages: false,
        remedy: "name the thing with a noun: \"The options that\", \"Results of\"",
        example: ("What is left goes.", "The client frees the remaining buffers."),
        bad: &["What a plugin says of itself."],
        good: &["What does the plugin return?", "Check what the plugin returned."],
    },
    Rule {
        name: "says",
        pattern: r"(?i)\b(says|say of|said by|said of|tells)\b",
        except: r"(?i)\b(headers?|header file|specification|spec|documentation|docs|manual|book|page|chapter|standard|README|readme|contract|comment|changelog|section|law|licen[cs]e|which|he|she)['`]? (says|tells)\b|\btells (\w+ ){1,4}(that|whether|how|when|to|which|where|what|apart|about)\b",
        messages: true,
        remedy: "use a precise verb: returns, reports, names, declares, specifies, prints",
        example: ("as far as the plugin tells its program's", "if the plugin reports its program's parameters"),
        bad: &["The manifest says it.", "As `_` says.", "The error tells which."],
        good: &["The header says so.", "This tells the plugin to stop.", "A flag tells the client that it is done."],
    },
    Rule {
        name: "bears",
        pattern: r"(?i)\b(bears?|bore)\b",
        except: r"(?i)\bbear in mind\b",
        messages: true,
        remedy: "write \"supports\", \"allows\" or \"has\"",
        example: ("a device bears one client", "a device supports one client at a time"),
        bad: &["Each buffer bears a layout."],
        good: &["Bear in mind that it blocks."],
    },
    Rule {
        name: "wishes",
        pattern: r"(?i)\b(wish|wishes|wished)\b",
        except: "",
        messages: true,
        remedy: "write \"option\", \"request\" or \"preference\"",
        example: ("the order for a framework without a wish", "the default order"),
        bad: &["A wish for pinned memory."],
        good: &["The framework requests pinned memory."],
    },
    Rule {
        name: "wants",
        pattern: r"(?i)\b(is|are|was|were|be|been) (not )?wanted\b|\bwants\b",
        except: r"(?i)\b(who|caller|user|vendor|reader|program|framework|author|developer|person|everyone|anyone|one|nobody|that|which) wants\b|\bwants to\b",
        messages: true,
        remedy: "objects do not want: write \"requires\", \"expects\" or \"takes\"",
        example: ("the op wants two operands", "the op requires two operands"),
        bad: &["A number is wanted."],
        good: &["A caller wants the result.", "If you want colour, set this."],
    },
    Rule {
        name: "had",
        pattern: r"(?i)\b(to|can|could|may|cannot) be had\b",
        except: "",
        messages: true,
        remedy: "write \"is available\"",
        example: ("where they can be had", "if they are available"),
        bad: &["No lock is to be had."],
        good: &["The lock had been taken."],
    },
    Rule {
        name: "at-most",
        pattern: r"(?i)\bno (more|fewer|less) than\b|\bnot more than\b|\bnothing but\b|\bnone but\b|\bnot otherwise than\b",
        except: "",
        messages: true,
        remedy: "state it positively: \"at most\", \"at least\", \"only\"",
        example: ("reads no more than both know", "reads only the bytes that both sides know"),
        bad: &["It holds nothing but text."],
        good: &["At most two threads run.", "It is no longer than the limit."],
    },
    Rule {
        name: "double-negation",
        pattern: r"(?i)\b(no|nothing|none|nobody|never|neither) ([\w`-]+ ){0,4}(that|which|who|unless|without) ([\w`-]+ ){0,3}(not|no|never|cannot|isn't|doesn't)\b|\bnot (un|in|im|ir)(necessary|possible|usual|common|likely|known|valid|relevant|equal|able|wanted)\b|\b(cannot|does not|do not|is not|are not) ([\w`-]+ ){0,3}(unless|without) ([\w`-]+ ){0,3}not\b",
        except: "",
        messages: true,
        remedy: "state it positively",
        example: ("there is no device that does not run it", "every device runs it"),
        bad: &[
            "No call returns unless the event is not ready.",
            "It is not impossible.",
            "Nothing that is not a buffer is freed.",
        ],
        good: &["No call that is pending is lost.", "It does not run without a client.", "The value is not valid."],
    },
    Rule {
        name: "fractions",
        pattern: r"(?i)\ba (third|fourth|fifth|sixth|seventh|eighth|ninth|tenth|twelfth|fifteenth|twentieth|thirtieth|fortieth|fiftieth|hundredth|thousandth|millionth)( part)? (to|of|as)\b",
        except: r"(?i)\ba (third|fourth|fifth) (of these|kind)\b",
        messages: true,
        remedy: "write a number: \"10 times faster\", \"5 %\"",
        example: ("a hundredth to a twenty-fifth of the time", "25 to 100 times faster"),
        bad: &["It takes a tenth of the time."],
        good: &["It takes 10 % of the time.", "A third type of handle."],
    },
    Rule {
        name: "archaic",
        pattern: r"(?i)\b(thereof|therein|whereof|wherein|hitherto|herein|henceforth|lest|nought|naught|aught|ere|whilst|amongst|albeit|forthwith|at will)\b",
        except: "",
        messages: true,
        remedy: "use the plain word: \"of it\", \"in it\", \"so that ... not\", \"nothing\", \"while\"",
        example: ("a leaf and its parts thereof", "a leaf and its parts"),
        bad: &["Lest it block."],
        good: &["The least of them."],
    },
    Rule {
        name: "as-far-as",
        pattern: r"(?i)\bas far as\b",
        except: r"(?i)\bas far as possible\b",
        messages: true,
        remedy: "write \"if\", \"up to\" or \"the part that\"",
        example: ("checks types as far as they are known", "checks the types that are known"),
        bad: &["It reads as far as the zero."],
        good: &["It reads up to the zero."],
    },
    Rule {
        name: "somebody",
        pattern: r"(?i)\b(somebody|nobody|everybody)\b",
        except: r#"["'`]nobody["'`]|(?i)\buser nobody\b"#,
        messages: true,
        remedy: "name the subject: the caller, another thread, another process",
        example: ("nobody else uses it", "no other thread uses it"),
        bad: &["Somebody has it."],
        good: &["The user `nobody` owns it.", "Another process holds the lock."],
    },
    Rule {
        name: "stands",
        pattern: r"(?i)\b(stands?|stood) (in|at|there|before|behind|beside|where|under|over|alone|here|after|with|as|on)\b",
        except: r"(?i)\bstands? in for\b|\bstands? alone\b|\bas (it|they) stands?\b",
        messages: true,
        remedy: "write \"is\", \"is stored\" or \"appears\"",
        example: ("the name stands before the colon", "the name precedes the colon"),
        bad: &["Its size stands in the header."],
        good: &["PJRT stands for Pretty much Just another RunTime."],
    },
    Rule {
        name: "besides",
        pattern: r"(?i)\bbesides($|[,.;:)])",
        except: r"(?i)^besides,",
        messages: true,
        remedy: "write \"also\" or \"in addition\"",
        example: ("it is tiled besides", "it is also tiled"),
        bad: &["It copies the data besides."],
        good: &["No types besides integers are allowed.", "It also copies the data."],
    },
    Rule {
        name: "colon",
        pattern: r": (it|they|nobody|none|there (is|are)) ",
        except: r"(?i)\b(note|remember|important|caution|warning|example|SAFETY|[A-Z]\d+): |^\d+: ",
        messages: false,
        remedy: "write two sentences, or \"because\"",
        example: ("It is counted: nobody frees it.", "It is counted. The last owner frees it."),
        bad: &["The list is empty: there is nothing to do."],
        good: &["Three steps: read, check and run.", "Note: it blocks."],
    },
    Rule {
        name: "what-clause",
        pattern: r"(?i)\bwhat (is|was|were|are|it|they) (left|said|made|lent|held|kept|wanted|had|there|thrown|given|asked)\b|\bwith what (is|was)\b|\bwhatever (is|was) (left|there|given)\b",
        except: "",
        messages: true,
        remedy: "name the thing with a noun",
        example: ("frees what is left", "frees the remaining buffers"),
        bad: &["compares it with what is there"],
        good: &["Check what the plugin returned.", "It depends on what the caller does."],
    },
    Rule {
        name: "goes",
        pattern: r"(?i)\b(goes|went|gone)\b",
        except: r"(?i)\b(goes|gone|went) (through|to|into|up|down|out|back|over|wrong|via|beyond|in|from|on|along|unnoticed)\b|\bas it goes\b",
        messages: true,
        remedy: "use a precise verb: is freed, is dropped, is removed, ends, runs",
        example: ("when its client goes", "when its client is destroyed"),
        bad: &["The buffer is gone."],
        good: &["The argument goes through the table.", "If anything goes wrong, it returns an error."],
    },
];

/// A sentence that matches the pattern of a rule.
#[derive(Debug)]
pub(super) struct Finding {
    pub(super) line: usize,
    pub(super) message: String,
}

struct Compiled {
    pattern: Regex,
    except: Option<Regex>,
}

static COMPILED: LazyLock<Vec<Compiled>> = LazyLock::new(|| RULES.iter().map(compile).collect());

fn compile(rule: &Rule) -> Compiled {
    let spaced = |pattern: &str| regex(&pattern.replace(' ', r"\s+"));
    Compiled { pattern: spaced(rule.pattern), except: (!rule.except.is_empty()).then(|| spaced(rule.except)) }
}

pub(super) fn check(paragraphs: &[Paragraph]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for paragraph in paragraphs.iter().filter(|paragraph| paragraph.kind != Kind::Heading) {
        for (line, sentence) in paragraph.sentences() {
            for (rule, compiled) in RULES.iter().zip(COMPILED.iter()) {
                if paragraph.kind == Kind::Message && !rule.messages {
                    continue;
                }
                for found in compiled.matches(sentence) {
                    let line = line + sentence[..found].matches('\n').count();
                    let (before, after) = rule.example;
                    let sentence = sentence.split_whitespace().collect::<Vec<_>>().join(" ");
                    let message = format!(
                        "{}: {sentence:?}: {} (for example {after:?} instead of {before:?})",
                        rule.name, rule.remedy
                    );
                    findings.push(Finding { line, message });
                }
            }
        }
    }
    findings
}

impl Compiled {
    /// Returns the positions at which the pattern matches, outside of the exceptions.
    fn matches(&self, sentence: &str) -> Vec<usize> {
        let allowed: Vec<_> =
            self.except.iter().flat_map(|except| except.find_iter(sentence)).map(|found| found.range()).collect();
        let overlaps = |found: &regex::Match<'_>| {
            allowed.iter().any(|range| found.start() < range.end && range.start < found.end())
        };
        self.pattern.find_iter(sentence).filter(|found| !overlaps(found)).map(|found| found.start()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::prose::markdown;
    use super::{RULES, check, compile};

    #[test]
    fn each_rule_reports_its_bad_sentences_only() {
        for rule in RULES {
            let compiled = compile(rule);
            let (before, after) = rule.example;
            for bad in rule.bad.iter().chain([&before]) {
                assert!(!compiled.matches(bad).is_empty(), "{}: {bad}", rule.name);
            }
            for good in rule.good.iter().chain([&after]) {
                assert!(compiled.matches(good).is_empty(), "{}: {good}", rule.name);
            }
        }
    }

    #[test]
    fn good_sentences_pass_all_rules() {
        for good in RULES.iter().flat_map(|rule| rule.good.iter().chain([&rule.example.1])) {
            assert!(check(&markdown(good)).is_empty(), "{good}");
        }
    }

    #[test]
    fn findings_name_line_rule_and_remedy() {
        let findings = check(&markdown("# What it is\n\nA type that\nis no\ntensor. `is no` code."));
        assert_eq!(findings.len(), 1, "{findings:?}");
        assert_eq!(findings[0].line, 4);
        assert!(findings[0].message.starts_with("is-no: \"A type that is no tensor.\": use a verb"), "{findings:?}");
    }
}
