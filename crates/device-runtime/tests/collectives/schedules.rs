//! The number of rounds, the choice of an algorithm, and invalid arguments.

use device_plugin::{ErrorCode, Result};
use device_runtime::collectives::{ArrayKind, Schedule, Step};

fn rounds(schedule: Result<Schedule>) -> usize {
    schedule.unwrap().rounds().len()
}

#[test]
fn numbers_of_rounds() {
    for count in 2..=9 {
        let levels = usize::try_from(usize::BITS - (count - 1usize).leading_zeros()).unwrap();
        assert_eq!(rounds(Schedule::all_gather(&vec![1; count])), count - 1);
        assert_eq!(rounds(Schedule::reduce_scatter(&vec![1; count], 4)), count - 1);
        assert_eq!(rounds(Schedule::ring_all_reduce(count, 100, 4)), 2 * (count - 1));
        assert_eq!(rounds(Schedule::tree_all_reduce(count, 100, 4)), 2 * levels);
        assert_eq!(rounds(Schedule::broadcast(count, 0, 100)), levels);
        assert_eq!(rounds(Schedule::all_to_all(&vec![vec![1; count]; count])), count);
    }
}

/// A schedule is sound if no member reads or writes memory that another member writes in the same round.
#[test]
fn rounds_are_sound() {
    let conflict = |a: &Step, b: &Step| {
        let overlap = |x: (usize, ArrayKind, usize), y: (usize, ArrayKind, usize)| {
            (x.0, x.1) == (y.0, y.1) && x.2 < y.2 + b.bytes && y.2 < x.2 + a.bytes
        };
        let of = |at: device_runtime::collectives::Location| (at.rank, at.array, at.offset);
        a.to.rank != b.to.rank && (overlap(of(a.to), of(b.from)) || overlap(of(a.to), of(b.to)))
    };
    let mut steps = 0;
    for count in 1..=9 {
        for schedule in [
            Schedule::all_gather(&vec![3; count]),
            Schedule::reduce_scatter(&vec![3; count], 2),
            Schedule::ring_all_reduce(count, 20, 2),
            Schedule::tree_all_reduce(count, 20, 2),
            Schedule::broadcast(count, count / 2, 5),
            Schedule::all_to_all(&vec![vec![2; count]; count]),
        ] {
            for round in schedule.unwrap().rounds() {
                let all: Vec<_> = round.copies.iter().chain(&round.reductions).collect();
                steps += all.len();
                assert!(!all.iter().any(|a| all.iter().any(|b| conflict(a, b))));
            }
        }
    }
    assert!(steps > 0);
}

#[test]
fn choice_of_all_reduce() {
    let choice = |members, elements| Schedule::all_reduce(members, elements, 4).unwrap();
    assert_eq!(choice(8, 1), Schedule::tree_all_reduce(8, 1, 4).unwrap());
    assert_eq!(choice(8, 1 << 20), Schedule::ring_all_reduce(8, 1 << 20, 4).unwrap());
    // A tree of two or three members has as many rounds as a ring.
    for members in [1, 2, 3] {
        assert_eq!(choice(members, 1), Schedule::ring_all_reduce(members, 1, 4).unwrap());
    }
}

#[test]
fn scratch() {
    let scratch = |schedule: Result<Schedule>| schedule.unwrap().scratch_bytes();
    assert_eq!(scratch(Schedule::ring_all_reduce(2, 100, 4)), 0);
    assert_eq!(scratch(Schedule::ring_all_reduce(10, 101, 4)), 2 * 11 * 4);
    assert_eq!(scratch(Schedule::tree_all_reduce(3, 100, 4)), 400);
    assert_eq!(scratch(Schedule::all_gather(&[1, 2, 3])), 0);
}

#[test]
fn invalid_arguments() {
    let message = |schedule: Result<Schedule>| {
        let error = schedule.unwrap_err();
        assert_eq!(error.code(), ErrorCode::INVALID_ARGUMENT);
        error.message().to_owned()
    };
    let no_members = "a collective of 0 members; a group has 1 to 1024";
    assert_eq!(message(Schedule::all_gather(&[])), no_members);
    assert_eq!(message(Schedule::reduce_scatter(&[], 4)), no_members);
    assert_eq!(message(Schedule::all_reduce(0, 1, 1)), no_members);
    assert_eq!(message(Schedule::ring_all_reduce(0, 1, 1)), no_members);
    assert_eq!(message(Schedule::tree_all_reduce(0, 1, 1)), no_members);
    assert_eq!(message(Schedule::all_to_all(&[])), no_members);
    assert_eq!(message(Schedule::permute(0, &[], 1)), no_members);
    let many = "a collective of 1025 members; a group has 1 to 1024";
    assert_eq!(message(Schedule::all_reduce(1025, 1, 1)), many);
    assert_eq!(message(Schedule::all_gather(&[1; 1025])), many);
    assert_eq!(message(Schedule::broadcast(0, 0, 1)), "the root 0 of a broadcast to 0 members");
    assert_eq!(message(Schedule::broadcast(2, 2, 1)), "the root 2 of a broadcast to 2 members");
    let large = "the arrays of a collective are larger than the address space";
    assert_eq!(message(Schedule::all_gather(&[usize::MAX, 1])), large);
    assert_eq!(message(Schedule::all_reduce(2, usize::MAX, 2)), large);
    assert_eq!(message(Schedule::reduce_scatter(&[usize::MAX / 2, 1], 4)), large);
    assert_eq!(message(Schedule::all_to_all(&[vec![1, 1], vec![usize::MAX, 1]])), large);
    assert_eq!(message(Schedule::all_to_all(&[vec![1, 2], vec![3]])), "1 sizes of parts for 2 members");
    let pair = "a rank must be less than 3, and at most once a source and once a target";
    for pairs in [[(0, 1), (0, 2)], [(0, 1), (2, 1)], [(0, 1), (3, 0)], [(0, 1), (1, 3)]] {
        assert!(message(Schedule::permute(3, &pairs, 1)).ends_with(pair));
    }
}
