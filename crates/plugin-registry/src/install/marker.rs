//! Environment markers of requirements, such as `sys_platform == "linux" and extra == "with-cuda"`.
//!
//! A marker describes a Python interpreter. There is none here, so the markers see CPython 3.14 on this machine.

use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::str::FromStr;

use pep440_rs::{Version, VersionSpecifier};

use super::platform::Platform;
use crate::discovery::{Architecture, OperatingSystem, normalize};

/// Version of the Python interpreter that markers see.
const PYTHON: (&str, &str) = ("3.14", "3.14.0");

/// Maximum depth of parentheses.
const DEEPEST: usize = 32;

/// A parsed marker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Marker {
    And(Box<Self>, Box<Self>),
    Or(Box<Self>, Box<Self>),
    Compare(Operand, String, Operand),
}

/// A side of a comparison.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Operand {
    Text(String),
    Variable(String),
}

/// The values of the variables.
#[derive(Clone, Copy, Debug)]
pub(super) struct Environment<'a> {
    pub(super) platform: &'a Platform,
    /// The normalized extras that are requested of the package.
    pub(super) extras: &'a BTreeSet<String>,
}

impl Marker {
    /// Parses a marker. The error describes the fault.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let mut parser = Parser { tokens: tokens(text)?, next: 0 };
        let marker = parser.or(0)?;
        match parser.peek() {
            None => Ok(marker),
            Some(token) => Err(format!("{:?} is not expected in the marker {text:?}", token.text)),
        }
    }

    /// Returns whether the marker is true. The error describes a variable or comparison that is unknown.
    pub(super) fn holds(&self, environment: Environment<'_>) -> Result<bool, String> {
        match self {
            Self::And(one, other) => Ok(one.holds(environment)? && other.holds(environment)?),
            Self::Or(one, other) => Ok(one.holds(environment)? || other.holds(environment)?),
            Self::Compare(left, operator, right) => compare(left, operator, right, environment),
        }
    }
}

fn compare(left: &Operand, operator: &str, right: &Operand, environment: Environment<'_>) -> Result<bool, String> {
    let is_extra = |operand: &Operand| matches!(operand, Operand::Variable(name) if name == "extra");
    if is_extra(left) || is_extra(right) {
        let other = if is_extra(left) { right } else { left };
        let Operand::Text(text) = other else { return Err("`extra` is compared with a variable".to_owned()) };
        let requested = environment.extras.contains(&normalize(text));
        return match operator {
            "==" => Ok(requested),
            "!=" => Ok(!requested),
            _ => Err(format!("`extra` is compared by {operator:?}")),
        };
    }
    let value = |operand: &Operand| match operand {
        Operand::Text(text) => Ok(text.clone()),
        Operand::Variable(name) => variable(name, environment.platform),
    };
    let (left, right) = (value(left)?, value(right)?);
    match operator {
        "in" => return Ok(right.contains(&left)),
        "not in" => return Ok(!right.contains(&left)),
        _ => {}
    }
    // A comparison of versions if both sides are versions, and of texts otherwise.
    if let (Ok(version), Ok(specifier)) =
        (Version::from_str(&left), VersionSpecifier::from_str(&format!("{operator}{right}")))
    {
        return Ok(specifier.contains(&version));
    }
    let order = left.cmp(&right);
    match operator {
        "==" | "===" => Ok(order == Ordering::Equal),
        "!=" => Ok(order != Ordering::Equal),
        "<" => Ok(order == Ordering::Less),
        "<=" => Ok(order != Ordering::Greater),
        ">" => Ok(order == Ordering::Greater),
        ">=" => Ok(order != Ordering::Less),
        _ => Err(format!("{left:?} {operator} {right:?} is not a comparison of versions")),
    }
}

fn variable(name: &str, platform: &Platform) -> Result<String, String> {
    let os = platform.target.os;
    let on = |linux: &str, macos: &str, windows: &str| match os {
        OperatingSystem::MacOs => macos.to_owned(),
        OperatingSystem::Windows => windows.to_owned(),
        _ => linux.to_owned(),
    };
    Ok(match name {
        "python_version" => PYTHON.0.to_owned(),
        "python_full_version" | "implementation_version" => PYTHON.1.to_owned(),
        "platform_python_implementation" => "CPython".to_owned(),
        "implementation_name" => "cpython".to_owned(),
        "os_name" | "os.name" => on("posix", "posix", "nt"),
        "sys_platform" | "sys.platform" => on("linux", "darwin", "win32"),
        "platform_system" => on("Linux", "Darwin", "Windows"),
        "platform_machine" | "platform.machine" => match (platform.target.architecture, os) {
            (Architecture::X86_64, OperatingSystem::Windows) => "AMD64".to_owned(),
            (Architecture::Aarch64, OperatingSystem::Windows) => "ARM64".to_owned(),
            (Architecture::Aarch64, OperatingSystem::MacOs) => "arm64".to_owned(),
            (Architecture::X86, _) => "i686".to_owned(),
            (Architecture::Arm, _) => "armv7l".to_owned(),
            (Architecture::PowerPc64, _) => "ppc64le".to_owned(),
            (other, _) => other.to_string(),
        },
        // The versions of the operating system's kernel are unknown.
        "platform_release" | "platform_version" => String::new(),
        _ => return Err(format!("the variable {name:?} is unknown")),
    })
}

struct Token {
    text: String,
    is_text: bool,
}

