//! Tests the environment variables and the coordinator that a plugin needs.

use device_plugin::process::{Before, Coordinator, CoordinatorNeed, EnvRule, Position, SetMode};
use device_plugin::{Environment, ProcessPlan, ProcessTopology};
use pjrt::ClientOptions;
use plugin_registry::{Error, PluginLoadOptions};

use crate::fakes::{fake, registry};

/// Returns a plan with one rule.
fn setting(rule: EnvRule) -> ProcessPlan {
    ProcessPlan { environment: vec![rule], ..ProcessPlan::default() }
}

fake! {
    Ranked "ranked" {
        fn process() -> ProcessPlan {
            setting(EnvRule { reason: "its device".to_owned(), ..EnvRule::new("RANKED_DEVICE", "{local_rank}") })
        }
    }
    Tuned "tuned" {
        fn process() -> ProcessPlan {
            setting(EnvRule::new("TUNED_THREADS", "4"))
        }
    }
    Strict "strict" {
        fn process() -> ProcessPlan {
            setting(EnvRule { set: SetMode::Override, ..EnvRule::new("STRICT_MODE", "on") })
        }
    }
    Late "late" {
        fn process() -> ProcessPlan {
            let (set, before) = (SetMode::Override, Before::Client);
            setting(EnvRule { set, before, ..EnvRule::new("LATE_MODE", "on") })
        }
    }
    Linked "linked" {
        fn process() -> ProcessPlan {
            let coordinator = Coordinator { need: CoordinatorNeed::Always, ..Coordinator::default() };
            ProcessPlan { coordinator, ..ProcessPlan::default() }
        }
    }
}

fn second_of_two() -> ProcessTopology {
    let place = Position::new(1, 2).unwrap();
    ProcessTopology::new(place, place, Position::SOLE).unwrap()
}

#[test]
fn several_processes_need_their_variables() {
    let registry = registry("ranked");
    let entry = registry.register::<Ranked>().unwrap();
    let place = || PluginLoadOptions::new().topology(second_of_two());
    let error = entry.load_with(&place().environment(Environment::new())).unwrap_err();
    let Error::Setup { missing, .. } = &error else { panic!("{error}") };
    assert_eq!((missing[0].variable.as_str(), missing[0].value.as_str()), ("RANKED_DEVICE", "1"));
    assert_eq!(missing[0].reason, "its device");

    let ready = Environment::from([("RANKED_DEVICE", "7")]);
    let loaded = entry.load_with(&place().environment(ready)).unwrap();
    assert!(loaded.missing_variables().is_empty());
    assert_eq!(loaded.topology().local_rank(), 1);
    // Loading without a topology accepts the existing setup. Loading with another topology fails.
    assert!(entry.load().is_ok());
    let error = entry.load_with(&PluginLoadOptions::new().topology(ProcessTopology::single())).unwrap_err();
    assert!(matches!(error, Error::DifferentSetup { .. }), "{error}");
}

#[test]
fn good_settings_are_no_condition() {
    let registry = registry("tuned");
    let loaded = registry.register::<Tuned>().unwrap();
    let loaded = loaded.load_with(&PluginLoadOptions::new().environment(Environment::new())).unwrap();
    assert_eq!(loaded.missing_variables()[0].to_string(), "TUNED_THREADS=4");
}

#[test]
fn required_value_is_condition() {
    let registry = registry("strict");
    let entry = registry.register::<Strict>().unwrap();
    let with = |value: &str| PluginLoadOptions::new().environment(Environment::from([("STRICT_MODE", value)]));
    let error = entry.load_with(&with("off")).unwrap_err();
    let Error::Setup { missing, .. } = &error else { panic!("{error}") };
    assert_eq!((&*missing[0].value, missing[0].found.as_deref()), ("on", Some("off")));
    assert!(entry.load_with(&with("on")).is_ok());
}

#[test]
fn some_variables_wait_for_the_client() {
    let registry = registry("late");
    let loaded = registry.register::<Late>().unwrap().load().unwrap();
    let error = loaded.client(&ClientOptions::new()).unwrap_err();
    assert!(matches!(&error, Error::Setup { missing, .. } if missing[0].variable == "LATE_MODE"), "{error}");
}

#[test]
fn coordinator_needs_store() {
    let registry = registry("linked");
    let loaded = registry.register::<Linked>().unwrap().load().unwrap();
    let error = loaded.client(&ClientOptions::new()).unwrap_err();
    assert!(matches!(error, Error::NoStore { .. }), "{error}");
}
