//! Slurm's node lists, such as `host[01-03,7],login1`.

/// Maximum number of hosts. It is larger than any cluster, so a longer list is a mistake or an attack.
const LIMIT: usize = 1 << 20;

/// Returns all names of a list, in order. If a name has several brackets, the result contains all combinations. The
/// last bracket varies fastest.
pub(super) fn expand(list: &str) -> Result<Vec<String>, String> {
    let mut names = Vec::new();
    for item in split(list)? {
        let mut expanded = vec![String::new()];
        let mut rest = item;
        while let Some((before, bracket)) = rest.split_once('[') {
            // `split` has checked that the bracket is closed.
            let (inside, after) = bracket.split_once(']').unwrap_or((bracket, ""));
            let numbers = numbers(inside)?;
            if expanded.len().saturating_mul(numbers.len()) > LIMIT {
                return Err(format!("the list names more than {LIMIT} hosts"));
            }
            expanded = expanded
                .iter()
                .flat_map(|prefix| numbers.iter().map(move |number| format!("{prefix}{before}{number}")))
                .collect();
            rest = after;
        }
        names.extend(expanded.into_iter().map(|prefix| prefix + rest));
        if names.len() > LIMIT {
            return Err(format!("the list names more than {LIMIT} hosts"));
        }
    }
    Ok(names)
}

/// Splits a list at the commas that are outside brackets.
fn split(list: &str) -> Result<Vec<&str>, String> {
    let (mut items, mut start, mut inside) = (Vec::new(), 0, false);
    for (at, c) in list.char_indices() {
        match (c, inside) {
            ('[', false) => inside = true,
            (']', true) => inside = false,
            ('[' | ']', _) => return Err(format!("unexpected bracket at {:?}", &list[at..])),
            (',', false) => {
                items.push(list[start..at].trim());
                start = at + 1;
            }
            _ => {}
        }
    }
    items.push(list[start..].trim());
    if inside {
        return Err("the closing bracket is missing".to_owned());
    }
    if items.iter().any(|item| item.is_empty()) {
        return Err("one of the names is empty".to_owned());
    }
    Ok(items)
}

/// Returns the numbers in `inside`, which is the text between two brackets. For `01-02,7`, returns `01`, `02` and `7`.
/// The numbers of a range are padded with zeros to the width of the first number.
fn numbers(inside: &str) -> Result<Vec<String>, String> {
    let mut numbers = Vec::new();
    for item in inside.split(',').map(str::trim) {
        let (first, last) = item.split_once('-').unwrap_or((item, item));
        let width = first.len();
        let parse = |text: &str| {
            let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
            let number = text.parse::<u64>().ok().filter(|_| digits);
            number.ok_or_else(|| format!("{item:?} is not a valid range; write ranges such as [01-03,7]"))
        };
        let (first, last) = (parse(first)?, parse(last)?);
        if first > last {
            return Err(format!("the range {item:?} counts down; write the lower number first"));
        }
        if last - first >= u64::try_from(LIMIT).unwrap_or(u64::MAX) {
            return Err(format!("{item:?} names more than {LIMIT} hosts"));
        }
        numbers.extend((first..=last).map(|number| format!("{number:0width$}")));
    }
    Ok(numbers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expands_ranges() {
        for (list, expected) in [
            ("node001", "node001"),
            ("node001,host2", "node001 host2"),
            ("host[01-03,7]", "host01 host02 host03 host7"),
            ("node[001-002],login1", "node001 node002 login1"),
            ("node[9-11]", "node9 node10 node11"),
            ("node[08-10]-ib", "node08-ib node09-ib node10-ib"),
            ("rack[1-2]node[1-2]", "rack1node1 rack1node2 rack2node1 rack2node2"),
        ] {
            assert_eq!(expand(list).unwrap().join(" "), expected, "{list}");
        }
        for list in ["", "a,,b", "a[1", "a]1[", "a[[1]]", "a[2-1]", "a[x]", "a[]", "a[1-]", "a[1-99999999]", "a[+1]"] {
            assert!(expand(list).is_err(), "{list:?}");
        }
        assert!(expand("a[0-1023]b[0-1023]c[0-1023]").is_err());
    }
}
