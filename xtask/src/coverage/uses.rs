//! Finds the functions and fields that Rust sources use.
//!
//! The search reads tokens instead of a syntax tree, because much of the code is in arguments of macros. It derives the
//! types of local variables from declarations, struct literals and fields:
//!
//! - `let args = X_Args::new()`, `args: &mut X_Args` and `let args = nested(options.field)` determine the struct of a
//!   variable.
//! - `args.field`, `X { field: … }` and `offset_of!(X, field)` use a field. An assignment sets the field, and any other
//!   use reads it.
//! - `slot::X` and mentions of `X_Args` use a function. `X::NAME` and `Function::X` alone do not.
//! - `fn PJRT_X<P>(args: …, handle: …) { … }` implements a function, and `handle` is a field that the implementation
//!   reads.
//! - In `PJRT_X(X_Args, object: …) => kind(output, …)`, `object` is set and `output` is read. In
//!   `PJRT_X, X_Args, object`, `object` is set.
//! - In `item.field`, `item` may be an expression or the parameter of a closure, whose type is not known. The search
//!   then tries the structs that the function has already named, and the structs to which their fields point.

use std::collections::{BTreeMap, BTreeSet};
use std::str::FromStr as _;

use proc_macro2::{Delimiter, Group, TokenStream, TokenTree};

use super::declarations::Declarations;
use crate::Error;

/// Whether sources set a field, and whether they read it.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Access {
    pub(super) sets: bool,
    pub(super) reads: bool,
}

/// The functions and fields that sources use.
#[derive(Default)]
pub(super) struct Uses {
    pub(super) functions: BTreeSet<String>,
    /// How each field is used. The key consists of the struct and the field.
    pub(super) fields: BTreeMap<(String, String), Access>,
}

impl Uses {
    /// Adds the uses in a source file, without those in its tests.
    pub(super) fn add(&mut self, source: &str, declarations: &Declarations) -> Result<(), Error> {
        let tokens = TokenStream::from_str(source).map_err(|error| error.to_string())?;
        let mut search = Search { uses: self, declarations };
        search.tokens(&tokens.into_iter().collect::<Vec<_>>(), &mut Scope::default());
        Ok(())
    }
}

/// The names that are known at a position in the source.
#[derive(Clone, Default)]
struct Scope {
    /// The local variables of known type, with their structs.
    variables: BTreeMap<String, String>,
    /// The structs that the current function has named so far. A variable of unknown type is assumed to be one of them.
    named: BTreeSet<String>,
    /// Variables of unknown type: parameters of closures, and bindings of patterns.
    unknown: BTreeSet<String>,
    /// Type aliases in the source. The value is the struct, or the argument struct of the function, that the alias
    /// names.
    aliases: BTreeMap<String, String>,
}

impl Scope {
    fn bind(&mut self, name: String, target: Option<String>) {
        match target {
            Some(target) => drop(self.variables.insert(name, target)),
            None => drop(self.variables.remove(&name)),
        }
    }
}

struct Search<'a> {
    uses: &'a mut Uses,
    declarations: &'a Declarations,
}

fn ident(token: Option<&TokenTree>) -> Option<String> {
    match token? {
        TokenTree::Ident(ident) => Some(ident.to_string()),
        _ => None,
    }
}

fn is_punct(token: Option<&TokenTree>, mark: char) -> bool {
    matches!(token, Some(TokenTree::Punct(punct)) if punct.as_char() == mark)
}

fn group(token: Option<&TokenTree>, delimiter: Delimiter) -> Option<&Group> {
    match token? {
        TokenTree::Group(group) if group.delimiter() == delimiter => Some(group),
        _ => None,
    }
}

fn inner(group: &Group) -> Vec<TokenTree> {
    group.stream().into_iter().collect()
}

/// Returns whether the token at this index follows a single dot, and not the two dots of a range.
fn is_member(tokens: &[TokenTree], at: usize) -> bool {
    at > 0 && is_punct(tokens.get(at - 1), '.') && !(at > 1 && is_punct(tokens.get(at - 2), '.'))
}

