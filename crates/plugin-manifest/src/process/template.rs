//! Templates over a topology, such as `{host_in_slice*local_world_size+local_rank}`.
//!
//! The documentation of [`process`](super) describes the choices. Templates have no subtraction or division, so every
//! sum is a whole number. A sum that does not fit into 64 bits is an error. Spaces around choices, `+` and `*` are
//! ignored.

use Problem::{Broken, Syntax, Unknown};

use super::environment::Environment;
use super::topology::ProcessTopology;

type Integer = (&'static str, fn(&ProcessTopology) -> u32);

/// The integers that templates can refer to.
const INTEGERS: [Integer; 10] = [
    ("local_rank", ProcessTopology::local_rank),
    ("local_world_size", ProcessTopology::local_world_size),
    ("global_rank", ProcessTopology::global_rank),
    ("world_size", ProcessTopology::world_size),
    ("host_index", ProcessTopology::host_index),
    ("host_count", ProcessTopology::host_count),
    ("host_in_slice", ProcessTopology::host_in_slice),
    ("hosts_per_slice", ProcessTopology::hosts_per_slice),
    ("slice_index", |topology| topology.slice().index()),
    ("slice_count", |topology| topology.slice().count()),
];

const TEXTS: [&str; 4] = ["coordinator", "coordinator_host", "coordinator_port", "hosts"];

/// A text without syntax errors.
#[derive(Debug)]
pub(super) struct Template<'a>(&'a str);

/// The values that templates refer to.
pub(super) struct Scope<'a> {
    pub(super) topology: &'a ProcessTopology,
    pub(super) environment: &'a Environment,
    pub(super) default_port: u16,
}

/// The reason why a choice has no value.
enum Problem {
    /// The template is malformed, whatever the values are.
    Syntax(String),
    /// The value is not known, so the next choice is tried.
    Unknown(String),
    /// The value is known but invalid, so filling in the template fails.
    Broken(String),
}

impl<'a> Template<'a> {
    pub(super) fn parse(text: &'a str) -> Result<Self, String> {
        let scope = Scope { topology: &ProcessTopology::single(), environment: &Environment::new(), default_port: 1 };
        match scope.template(text) {
            Err(Syntax(problem)) => Err(problem),
            // Without values, other problems are expected.
            _ => Ok(Self(text)),
        }
    }

    pub(super) fn fill(&self, scope: &Scope<'_>) -> Result<String, String> {
        scope.template(self.0).map_err(|(Syntax(problem) | Unknown(problem) | Broken(problem))| problem)
    }
}

/// Returns the position of the first `wanted` that is not within quotes.
fn unquoted(text: &str, wanted: char) -> Option<usize> {
    let mut quoted = false;
    text.find(|c| {
        quoted ^= c == '\'';
        c == wanted && !quoted
    })
}

fn variable(name: &str) -> Result<&str, Problem> {
    let name = name.trim();
    if is_variable(name) { Ok(name) } else { Err(Syntax(format!("{name:?} is not a valid name of a variable"))) }
}

