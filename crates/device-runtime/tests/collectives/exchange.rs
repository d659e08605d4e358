//! The rendezvous of members without a schedule.

use device_plugin::{ErrorCode, Result};
use device_runtime::collectives::Member;

use crate::{run, succeed};

/// Returns the messages of the errors with the code `ABORTED` of all members.
fn aborted<T: std::fmt::Debug>(results: Vec<Option<Result<T>>>) -> Vec<String> {
    let message = |result: Option<Result<T>>| {
        let error = result.unwrap().unwrap_err();
        assert_eq!(error.code(), ErrorCode::ABORTED, "{error}");
        error.message().to_owned()
    };
    results.into_iter().map(message).collect()
}

#[test]
fn values_are_in_order_of_group() {
    let results = succeed(4, |member| {
        let group: &[usize] = if member.id() % 2 == 0 { &[2, 0] } else { &[1, 3] };
        let mut all = Vec::new();
        for round in 0..100 {
            all.push(member.exchange(7, group, (member.id(), round))?);
            all.push(member.exchange(7, &[3, 1, 0, 2], (member.id(), round))?);
        }
        member.finish();
        Ok(all)
    });
    for (id, all) in results.into_iter().enumerate() {
        let group = if id % 2 == 0 { [2, 0] } else { [1, 3] };
        for (round, pair) in all.chunks(2).enumerate() {
            assert_eq!(pair[0], group.map(|id| (id, round)));
            assert_eq!(pair[1], [3, 1, 0, 2].map(|id| (id, round)));
        }
    }
}

#[test]
fn one_member() {
    let results = succeed(1, |member| member.exchange(0, &[0], 5));
    assert_eq!(results, [[5]]);
}

#[test]
fn different_collectives() {
    let results = run(3, |member| member.exchange(member.id() as u64, &[0, 1, 2], ()));
    let waits = |message: &String| {
        message.starts_with("the members wait for each other: ")
            && (0..3).all(|id| message.contains(&format!("member {id} waits for member ")))
            && (0..3).all(|id| message.contains(&format!("in collective {id}")))
    };
    assert!(aborted(results).iter().all(waits));
}

/// Member 0 waits for member 1, member 1 for member 2, and member 2 for member 0.
#[test]
fn cycle_of_groups() {
    let results = run(3, |member| member.exchange(0, &[member.id(), (member.id() + 1) % 3], ()));
    let expected = "the members wait for each other: member 0 waits for member 1 in collective 0, member 1 waits for \
                    member 2 in collective 0, member 2 waits for member 0 in collective 0";
    assert_eq!(aborted(results), [expected; 3]);
}

#[test]
fn ended_member() {
    for others in [1, 4] {
        let mut results = run(others + 1, move |member| {
            if member.id() == 0 {
                member.finish();
                return Ok(Vec::new());
            }
            member.exchange(9, &(0..=others).collect::<Vec<_>>(), ())
        });
        results.remove(0).unwrap().unwrap();
        for message in aborted(results) {
            let start = "member 0 ended without its part of collective 9, for which member ";
            assert!(message.starts_with(start), "{message}");
        }
    }
}

/// A member that has ended after its part does not prevent the others from reading it.
#[test]
fn member_ends_after_its_part() {
    for _ in 0..100 {
        let results = succeed(3, |member| {
            let values = member.exchange(0, &[0, 1, 2], member.id());
            member.finish();
            values
        });
        assert_eq!(results, vec![vec![0, 1, 2]; 3]);
    }
}

#[test]
fn failed_and_dropped_members() {
    for (fails, expected) in
        [(true, "member 1 failed: no power"), (false, "member 1 failed: it was dropped before its program ended")]
    {
        let mut results = run(3, move |member| match member.id() {
            1 if fails => {
                member.fail("no power");
                Ok(Vec::new())
            }
            1 => Ok(Vec::new()),
            _ => member.exchange(0, &[0, 1, 2], ()),
        });
        results.remove(1).unwrap().unwrap();
        assert_eq!(aborted(results), [expected; 2]);
    }
}

#[test]
fn stopped_run() {
    let results = run(3, |member| {
        if member.id() == 2 {
            member.stop("the user pressed Ctrl-C");
            // The first reason counts.
            member.stop("again");
        }
        member.exchange(0, &[0, 1, 2], ())
    });
    assert_eq!(aborted(results), ["the user pressed Ctrl-C"; 3]);
}

/// A run that fails while members are busy fails their next exchange.
#[test]
fn failure_is_kept() {
    let mut members = Member::create(2);
    drop(members.pop());
    let member = members.pop().unwrap();
    let message = "member 1 failed: it was dropped before its program ended";
    assert_eq!(member.exchange(0, &[0], ()).unwrap_err().message(), message);
    assert_eq!(member.exchange(1, &[0], ()).unwrap_err().message(), message);
}

#[test]
fn invalid_groups() {
    for (group, reason) in [
        (&[1, 2][..], "member 0 is not in the group [1, 2]"),
        (&[], "member 0 is not in the group []"),
        (&[0, 1, 1], "the group [0, 1, 1] must contain members of 2, and each at most once"),
        (&[0, 2], "the group [0, 2] must contain members of 2, and each at most once"),
    ] {
        let mut members = Member::create(2);
        let (other, member) = (members.pop().unwrap(), members.pop().unwrap());
        let error = member.exchange(3, group, ()).unwrap_err();
        assert_eq!(error.code(), ErrorCode::INVALID_ARGUMENT);
        assert_eq!(error.message(), format!("collective 3: {reason}"));
        // The error ends the run.
        let error = other.exchange(3, &[0, 1], ()).unwrap_err();
        assert_eq!(error.message(), format!("member 0 failed: collective 3: {reason}"));
    }
    let member = Member::create(1).pop().unwrap();
    member.finish();
    let message = "collective 0: member 0 has ended";
    assert_eq!(member.exchange(0, &[0], ()).unwrap_err().message(), message);
}

#[test]
fn members_must_agree() {
    let results = run(3, |member| {
        let group: &[usize] = if member.id() == 1 { &[0, 1] } else { &[0, 1, 2] };
        member.exchange(0, group, ())
    });
    let errors: Vec<_> = results.into_iter().map(|result| result.unwrap().unwrap_err()).collect();
    assert!(errors.iter().any(|error| error.code() == ErrorCode::INVALID_ARGUMENT));
    assert!(errors.iter().all(|error| error.message().contains("passes the group [0, 1")), "{errors:?}");
    let results = run(2, |member| match member.id() {
        0 => member.exchange(0, &[0, 1], 5u32).map(|_| ()),
        _ => member.exchange(0, &[0, 1], "five").map(|_| ()),
    });
    for result in results {
        let error = result.unwrap().unwrap_err();
        assert!(error.message().ends_with("members exchange different types in collective 0"), "{error}");
    }
}