/// Returns whether the token at this index is the `=` of an assignment, and not part of a comparison or of a match
/// arrow.
fn is_assigned(tokens: &[TokenTree], at: usize) -> bool {
    is_punct(tokens.get(at), '=') && !is_punct(tokens.get(at + 1), '=') && !is_punct(tokens.get(at + 1), '>')
}

impl Search<'_> {
    fn tokens(&mut self, tokens: &[TokenTree], scope: &mut Scope) {
        let mut at = 0;
        while at < tokens.len() {
            at = self.step(tokens, at, scope);
        }
    }

    /// Handles the construct that begins at a token, and returns the index after it.
    fn step(&mut self, tokens: &[TokenTree], at: usize, scope: &mut Scope) -> usize {
        if is_test(tokens, at) {
            return after_item(tokens, at + 2);
        }
        if let Some(name) = ident(tokens.get(at)) {
            match name.as_str() {
                "fn" => return self.function(tokens, at + 1, scope),
                "let" => return self.binding(tokens, at, scope),
                "for" => return self.iteration(tokens, at, scope),
                "type" => return self.alias(tokens, at, scope),
                "use" => return (at..tokens.len()).find(|at| is_punct(tokens.get(*at), ';')).unwrap_or(tokens.len()),
                _ => return self.word(&name, tokens, at, scope),
            }
        }
        if let Some(TokenTree::Group(group)) = tokens.get(at) {
            let content = inner(group);
            // `(*args).field`
            if is_punct(tokens.get(at + 1), '.')
                && let [TokenTree::Punct(star), TokenTree::Ident(variable)] = content.as_slice()
                && star.as_char() == '*'
                && let Some(target) = scope.variables.get(&variable.to_string()).cloned()
            {
                return self.chain(Some(target), tokens, at + 1, scope);
            }
            // `(args.a, args.b) = …`
            if group.delimiter() == Delimiter::Parenthesis && is_assigned(tokens, at + 1) {
                self.tuple(&content, scope);
                return at + 1;
            }
            if group.delimiter() == Delimiter::Brace {
                self.tokens(&content, &mut scope.clone());
            } else {
                self.tokens(&content, scope);
            }
            return at + 1;
        }
        if is_punct(tokens.get(at), '|') {
            return closure_parameters(tokens, at, scope);
        }
        // A field of an expression whose type is unknown.
        let base = at.checked_sub(1).and_then(|at| tokens.get(at));
        let may_be_known = match base {
            None => false,
            Some(TokenTree::Ident(name)) => scope.unknown.contains(&name.to_string()),
            Some(TokenTree::Punct(mark)) => mark.as_char() == '?',
            Some(_) => true,
        };
        if is_punct(tokens.get(at), '.') && may_be_known {
            return self.chain(None, tokens, at, scope).max(at + 1);
        }
        at + 1
    }

    /// Handles a function. Its parameters and variables are unknown outside of it.
    fn function(&mut self, tokens: &[TokenTree], mut at: usize, scope: &Scope) -> usize {
        let mut local = scope.clone();
        self.entry(&tokens[at..]);
        while at < tokens.len() && !is_punct(tokens.get(at), ';') {
            if let Some(body) = group(tokens.get(at), Delimiter::Brace) {
                self.tokens(&inner(body), &mut local);
                return at + 1;
            }
            at = self.step(tokens, at, &mut local);
        }
        at
    }

    /// Handles the signature of a function that implements one of the table, `PJRT_X<P>(args: &mut X_Args, handle: …)`.
    /// The handle is a field that the function reads.
    fn entry(&mut self, signature: &[TokenTree]) {
        let Some(parameters) = signature.iter().find_map(|token| group(Some(token), Delimiter::Parenthesis)) else {
            return;
        };
        let parameters = inner(parameters);
        let comma = (0..parameters.len()).find(|at| is_punct(parameters.get(*at), ',')).unwrap_or(parameters.len());
        let args = comma.checked_sub(1).and_then(|last| ident(parameters.get(last)));
        let Some(args) = args.filter(|args| args.ends_with("_Args")) else { return };
        let slot = ident(signature.first()).filter(|name| self.declarations.functions.contains_key(name));
        self.uses.functions.extend(slot);
        if let Some(handle) = ident(parameters.get(comma + 1)) {
            self.record(&args, &handle, Access { sets: false, reads: true });
        }
    }

    /// Handles `let name = value;` and `if let Some(name) = value {`. Searches the value, and determines the struct of
    /// the variable.
    fn binding(&mut self, tokens: &[TokenTree], start: usize, scope: &mut Scope) -> usize {
        let is_condition = start > 0
            && (is_punct(tokens.get(start - 1), '&')
                || matches!(ident(tokens.get(start - 1)).as_deref(), Some("if" | "while")));
        let mut at = start + 1;
        if ident(tokens.get(at)).as_deref() == Some("mut") {
            at += 1;
        }
        let Some(mut name) = ident(tokens.get(at)) else { return at };
        if let Some(content) = group(tokens.get(at + 1), Delimiter::Parenthesis) {
            let [TokenTree::Ident(only)] = &inner(content)[..] else { return at };
            name = only.to_string();
            at += 1;
        }
        if !is_punct(tokens.get(at + 1), '=') && !is_punct(tokens.get(at + 1), ':') {
            return start + 1;
        }
        let is_end = |end: &usize| {
            is_punct(tokens.get(*end), ';')
                || is_condition && group(tokens.get(*end), Delimiter::Brace).is_some()
                || is_condition && is_punct(tokens.get(*end), '&') && is_punct(tokens.get(*end + 1), '&')
        };
        let end = (at + 1..tokens.len()).find(is_end).unwrap_or(tokens.len());
        let value = &tokens[at + 1..end];
        let target = self.target(value, scope);
        self.tokens(value, scope);
        scope.bind(name, target);
        end
    }

    /// Handles `for name in values {`.
    fn iteration(&mut self, tokens: &[TokenTree], at: usize, scope: &mut Scope) -> usize {
        let (Some(name), Some("in")) = (ident(tokens.get(at + 1)), ident(tokens.get(at + 2)).as_deref()) else {
            return at + 1;
        };
        let end = (at..tokens.len()).find(|end| group(tokens.get(*end), Delimiter::Brace).is_some());
        let end = end.unwrap_or(tokens.len());
        let values = &tokens[at + 3..end];
        let target = self.target(values, scope);
        self.tokens(values, scope);
        scope.bind(name, target);
        end
    }

    /// Handles `type Name = slot::PJRT_X;` and `type Name = PJRT_Struct;`.
    fn alias(&mut self, tokens: &[TokenTree], at: usize, scope: &mut Scope) -> usize {
        let end = (at..tokens.len()).find(|end| is_punct(tokens.get(*end), ';')).unwrap_or(tokens.len());
        let target = tokens[at + 1..end].iter().skip(1).find_map(|token| {
            let name = ident(Some(token))?;
            let is_struct = self.declarations.fields.contains_key(&name);
            self.declarations.functions.get(&name).cloned().flatten().or(is_struct.then_some(name))
        });
        if let (Some(name), Some(args)) = (ident(tokens.get(at + 1)), target) {
            scope.named.insert(args.clone());
            scope.aliases.insert(name, args);
        }
        at + 1
    }

    /// Guesses the struct of an expression: the first struct that a variable, a field or a name in the expression
    /// refers to.
    fn target(&self, tokens: &[TokenTree], scope: &Scope) -> Option<String> {
        let mut at = 0;
        while at < tokens.len() {
            if let Some(TokenTree::Group(group)) = tokens.get(at)
                && let Some(found) = self.target(&inner(group), scope)
            {
                return Some(found);
            }
            if let Some(name) = ident(tokens.get(at)) {
                if self.declarations.fields.contains_key(&name) {
                    return Some(name);
                }
                let args = self.declarations.functions.get(&name).cloned().flatten();
                if let Some(args) = args.or_else(|| scope.aliases.get(&name).cloned()) {
                    // `query::<slot::PJRT_X>()?.field`
                    let last = ident(tokens.last()).and_then(|last| self.declarations.field(&args, &last));
                    return Some(last.and_then(|field| field.target.clone()).unwrap_or(args));
                }
                if !is_member(tokens, at)
                    && let Some(variable) = scope.variables.get(&name)
                {
                    let mut target = variable.clone();
                    while is_punct(tokens.get(at + 1), '.')
                        && let Some(field) = ident(tokens.get(at + 2))
                        && let Some(field) = self.declarations.field(&target, &field)
                    {
                        target = field.target.clone()?;
                        at += 2;
                    }
                    return Some(target);
                }
            }
            at += 1;
        }
        None
    }

    fn word(&mut self, name: &str, tokens: &[TokenTree], at: usize, scope: &mut Scope) -> usize {
        if name == "offset_of"
            && let Some(content) = group(tokens.get(at + 2), Delimiter::Parenthesis)
        {
            let content = inner(content);
            if let (Some(of), Some(field)) = (ident(content.first()), ident(content.get(2))) {
                self.record(&of, &field, Access { reads: true, sets: false });
            }
            return at + 3;
        }
        if let Some(args) = self.declarations.functions.get(name).cloned() {
            return self.marker(name, args, tokens, at, scope);
        }
        // The bindings have no markers for the profiler's table. The vendor's side defines markers without the prefix.
        let profiler = format!("PLUGIN_Profiler_{name}");
        if let Some(args) = self.declarations.functions.get(&profiler).cloned() {
            return self.marker(&profiler, args, tokens, at, scope);
        }
        if self.declarations.fields.contains_key(name) {
            return self.struct_name(name, tokens, at, scope);
        }
        if let Some(target) = scope.aliases.get(name).cloned()
            && group(tokens.get(at + 1), Delimiter::Brace).is_some()
        {
            return self.struct_name(&target, tokens, at, scope);
        }
        // A parameter, such as `name: &mut X_Args`.
        if is_punct(tokens.get(at + 1), ':') && !is_punct(tokens.get(at + 2), ':') {
            let end = (at + 2..tokens.len()).find(|end| is_punct(tokens.get(*end), ',')).unwrap_or(tokens.len());
            let ty = (at + 2..end).filter_map(|at| ident(tokens.get(at)));
            let known = |ty: String| {
                let is_struct = self.declarations.fields.contains_key(&ty);
                scope.aliases.get(&ty).cloned().or(is_struct.then_some(ty))
            };
            if let Some(target) = ty.into_iter().find_map(known) {
                scope.variables.insert(name.to_owned(), target);
            }
            return at + 2;
        }
        match scope.variables.get(name).cloned() {
            Some(target) if !is_member(tokens, at) && is_punct(tokens.get(at + 1), '.') => {
                self.chain(Some(target), tokens, at + 1, scope)
            }
            _ => at + 1,
        }
    }

    /// Handles the name of a function's marker.
    fn marker(
        &mut self,
        name: &str,
        args: Option<String>,
        tokens: &[TokenTree],
        at: usize,
        scope: &mut Scope,
    ) -> usize {
        let is_name_only = is_punct(tokens.get(at + 1), ':') && ident(tokens.get(at + 3)).as_deref() == Some("NAME");
        scope.named.extend(args.clone());
        // `PJRT_X, X_Args, object`
        if is_punct(tokens.get(at + 1), ',')
            && let (Some(args), Some(named), Some(object)) =
                (&args, ident(tokens.get(at + 2)), ident(tokens.get(at + 4)))
            && *args == named
        {
            self.uses.functions.insert(name.to_owned());
            self.record(args, &object, Access { sets: true, reads: false });
        }
        // `field: Marker` lists a function in a table.
        let is_listed = is_punct(tokens.get(at + 1), ',') || at + 1 == tokens.len();
        // `Function::PJRT_X` only identifies a function, for example to query whether a plugin has it.
        let is_path = at > 2
            && is_punct(tokens.get(at - 1), ':')
            && is_punct(tokens.get(at - 2), ':')
            && ident(tokens.get(at - 3)).as_deref() != Some("Function");
        if is_path && !is_name_only {
            self.uses.functions.insert(name.to_owned());
        }
        if is_listed && !is_path {
            return at + 1;
        }
        let (Some(args), Some(parameters)) = (args, group(tokens.get(at + 1), Delimiter::Parenthesis)) else {
            return at + 1;
        };
        let parameters = inner(parameters);
        // `PJRT_X(X_Args, object: T) => kind(output: T);`
        if ident(parameters.first()).as_deref() == Some(args.as_str()) {
            self.uses.functions.insert(name.to_owned());
            self.fields_among(&args, &parameters, Access { sets: true, reads: false });
            if let Some(outputs) = group(tokens.get(at + 5), Delimiter::Parenthesis) {
                self.fields_among(&args, &inner(outputs), Access { sets: false, reads: true });
            }
            return at + 6;
        }
        at + 1
    }

    /// Handles the name of a struct, in a literal, a constructor or another expression.
    fn struct_name(&mut self, name: &str, tokens: &[TokenTree], at: usize, scope: &mut Scope) -> usize {
        scope.named.insert(name.to_owned());
        let functions = self.declarations.functions.iter();
        let of = functions.filter(|(_, args)| args.as_deref() == Some(name)).map(|(function, _)| function.clone());
        self.uses.functions.extend(of);
        // These are types and not literals: `-> X { body }`, `for X { items }`, `impl X { items }`.
        let before = ident(at.checked_sub(1).and_then(|at| tokens.get(at)));
        let is_type = at > 0 && is_punct(tokens.get(at - 1), '>')
            || matches!(before.as_deref(), Some("for" | "impl" | "struct" | "enum"))
            || at > 1 && is_punct(tokens.get(at - 1), '*')
            || matches!(before.as_deref(), Some("mut" | "const"));
        let Some(literal) = group(tokens.get(at + 1), Delimiter::Brace).filter(|_| !is_type) else { return at + 1 };
        let literal = inner(literal);
        let is_pattern = before.as_deref() == Some("let");
        let mut start = true;
        for (index, token) in literal.iter().enumerate() {
            if start && let Some(field) = ident(Some(token)) {
                self.record(name, &field, Access { sets: !is_pattern, reads: is_pattern });
            }
            start = is_punct(literal.get(index), ',');
        }
        self.tokens(&literal, &mut scope.clone());
        at + 2
    }

    /// Handles `.a.b.c` after an expression of the struct `target`, or of an unknown type. Returns the index after the
    /// chain.
    fn chain(&mut self, target: Option<String>, tokens: &[TokenTree], mut at: usize, scope: &Scope) -> usize {
        let mut target = target;
        while is_punct(tokens.get(at), '.')
            && let Some(name) = ident(tokens.get(at + 1))
        {
            // A call of a method, with or without type arguments.
            let is_method = group(tokens.get(at + 2), Delimiter::Parenthesis).is_some()
                || is_punct(tokens.get(at + 2), ':') && is_punct(tokens.get(at + 3), ':');
            if is_method {
                return at + 2;
            }
            let known = target.clone().filter(|target| self.declarations.has(target, &name));
            let of = known.or_else(|| {
                let candidates = self.in_sight(scope).into_iter().filter(|of| self.declarations.has(of, &name));
                target.is_none().then(|| self.shared(candidates.collect(), &name)).flatten()
            });
            let Some(of) = of else { return at + 2 };
            let sets = is_assigned(tokens, at + 2);
            // `args.inner.field = value` sets `field`. The field `inner` counts as set, too, because it is an input.
            let sets_inner = is_punct(tokens.get(at + 2), '.') && {
                let mut end = at + 2;
                while is_punct(tokens.get(end), '.') && ident(tokens.get(end + 1)).is_some() {
                    end += 2;
                }
                is_assigned(tokens, end)
            };
            let sets = sets || sets_inner;
            self.record(&of, &name, Access { sets, reads: !sets });
            target = self.declarations.field(&of, &name).and_then(|field| field.target.clone());
            at += 2;
        }
        at
    }

    /// Returns the structs that a function has named, and the structs that their fields point to, two levels deep.
    fn in_sight(&self, scope: &Scope) -> BTreeSet<String> {
        let mut all: BTreeSet<String> = scope.named.iter().chain(scope.variables.values()).cloned().collect();
        for _ in 0..2 {
            let fields = all.iter().filter_map(|of| self.declarations.fields.get(of)).flatten();
            let more: Vec<String> = fields.filter_map(|field| field.target.clone()).collect();
            all.extend(more);
        }
        all
    }

    /// Returns the only struct in `candidates`. Every candidate has the field. If there are two candidates, such as the
    /// structs for sending and receiving, returns the first one, and records a read of the field in the second one.
    /// Returns `None` if there are no candidates or more than two.
    fn shared(&mut self, candidates: Vec<String>, field: &str) -> Option<String> {
        match candidates.as_slice() {
            [one] => Some(one.clone()),
            [one, other] => {
                self.record(other, field, Access { sets: false, reads: true });
                Some(one.clone())
            }
            _ => None,
        }
    }

    /// Records the fields that a tuple assignment sets.
    fn tuple(&mut self, content: &[TokenTree], scope: &Scope) {
        for at in 0..content.len() {
            if let (Some(variable), Some(field)) = (ident(content.get(at)), ident(content.get(at + 2)))
                && is_punct(content.get(at + 1), '.')
                && let Some(target) = scope.variables.get(&variable)
            {
                self.record(target, &field, Access { sets: true, reads: false });
            }
        }
    }

    /// Records each word that names a field of the struct.
    fn fields_among(&mut self, of: &str, tokens: &[TokenTree], access: Access) {
        for token in tokens {
            if let Some(name) = ident(Some(token)) {
                self.record(of, &name, access);
            }
        }
    }

    fn record(&mut self, of: &str, field: &str, access: Access) {
        if !self.declarations.has(of, field) {
            return;
        }
        let known = self.uses.fields.entry((of.to_owned(), field.to_owned())).or_default();
        known.sets |= access.sets;
        known.reads |= access.reads;
    }
}

