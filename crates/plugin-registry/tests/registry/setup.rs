//! What a plugin needs of the process before it is loaded.

use device_plugin::process::{CoordinatorNeed, EnvRule, Environment, Position, ProcessPlan, ProcessTopology};
use pjrt::ClientOptions;
use plugin_registry::{Error, LoadOptions};

use crate::fakes::{fake, registry};

fake! {
    Ranked "ranked" {
        fn process() -> ProcessPlan {
            ProcessPlan::new().with_variable(EnvRule::default_value("RANKED_DEVICE", "{local_rank}").reason("its device"))
        }
    }
    Tuned "tuned" {
        fn process() -> ProcessPlan {
            ProcessPlan::new().with_variable(EnvRule::default_value("TUNED_THREADS", "4"))
        }
    }
    Strict "strict" {
        fn process() -> ProcessPlan {
            ProcessPlan::new().with_variable(EnvRule::override_value("STRICT_MODE", "on"))
        }
    }
    Late "late" {
        fn process() -> ProcessPlan {
            ProcessPlan::new().with_variable(EnvRule::override_value("LATE_MODE", "on").before_client())
        }
    }
    Linked "linked" {
        fn process() -> ProcessPlan {
            ProcessPlan::new().with_coordinator(CoordinatorNeed::Always)
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
    let place = || LoadOptions::new().topology(second_of_two());
    let error = entry.load_with(&place().environment(Environment::new())).unwrap_err();
    let Error::Setup { outstanding, .. } = &error else { panic!("{error}") };
    assert_eq!((outstanding[0].variable.as_str(), outstanding[0].value.as_str()), ("RANKED_DEVICE", "1"));
    let text = error.to_string();
    assert!(text.contains("RANKED_DEVICE=1, its device") && text.contains("pjrt env --plugin ranked --"), "{text}");

    let ready = Environment::from([("RANKED_DEVICE", "7")]);
    let loaded = entry.load_with(&place().environment(ready)).unwrap();
    assert!(loaded.unapplied().is_empty());
    assert_eq!(loaded.topology().local_rank(), 1);
    // Whoever does not care takes it as it is; another place comes too late.
    assert!(entry.load().is_ok());
    let error = entry.load_with(&LoadOptions::new().topology(ProcessTopology::single())).unwrap_err();
    assert!(matches!(error, Error::OtherSetup { .. }), "{error}");
}

#[test]
fn good_settings_are_no_condition() {
    let registry = registry("tuned");
    let loaded = registry.register::<Tuned>().unwrap();
    let loaded = loaded.load_with(&LoadOptions::new().environment(Environment::new())).unwrap();
    assert_eq!(loaded.unapplied()[0].to_string(), "TUNED_THREADS=4");
}

#[test]
fn a_value_that_must_be_is_a_condition() {
    let registry = registry("strict");
    let entry = registry.register::<Strict>().unwrap();
    let with = |value: &str| LoadOptions::new().environment(Environment::from([("STRICT_MODE", value)]));
    let error = entry.load_with(&with("off")).unwrap_err().to_string();
    assert!(error.contains("STRICT_MODE=on (now off)"), "{error}");
    assert!(entry.load_with(&with("on")).is_ok());
}

#[test]
fn some_variables_wait_for_the_client() {
    let registry = registry("late");
    let loaded = registry.register::<Late>().unwrap().load().unwrap();
    let error = loaded.client(&ClientOptions::new()).unwrap_err();
    assert!(matches!(&error, Error::Setup { outstanding, .. } if outstanding[0].variable == "LATE_MODE"), "{error}");
}

#[test]
fn a_coordinator_needs_a_store() {
    let registry = registry("linked");
    let loaded = registry.register::<Linked>().unwrap().load().unwrap();
    let error = loaded.client(&ClientOptions::new()).unwrap_err();
    assert!(matches!(error, Error::NoStore { .. }), "{error}");
}