/// Returns whether shells can set a variable with this name.
pub(crate) fn is_variable(name: &str) -> bool {
    let mut chars = name.chars();
    chars.next().is_some_and(|c| c.is_ascii_alphabetic() || c == '_')
        && chars.all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// The methods find all syntax errors, even if an earlier value is not known.
impl Scope<'_> {
    fn template(&self, text: &str) -> Result<String, Problem> {
        let (mut filled, mut rest, mut gap) = (String::new(), text, None);
        while let Some(at) = rest.find(['{', '}']) {
            filled.push_str(&rest[..at]);
            let (brace, after) = rest[at..].split_at(1);
            if let Some(after) = after.strip_prefix(brace) {
                filled.push_str(brace);
                rest = after;
                continue;
            }
            if brace == "}" {
                return Err(Syntax(format!(
                    "{text:?} contains a `}}` without its `{{`; write `}}}}` for the character itself"
                )));
            }
            let end = unquoted(after, '}').ok_or_else(|| {
                Syntax(format!("{text:?} contains a `{{` without its `}}`; write `{{{{` for the character itself"))
            })?;
            match self.slot(&after[..end]) {
                Ok(value) => filled.push_str(&value),
                Err(Syntax(problem)) => return Err(Syntax(problem)),
                Err(problem) => gap = gap.or(Some(problem)),
            }
            rest = &after[end + 1..];
        }
        gap.map_or_else(|| Ok(filled + rest), Err)
    }

    fn slot(&self, mut choices: &str) -> Result<String, Problem> {
        let (mut first, mut unknown) = (None, Vec::new());
        loop {
            let end = unquoted(choices, '|');
            match self.choice(choices[..end.unwrap_or(choices.len())].trim()) {
                Err(Syntax(problem)) => return Err(Syntax(problem)),
                Err(Unknown(problem)) => unknown.push(problem),
                known => first = first.or(Some(known)),
            }
            let Some(end) = end else { break };
            choices = &choices[end + 1..];
        }
        first.unwrap_or_else(|| Err(Unknown(unknown.join(", and "))))
    }

    fn choice(&self, text: &str) -> Result<String, Problem> {
        let syntax = |problem: &str| Syntax(format!("{text:?} {problem}"));
        if let Some(literal) = text.strip_prefix('\'') {
            let literal =
                literal.strip_suffix('\'').ok_or_else(|| syntax("has text after the closing quote; remove it"));
            return literal.map(str::to_owned);
        }
        if let Some(name) = text.strip_prefix("env:") {
            let Some((name, index)) = name.split_once('[') else {
                return self.variable(variable(name)?).map(str::to_owned);
            };
            let index = index.strip_suffix(']').ok_or_else(|| syntax("lacks its closing `]`"))?;
            return self.item(variable(name)?, self.sum(index)?);
        }
        if let Some(port) = text.strip_prefix("process_addresses:") {
            let remedy = "lacks a valid port; write process_addresses:PORT with a port from 1 to 65535";
            let port = port.trim().parse().ok().filter(|port| *port > 0);
            return self.addresses(port.ok_or_else(|| syntax(remedy))?);
        }
        if let Some(names) = text.strip_prefix("mesh_product:") {
            let remedy = "lacks the second variable; write mesh_product:NAME,NAME";
            let (left, right) = names.split_once(',').ok_or_else(|| syntax(remedy))?;
            return self.mesh_product(variable(left)?, variable(right)?);
        }
        let coordinator = || {
            self.topology.coordinator.as_ref().ok_or_else(|| {
                Unknown("the coordinator is unknown; set MASTER_ADDR or JAX_COORDINATOR_ADDRESS".to_owned())
            })
        };
        match text {
            "coordinator" => Ok(coordinator()?.clone().or_port(self.default_port).to_string()),
            "coordinator_host" => Ok(coordinator()?.url_host()),
            "coordinator_port" => Ok(coordinator()?.port().unwrap_or(self.default_port).to_string()),
            "hosts" => Ok(self.hosts()?.join(",")),
            _ => self.sum(text).map(|sum| sum.to_string()),
        }
    }

    fn variable(&self, name: &str) -> Result<&str, Problem> {
        let attribute = || self.topology.attributes.get(name).map(String::as_str);
        let value = self.environment.value(name).or_else(attribute);
        value.ok_or_else(|| Unknown(format!("{name} is not set")))
    }

    /// Returns the value of a sum of products of factors.
    fn sum(&self, text: &str) -> Result<u64, Problem> {
        let product = |text: &str| text.split('*').map(|text| self.factor(text.trim())).collect();
        let products = text.split('+').map(product).collect::<Result<Vec<Vec<u64>>, _>>()?;
        let product = |factors: &Vec<u64>| factors.iter().copied().try_fold(1, u64::checked_mul);
        let total = products.iter().try_fold(0u64, |total, factors| total.checked_add(product(factors)?));
        total.ok_or_else(|| Broken("the sum does not fit into 64 bits".to_owned()))
    }

    fn factor(&self, text: &str) -> Result<u64, Problem> {
        if let Some((_, integer)) = INTEGERS.iter().find(|(name, _)| *name == text) {
            return Ok(integer(self.topology).into());
        }
        if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
            return text.parse().map_err(|_| Syntax(format!("{text} does not fit into 64 bits")));
        }
        Err(Syntax(if TEXTS.contains(&text) {
            format!("{text} is not an integer, so it cannot be part of a sum; use it alone")
        } else {
            format!(
                "unknown placeholder {text:?}; known are {}, {}, env:NAME, env:NAME[integer], process_addresses:PORT and \
                 mesh_product:NAME,NAME",
                INTEGERS.map(|(name, _)| name).join(", "),
                TEXTS.join(", ")
            )
        }))
    }

    fn item(&self, name: &str, index: u64) -> Result<String, Problem> {
        let text = self.variable(name)?;
        let broken = |problem: String| Broken(format!("{name}={text:?}: {problem}"));
        let mut items: Vec<String> = Vec::new();
        for item in text.split(',').map(str::trim) {
            let range = item
                .split_once('-')
                .and_then(|(first, last)| Some((first.trim().parse::<u32>().ok()?, last.trim().parse::<u32>().ok()?)));
            match range {
                None => items.push(item.to_owned()),
                Some((first, last)) if first <= last && last - first < 65536 => {
                    items.extend((first..=last).map(|number| number.to_string()));
                }
                Some(_) => {
                    return Err(broken(format!(
                        "the range {item:?} counts down or has more than 65536 numbers; write the lower number first"
                    )));
                }
            }
        }
        let found = usize::try_from(index).ok().and_then(|index| items.get(index));
        found.cloned().ok_or_else(|| {
            let count = items.len();
            broken(format!(
                "the list has {count} items and lacks item {index}, counted from 0; list one item for each process"
            ))
        })
    }

    fn hosts(&self) -> Result<Vec<String>, Problem> {
        let hosts = self.topology.hosts();
        if !hosts.is_empty() {
            return Ok(hosts.to_vec());
        }
        if self.topology.hosts_per_slice() == 1 {
            return Ok(vec!["localhost".to_owned()]);
        }
        Err(Unknown("the names of the hosts are unknown; set TPU_WORKER_HOSTNAMES".to_owned()))
    }

    fn addresses(&self, port: u16) -> Result<String, Problem> {
        let mut addresses = Vec::new();
        for host in self.hosts()? {
            for local in 0..self.topology.local_world_size() {
                let port = u16::try_from(local).ok().and_then(|local| port.checked_add(local));
                let port = port.ok_or_else(|| {
                    Broken("the ports of the processes exceed 65535; choose a lower first port".to_owned())
                })?;
                addresses.push(format!("{host}:{port}"));
            }
        }
        Ok(addresses.join(","))
    }

    fn mesh_product(&self, left: &str, right: &str) -> Result<String, Problem> {
        let mesh = |name: &str| {
            let text = self.variable(name)?;
            let axes: Option<Vec<u64>> = text.split(',').map(|axis| axis.trim().parse().ok()).collect();
            axes.ok_or_else(|| Broken(format!("{name}={text:?} is not a mesh; write numbers such as 2,2,1")))
        };
        let (a, b) = (mesh(left)?, mesh(right)?);
        if a.len() != b.len() {
            return Err(Broken(format!(
                "{left} has {} axes, but {right} has {}; write the same number in both",
                a.len(),
                b.len()
            )));
        }
        let product: Option<Vec<String>> =
            a.iter().zip(&b).map(|(a, b)| a.checked_mul(*b).map(|axis| axis.to_string())).collect();
        product
            .map(|axes| axes.join(","))
            .ok_or_else(|| Broken(format!("the product of {left} and {right} does not fit into 64 bits")))
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::super::rank::Position;
    use super::*;

    fn topology() -> ProcessTopology {
        let at = |index, count| Position::new(index, count).unwrap();
        let topology = ProcessTopology::new(at(6, 8), at(2, 4), at(1, 2)).unwrap();
        let mut topology = topology.with_hosts(vec!["a".into(), "b".into()]).unwrap();
        topology.attributes.insert("META".to_owned(), "m".to_owned());
        topology
    }

    fn fill_in(text: &str, topology: &ProcessTopology) -> Result<String, String> {
        let environment = Environment::from([
            ("CORES", "8-9, 4,1"),
            ("DOWN", "9-8"),
            ("MESH", "2,2,1"),
            ("ALSO", "1,2,3"),
            ("FLAT", "4,4"),
            ("EMPTY", ""),
            ("HUGE", "99999999999,1,1"),
        ]);
        Template::parse(text)?.fill(&Scope { topology, environment: &environment, default_port: 8547 })
    }

    #[test]
    fn fills_in_values() {
        let mut topology = topology();
        topology.coordinator = Some("fe80::1".parse().unwrap());
        for (text, expected) in [
            ("", ""),
            ("plain", "plain"),
            ("{{{local_rank}}}", "{2}"),
            ("{host_in_slice*local_world_size+local_rank}", "6"),
            ("{ 8476 + local_rank }", "8478"),
            ("{2*3*world_size+1}", "49"),
            ("{global_rank}/{world_size},{host_index}/{host_count},{slice_index}/{slice_count}", "6/8,1/2,0/1"),
            ("{hosts_per_slice}", "2"),
            ("{coordinator}", "[fe80::1]:8547"),
            ("{coordinator_host}:62182", "[fe80::1]:62182"),
            ("{coordinator_port}", "8547"),
            ("{hosts}", "a,b"),
            ("{process_addresses:8476}", "a:8476,a:8477,a:8478,a:8479,b:8476,b:8477,b:8478,b:8479"),
            ("{mesh_product:MESH,ALSO}", "2,4,3"),
            ("{env:CORES[local_rank]}", "4"),
            ("{env:CORES[0]}{env:CORES[1]}", "89"),
            ("{env:EMPTY|env:ABSENT|'a|{b}'}", "a|{b}"),
            ("{env:ABSENT[local_rank]|local_rank}", "2"),
            ("{env:META}", "m"),
        ] {
            assert_eq!(fill_in(text, &topology).as_deref(), Ok(expected), "{text}");
        }
        topology = ProcessTopology::single();
        assert_eq!(fill_in("{process_addresses:1}", &topology).unwrap(), "localhost:1");
        assert_eq!(fill_in("{coordinator_host|'localhost'}:1", &topology).unwrap(), "localhost:1");
    }

    #[test]
    fn names_unknown_values() {
        let topology = topology();
        let mut messages = String::new();
        for text in [
            "{env:ABSENT}",
            "{env:ABSENT|env:UNSET}",
            "{coordinator_host}",
            "{env:CORES[7]|'x'}",
            "{env:DOWN[0]}",
            "{mesh_product:MESH,FLAT}",
            "{mesh_product:CORES,MESH}",
            "{18446744073709551615*world_size}",
            "{process_addresses:65534}",
        ] {
            let problem = fill_in(text, &topology).unwrap_err();
            messages += &format!("{text}: {problem}\n");
        }
        expect![[r#"
            {env:ABSENT}: ABSENT is not set
            {env:ABSENT|env:UNSET}: ABSENT is not set, and UNSET is not set
            {coordinator_host}: the coordinator is unknown; set MASTER_ADDR or JAX_COORDINATOR_ADDRESS
            {env:CORES[7]|'x'}: CORES="8-9, 4,1": the list has 4 items and lacks item 7, counted from 0; list one item for each process
            {env:DOWN[0]}: DOWN="9-8": the range "9-8" counts down or has more than 65536 numbers; write the lower number first
            {mesh_product:MESH,FLAT}: MESH has 3 axes, but FLAT has 2; write the same number in both
            {mesh_product:CORES,MESH}: CORES="8-9, 4,1" is not a mesh; write numbers such as 2,2,1
            {18446744073709551615*world_size}: the sum does not fit into 64 bits
            {process_addresses:65534}: the ports of the processes exceed 65535; choose a lower first port
        "#]].assert_eq(&messages);
    }

    #[test]
    fn rejects_broken_templates() {
        let mut messages = String::new();
        for text in [
            "{",
            "a}b",
            "{local_rnak}",
            "{}",
            "{local_rank-1}",
            "{local_rank+}",
            "{coordinator_port+1}",
            "{99999999999999999999}",
            "{env:A B}",
            "{env:A[0}",
            "{'a'b}",
            "{process_addresses:0}",
            "{mesh_product:A}",
        ] {
            let problem = Template::parse(text).unwrap_err();
            messages += &format!("{text}: {problem}\n");
        }
        expect![[r#"
            {: "{" contains a `{` without its `}`; write `{{` for the character itself
            a}b: "a}b" contains a `}` without its `{`; write `}}` for the character itself
            {local_rnak}: unknown placeholder "local_rnak"; known are local_rank, local_world_size, global_rank, world_size, host_index, host_count, host_in_slice, hosts_per_slice, slice_index, slice_count, coordinator, coordinator_host, coordinator_port, hosts, env:NAME, env:NAME[integer], process_addresses:PORT and mesh_product:NAME,NAME
            {}: unknown placeholder ""; known are local_rank, local_world_size, global_rank, world_size, host_index, host_count, host_in_slice, hosts_per_slice, slice_index, slice_count, coordinator, coordinator_host, coordinator_port, hosts, env:NAME, env:NAME[integer], process_addresses:PORT and mesh_product:NAME,NAME
            {local_rank-1}: unknown placeholder "local_rank-1"; known are local_rank, local_world_size, global_rank, world_size, host_index, host_count, host_in_slice, hosts_per_slice, slice_index, slice_count, coordinator, coordinator_host, coordinator_port, hosts, env:NAME, env:NAME[integer], process_addresses:PORT and mesh_product:NAME,NAME
            {local_rank+}: unknown placeholder ""; known are local_rank, local_world_size, global_rank, world_size, host_index, host_count, host_in_slice, hosts_per_slice, slice_index, slice_count, coordinator, coordinator_host, coordinator_port, hosts, env:NAME, env:NAME[integer], process_addresses:PORT and mesh_product:NAME,NAME
            {coordinator_port+1}: coordinator_port is not an integer, so it cannot be part of a sum; use it alone
            {99999999999999999999}: 99999999999999999999 does not fit into 64 bits
            {env:A B}: "A B" is not a valid name of a variable
            {env:A[0}: "env:A[0" lacks its closing `]`
            {'a'b}: "'a'b" has text after the closing quote; remove it
            {process_addresses:0}: "process_addresses:0" lacks a valid port; write process_addresses:PORT with a port from 1 to 65535
            {mesh_product:A}: "mesh_product:A" lacks the second variable; write mesh_product:NAME,NAME
        "#]].assert_eq(&messages);
    }
}