/// Records the parameters of a closure as variables of unknown type, and returns the index after the first `|`. If a
/// parameter has a type, the search later finds its struct.
fn closure_parameters(tokens: &[TokenTree], at: usize, scope: &mut Scope) -> usize {
    let mut end = at + 1;
    while end < tokens.len() && !is_punct(tokens.get(end), '|') && !is_punct(tokens.get(end), ';') {
        match &tokens[end] {
            TokenTree::Ident(name) => drop(scope.unknown.insert(name.to_string())),
            TokenTree::Group(group) if group.delimiter() == Delimiter::Parenthesis => {
                scope.unknown.extend(inner(group).iter().filter_map(|token| ident(Some(token))));
            }
            TokenTree::Punct(mark) if matches!(mark.as_char(), '&' | ',' | '_') => {}
            // A type follows, or this `|` is an operator.
            _ => break,
        }
        end += 1;
    }
    at + 1
}

/// Returns whether `#[cfg(test)]` begins at a token.
fn is_test(tokens: &[TokenTree], at: usize) -> bool {
    is_punct(tokens.get(at), '#')
        && group(tokens.get(at + 1), Delimiter::Bracket).is_some_and(|group| {
            let content = inner(group);
            ident(content.first()).as_deref() == Some("cfg")
                && group_text(content.get(1)).is_some_and(|condition| condition == "test")
        })
}

fn group_text(token: Option<&TokenTree>) -> Option<String> {
    Some(group(token, Delimiter::Parenthesis)?.stream().to_string())
}

/// Returns the index after the item that begins at a token.
fn after_item(tokens: &[TokenTree], at: usize) -> usize {
    let end = (at..tokens.len())
        .find(|end| is_punct(tokens.get(*end), ';') || group(tokens.get(*end), Delimiter::Brace).is_some());
    end.map_or(tokens.len(), |end| end + 1)
}