fn tokens(marker: &str) -> Result<Vec<Token>, String> {
    let mut tokens = Vec::new();
    let mut rest = marker.trim_start();
    while let Some(first) = rest.chars().next() {
        let word = |end: usize| Token { text: rest[..end].to_owned(), is_text: false };
        let is_operator = |c: char| matches!(c, '<' | '>' | '=' | '!' | '~');
        let (token, length) = match first {
            '(' | ')' => (word(1), 1),
            '"' | '\'' => {
                let end =
                    rest[1..].find(first).ok_or_else(|| format!("a quote is missing in the marker {marker:?}"))?;
                (Token { text: rest[1..=end].to_owned(), is_text: true }, end + 2)
            }
            c if is_operator(c) => {
                let end = rest.find(|c| !is_operator(c)).unwrap_or(rest.len());
                (word(end), end)
            }
            c if c.is_ascii_alphabetic() || c == '_' => {
                let is_word = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.');
                let end = rest.find(|c| !is_word(c)).unwrap_or(rest.len());
                (word(end), end)
            }
            other => return Err(format!("{other:?} is not expected in the marker {marker:?}")),
        };
        tokens.push(token);
        rest = rest[length..].trim_start();
    }
    Ok(tokens)
}

struct Parser {
    tokens: Vec<Token>,
    next: usize,
}

impl Parser {
    fn peek(&self) -> Option<&Token> {
        self.tokens.get(self.next)
    }

    fn take(&mut self, word: &str) -> bool {
        let found = self.peek().is_some_and(|token| !token.is_text && token.text == word);
        self.next += usize::from(found);
        found
    }

    fn or(&mut self, depth: usize) -> Result<Marker, String> {
        let mut marker = self.and(depth)?;
        while self.take("or") {
            marker = Marker::Or(Box::new(marker), Box::new(self.and(depth)?));
        }
        Ok(marker)
    }

    fn and(&mut self, depth: usize) -> Result<Marker, String> {
        let mut marker = self.comparison(depth)?;
        while self.take("and") {
            marker = Marker::And(Box::new(marker), Box::new(self.comparison(depth)?));
        }
        Ok(marker)
    }

    fn comparison(&mut self, depth: usize) -> Result<Marker, String> {
        if depth > DEEPEST {
            return Err("the marker has too many parentheses".to_owned());
        }
        if self.take("(") {
            let marker = self.or(depth + 1)?;
            return if self.take(")") {
                Ok(marker)
            } else {
                Err("a parenthesis of the marker is not closed".to_owned())
            };
        }
        let left = self.operand()?;
        let operator = if self.take("not") {
            if !self.take("in") {
                return Err("`not` without `in` in the marker".to_owned());
            }
            "not in".to_owned()
        } else {
            self.word("an operator")?.text.clone()
        };
        let known = ["<", "<=", "!=", "==", ">=", ">", "~=", "===", "in", "not in"];
        if !known.contains(&operator.as_str()) {
            return Err(format!("{operator:?} is not an operator of markers"));
        }
        Ok(Marker::Compare(left, operator, self.operand()?))
    }

    fn operand(&mut self) -> Result<Operand, String> {
        let token = self.word("a value")?;
        let text = token.text.clone();
        Ok(if token.is_text { Operand::Text(text) } else { Operand::Variable(text) })
    }

    fn word(&mut self, what: &str) -> Result<&Token, String> {
        self.next += 1;
        self.tokens.get(self.next - 1).ok_or_else(|| format!("the marker ends where {what} is expected"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::discovery::Target;
    use crate::install::platform::Libc;

    fn holds(text: &str) -> Result<bool, String> {
        let target = Target { os: OperatingSystem::Linux, architecture: Architecture::X86_64 };
        let platform = Platform::new(target, Libc::Glibc(36), None);
        let extras = BTreeSet::from(["with-cuda".to_owned()]);
        Marker::parse(text)?.holds(Environment { platform: &platform, extras: &extras })
    }

    #[test]
    fn values() {
        for text in [
            "sys_platform == 'linux' and extra == \"with_CUDA\"",
            "python_version >= '3.9' and python_version < '4'",
            "(platform_machine == 'x86_64' or platform_machine == 'aarch64') and os_name == 'posix'",
            "'linux' in sys_platform",
            "platform_system not in 'Windows Darwin'",
            "extra != 'docs'",
            "python_full_version ~= '3.10'",
            "'3.10' < python_version",
            "sys_platform == 'win32' and extra == 'x' or implementation_name == 'cpython'",
        ] {
            assert_eq!(holds(text), Ok(true), "{text}");
        }
        for text in
            ["sys_platform == 'win32'", "extra == 'docs'", "python_version < '3.9'", "platform_machine != 'x86_64'"]
        {
            assert_eq!(holds(text), Ok(false), "{text}");
        }
    }

    #[test]
    fn faults() {
        for text in [
            "",
            "sys_platform",
            "sys_platform == ",
            "sys_platform = 'linux'",
            "sys_platform == 'linux",
            "(extra == 'x'",
            "extra == 'x' extra",
            "extra not 'x'",
            "extra < 'x'",
            "extra == os_name",
            "hostname == 'x'",
            "os_name ~= 'x'",
            "os_name == 'x' ; os_name",
            &"(".repeat(100),
        ] {
            assert!(holds(text).is_err(), "{text}");
        }
    }
}
