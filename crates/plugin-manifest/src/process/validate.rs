//! Checks a plan and reports all of its faults together.

use super::chips::split_glob;
use super::plan::{ProcessPlan, When};
use super::probe::{ChipProbe, HostIndex};
use super::template::{Template, is_variable};
use crate::Faults;
use crate::diagnostic::Found;

impl Found {
    /// Checks the fields that all rules have.
    fn rule(&mut self, at: &str, value: &str, when: &[When], unless_set: &[String]) {
        if let Err(problem) = Template::parse(value) {
            self.add(format!("{at}.value"), problem);
        }
        if !together(when, when) {
            let message = "the conditions exclude each other, so the rule never applies; remove one of them";
            self.add(format!("{at}.when"), message);
        }
        for (i, name) in unless_set.iter().enumerate().filter(|(_, name)| !is_variable(name)) {
            self.add(format!("{at}.unless_set[{i}]"), not_a_variable(name));
        }
    }

    /// Checks that no earlier rule for the same name can apply together with a rule.
    fn twice<'a>(
        &mut self,
        (list, i, field): (&str, usize, &str),
        (name, when): (&str, &[When]),
        mut earlier: impl Iterator<Item = (&'a str, &'a [When])>,
    ) {
        if let Some(earlier) = earlier.position(|earlier| earlier.0 == name && together(earlier.1, when)) {
            let remedy = "add conditions that exclude each other to the two rules";
            self.add(format!("{list}[{i}].{field}"), format!("{list}[{earlier}] may set {name} too; {remedy}"));
        }
    }
}

impl ProcessPlan {
    /// Checks the plan's names, templates, conditions, default port and probes. The check does not need a topology.
    ///
    /// # Errors
    ///
    /// Returns an error if the plan has faults. The error contains all of them.
    pub fn validate(&self) -> Result<(), Faults> {
        let mut faults = Found::default();
        for (i, rule) in self.environment.iter().enumerate() {
            let at = format!("environment[{i}]");
            if !is_variable(&rule.variable) {
                faults.add(format!("{at}.variable"), not_a_variable(&rule.variable));
            }
            if rule.value.contains('\0') {
                let message =
                    format!("{:?} contains a NUL byte, which no variable can hold; remove the byte", rule.value);
                faults.add(format!("{at}.value"), message);
            }
            faults.rule(&at, &rule.value, &rule.when, &rule.unless_set);
            let earlier = self.environment[..i].iter().map(|earlier| (&*earlier.variable, &*earlier.when));
            faults.twice(("environment", i, "variable"), (&rule.variable, &rule.when), earlier);
        }
        for (i, rule) in self.options.iter().enumerate() {
            let at = format!("options[{i}]");
            if rule.name.is_empty() {
                faults.add(format!("{at}.name"), "the option's name is empty; write one");
            }
            faults.rule(&at, &rule.value, &rule.when, &rule.unless_set);
            let earlier = self.options[..i].iter().map(|earlier| (&*earlier.name, &*earlier.when));
            faults.twice(("options", i, "name"), (&rule.name, &rule.when), earlier);
        }
        if self.coordinator.default_port == 0 {
            faults.add("coordinator.default_port", "the port is 0; write a port from 1 to 65535");
        }
        for (i, probe) in self.chips.iter().enumerate() {
            match probe {
                ChipProbe::Constant { count: 0 } => {
                    faults.add(format!("chips[{i}].count"), "the count is 0; write at least 1, or remove the probe")
                }
                ChipProbe::Constant { .. } => {}
                ChipProbe::Variable { name } => {
                    if !is_variable(name) {
                        faults.add(format!("chips[{i}].name"), not_a_variable(name));
                    }
                }
                ChipProbe::DeviceNodes { glob } => {
                    if let Err(problem) = split_glob(glob) {
                        faults.add(format!("chips[{i}].glob"), problem);
                    }
                }
            }
        }
        if let HostIndex::Variables { names } = &self.host_index {
            if names.is_empty() {
                faults.add("host_index.names", "the list is empty; name at least one variable");
            }
            for (i, name) in names.iter().enumerate().filter(|(_, name)| !is_variable(name)) {
                faults.add(format!("host_index.names[{i}]"), not_a_variable(name));
            }
        }
        faults.finish()
    }
}

/// Returns the fault of a text that is not the name of an environment variable.
pub(crate) fn not_a_variable(name: &str) -> String {
    format!("{name:?} is not a valid name of a variable; write letters, digits and _, and do not begin with a digit")
}

/// Returns whether no condition in `a` excludes a condition in `b`.
fn together(a: &[When], b: &[When]) -> bool {
    !a.iter().any(|a| b.iter().any(|b| a.excludes(*b)))
}

#[cfg(test)]
mod tests {
    use super::super::plan::{Coordinator, EnvRule, OptionRule};
    use super::*;
    use crate::OptionType;

    fn when(when: &[When], variable: &str, value: &str) -> EnvRule {
        EnvRule { when: when.to_vec(), ..EnvRule::new(variable, value) }
    }

    #[test]
    fn lists_all_faults() {
        let plan = ProcessPlan {
            environment: vec![
                EnvRule::new("A", "{local_rank}"),
                when(&[When::MultiProcess], "A", "{rank}"),
                when(&[When::OneDevice, When::AllDevices], "1A", "x"),
                EnvRule { unless_set: vec!["=".to_owned()], ..EnvRule::new("B", "x") },
                EnvRule::new("C", "a\0b"),
            ],
            options: [("", "{"), ("o", "1"), ("o", "2")]
                .map(|(name, value)| OptionRule::new(name, OptionType::Int64, value))
                .into(),
            coordinator: Coordinator { default_port: 0, ..Coordinator::default() },
            chips: vec![
                ChipProbe::Constant { count: 0 },
                ChipProbe::Variable { name: String::new() },
                ChipProbe::DeviceNodes { glob: "x".to_owned() },
            ],
            host_index: HostIndex::Variables { names: vec![] },
        };
        let error = plan.validate().unwrap_err();
        let at: Vec<&str> = error.all().iter().map(|fault| fault.field.as_str()).collect();
        assert_eq!(
            at,
            [
                "environment[1].value",
                "environment[1].variable",
                "environment[2].variable",
                "environment[2].when",
                "environment[3].unless_set[0]",
                "environment[4].value",
                "options[0].name",
                "options[0].value",
                "options[2].name",
                "coordinator.default_port",
                "chips[0].count",
                "chips[1].name",
                "chips[2].glob",
                "host_index.names",
            ]
        );
    }

    #[test]
    fn exclusive_rules_for_one_variable() {
        let environment =
            vec![when(&[When::SingleProcess, When::OneDevice], "A", "1"), when(&[When::MultiProcess], "A", "2")];
        ProcessPlan { environment, ..ProcessPlan::default() }.validate().unwrap();
    }

    #[test]
    fn json_defaults_and_faults() {
        let rule = r#"{"environment":[{"variable":"A","value":"1","when":["sometimes"]}]}"#;
        let error = serde_json::from_str::<ProcessPlan>(rule).unwrap_err().to_string();
        assert!(error.contains("sometimes") && error.contains("single_process"), "{error}");
        assert_eq!(serde_json::from_str::<ProcessPlan>("{}").unwrap(), ProcessPlan::default());
    }
}
