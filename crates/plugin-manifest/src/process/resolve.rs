//! Computes the values of a plan for one process.

use pjrt_types::NamedValue;

use super::address::Address;
use super::env_plan::{EnvPlan, PlannedOption};
use super::environment::Environment;
use super::plan::{CoordinatorNeed, ProcessPlan, SetMode, When};
use super::template::{Scope, Template};
use super::topology::ProcessTopology;
use crate::Faults;
use crate::diagnostic::Found;

impl ProcessPlan {
    /// Computes the values of the plan for one process with these environment variables.
    ///
    /// # Errors
    ///
    /// Returns an error if the plan itself is invalid, or if a value is unknown or has the wrong form. The error
    /// contains all faults of the plan. If the plan is valid, it contains a fault for each of these values.
    pub fn resolve(&self, topology: &ProcessTopology, environment: &Environment) -> Result<EnvPlan, Faults> {
        self.validate()?;
        let scope = Scope { topology, environment, default_port: self.coordinator.default_port };
        let holds = |when: &[When], unless_set: &[String]| {
            when.iter().all(|when| when.holds(topology))
                && !unless_set.iter().any(|name| environment.value(name).is_some())
        };
        let mut plan = EnvPlan::default();
        let mut faults = Found::default();
        for (i, rule) in self.environment.iter().enumerate() {
            if !holds(&rule.when, &rule.unless_set) {
                continue;
            }
            let kept = rule.set == SetMode::Default && environment.get(&rule.variable).is_some();
            match Template::parse(&rule.value).and_then(|template| template.fill(&scope)) {
                Ok(value) => {
                    plan.add_variable(&rule.variable, value, (rule.set, rule.before), &rule.reason, environment);
                }
                // The variable keeps its current value, so an unknown value in the plan is not a fault.
                Err(_) if kept => {}
                Err(problem) => faults.add(format!("environment[{i}] {}", rule.variable), problem),
            }
        }
        for (i, rule) in self.options.iter().enumerate() {
            if !holds(&rule.when, &rule.unless_set) {
                continue;
            }
            let value = Template::parse(&rule.value).and_then(|template| template.fill(&scope));
            match value.and_then(|text| {
                rule.ty.parse(&text).ok_or_else(|| format!("{text:?} is not a value of type {}", rule.ty.name()))
            }) {
                Ok(value) => plan
                    .options
                    .push(PlannedOption { option: NamedValue::new(&rule.name, value), reason: rule.reason.clone() }),
                Err(problem) => faults.add(format!("options[{i}] {}", rule.name), problem),
            }
        }
        let needed = match self.coordinator.need {
            CoordinatorNeed::Never => false,
            CoordinatorNeed::Always => true,
            CoordinatorNeed::MultiProcess => topology.world_size() > 1,
        };
        if needed {
            match coordinator(topology, self.coordinator.default_port) {
                Some(address) => plan.coordinator = Some(address),
                None => faults.add(
                    "coordinator",
                    format!(
                        "the {} processes are on {} hosts, and the address of the coordinator is unknown; set \
                         JAX_COORDINATOR_ADDRESS to host:port of the process of rank 0, or MASTER_ADDR to its host",
                        topology.world_size(),
                        topology.host_count()
                    ),
                ),
            }
        }
        faults.finish()?;
        Ok(plan)
    }
}

/// Returns the coordinator's address, with `default_port` if its port is unknown. If the address is unknown, returns
/// `localhost` for a single host and `None` for several hosts.
fn coordinator(topology: &ProcessTopology, default_port: u16) -> Option<Address> {
    let known = topology.coordinator.clone();
    let local = || (topology.host_count() == 1).then(|| Address::new("localhost", None).ok()).flatten();
    known.or_else(local).map(|address| address.or_port(default_port))
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::super::env_plan::Effect;
    use super::super::plan::{Before, EnvRule, OptionRule};
    use super::super::rank::Position;
    use super::*;
    use crate::{OptionType, Value};

    fn two_hosts() -> ProcessTopology {
        let at = |index, count| Position::new(index, count).unwrap();
        ProcessTopology::new(at(3, 4), at(1, 2), at(1, 2)).unwrap()
    }

    fn with_variables<const N: usize>(rules: [EnvRule; N]) -> ProcessPlan {
        ProcessPlan { environment: rules.into(), ..ProcessPlan::default() }
    }

    #[test]
    fn steps_list_changes() {
        let rank = |variable: &str| EnvRule::new(variable, "{local_rank}");
        let set = SetMode::Override;
        let plan = with_variables([
            EnvRule { reason: "why".to_owned(), ..rank("UNSET") },
            rank("KEPT"),
            EnvRule { set, before: Before::Client, ..rank("REPLACED") },
            EnvRule { set, ..rank("SAME") },
            EnvRule { when: vec![When::SingleProcess], ..EnvRule::new("ALONE", "1") },
            EnvRule { unless_set: vec!["KEPT".to_owned()], ..EnvRule::new("NOT_BESIDE", "1") },
            // The value of the plan is unknown, but `HERE` keeps its current value.
            EnvRule::new("HERE", "{env:NOWHERE}"),
        ]);
        let environment =
            Environment::from([("KEPT", "7"), ("REPLACED", "7"), ("SAME", "1"), ("HERE", ""), ("EMPTY", "")]);
        let plan = plan.resolve(&two_hosts(), &environment).unwrap();
        let effects: Vec<_> = plan.steps.iter().map(|step| (step.variable.as_str(), step.effect)).collect();
        assert_eq!(
            effects,
            [
                ("UNSET", Effect::Set),
                ("KEPT", Effect::Keep),
                ("REPLACED", Effect::Replace),
                ("SAME", Effect::Unchanged)
            ]
        );
        assert_eq!(plan.for_child().collect::<Vec<_>>(), [("UNSET", "1"), ("REPLACED", "1")]);
        assert_eq!(plan.changes(Before::Load).map(|step| step.variable.as_str()).collect::<Vec<_>>(), ["UNSET"]);
        expect![[r#"
            set before load        UNSET     "1"           why
            keep before load       KEPT      "7", not "1"
            replace before client  REPLACED  "1", was "7"
            unchanged before load  SAME      "1""#]]
        .assert_eq(&plan.to_string());
        let json = serde_json::to_value(&plan).unwrap();
        assert_eq!(json["steps"][1]["effect"], "keep");
        assert_eq!(json["steps"][1]["current"], "7");
    }

    #[test]
    fn child_process_gets_variables() {
        let plan = with_variables([EnvRule::new("PLAN_CHILD", "{global_rank}")]);
        let plan = plan.resolve(&two_hosts(), &Environment::new()).unwrap();
        let output = std::process::Command::new("env").env_clear().envs(plan.for_child()).output();
        let Ok(output) = output else {
            println!("SKIPPED child_process_gets_variables: no program env");
            return;
        };
        assert_eq!(String::from_utf8(output.stdout).unwrap(), "PLAN_CHILD=3\n");
    }

    #[test]
    fn option_types() {
        let option = |kind, value: &str| OptionRule::new("o", kind, value);
        let resolve = |rule| {
            let plan = ProcessPlan { options: vec![rule], ..ProcessPlan::default() };
            plan.resolve(&two_hosts(), &Environment::new())
        };
        for (kind, text, value) in [
            (OptionType::Int64, "{global_rank}", Value::Int64(3)),
            (OptionType::Int64List, "{local_rank}, 7", Value::Int64List(vec![1, 7])),
            (OptionType::Int64List, "", Value::Int64List(vec![])),
            (OptionType::Float, "0.5", Value::Float(0.5)),
            (OptionType::Bool, "true", Value::Bool(true)),
            (OptionType::String, "{local_rank}", Value::String("1".to_owned())),
        ] {
            let plan = resolve(option(kind, text)).unwrap();
            assert_eq!(plan.create_options(), [NamedValue::new("o", value)]);
        }
        let faults = resolve(option(OptionType::Int64, "x{local_rank}")).unwrap_err();
        assert_eq!(faults.all()[0].field, "options[0] o");
        expect![[r#"options[0] o: "x1" is not a value of type int64"#]].assert_eq(&faults.to_string());
        let plan = resolve(option(OptionType::Int64List, "{local_rank}")).unwrap();
        let json = serde_json::to_string(&plan).unwrap();
        assert!(json.contains(r#"{"name":"o","type":"int64_list","value":[1],"reason":""}"#), "{json}");
    }

    #[test]
    fn lists_all_unknown_values() {
        let mut plan = with_variables([EnvRule::new("A", "{env:UNSET}"), EnvRule::new("B", "{hosts}")]);
        plan.coordinator.need = CoordinatorNeed::MultiProcess;
        let error = plan.resolve(&two_hosts(), &Environment::new()).unwrap_err();
        assert_eq!(error.all().len(), 3);
        expect!["environment[0] A: UNSET is not set; environment[1] B: the names of the hosts are unknown; set TPU_WORKER_HOSTNAMES; coordinator: the 4 processes are on 2 hosts, and the address of the coordinator is unknown; set JAX_COORDINATOR_ADDRESS to host:port of the process of rank 0, or MASTER_ADDR to its host"]
            .assert_eq(&error.to_string());
    }

    #[test]
    fn coordinator_only_when_needed() {
        let address = |need, topology: &ProcessTopology| {
            let mut plan = ProcessPlan::default();
            plan.coordinator.need = need;
            plan.resolve(topology, &Environment::new()).unwrap().coordinator.map(|address| address.to_string())
        };
        let single = ProcessTopology::single();
        let mut many = two_hosts();
        many.coordinator = Some("node0".parse().unwrap());
        assert_eq!(address(CoordinatorNeed::Never, &many), None);
        assert_eq!(address(CoordinatorNeed::MultiProcess, &single), None);
        assert_eq!(address(CoordinatorNeed::MultiProcess, &many).unwrap(), "node0:8547");
        assert_eq!(address(CoordinatorNeed::Always, &single).unwrap(), "localhost:8547");
    }
}
