//! How many findings of the language rules each file may still have. The number must not grow. Lower numbers are
//! written back, so that the list shrinks until it can be deleted.

use std::collections::BTreeMap;
use std::fs;

use crate::{Error, sh};

/// One line for each file: its path and its number of findings.
const LIST: &str = "xtask/language-allowance.txt";

pub(super) type Counts = BTreeMap<String, usize>;

pub(super) fn read() -> Result<Counts, Error> {
    match fs::read_to_string(sh::root().join(LIST)) {
        Ok(text) => parse(&text),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Counts::new()),
        Err(error) => Err(error.into()),
    }
}

/// A file that is listed twice, after a merge, counts with the smaller number.
fn parse(text: &str) -> Result<Counts, Error> {
    let mut counts = Counts::new();
    for line in text.lines() {
        let (path, count) =
            line.split_once(' ').ok_or_else(|| format!("{LIST}: expected a path and a number: {line:?}"))?;
        let count = count.parse().map_err(|_| format!("{LIST}: {count:?} is not a number"))?;
        counts.entry(path.to_owned()).and_modify(|known: &mut usize| *known = (*known).min(count)).or_insert(count);
    }
    Ok(counts)
}

/// Writes the list.
///
/// # Errors
///
/// If the number of findings of a crate has grown. Within a crate they may move from file to file, because files are
/// renamed and split.
pub(super) fn write(allowed: &Counts, found: &Counts) -> Result<(), Error> {
    let worse = worse(allowed, found);
    if !worse.is_empty() {
        return Err(format!("these folders have more findings than {LIST} allows: {}", worse.join(", ")).into());
    }
    let path = sh::root().join(LIST);
    if found.is_empty() {
        if path.exists() {
            fs::remove_file(path)?;
        }
        return Ok(());
    }
    let lines: Vec<String> = found.iter().map(|(path, count)| format!("{path} {count}\n")).collect();
    Ok(fs::write(path, lines.concat())?)
}

/// Crates and top folders with more findings than allowed. Without a list, every folder may have any number of
/// findings.
fn worse(allowed: &Counts, found: &Counts) -> Vec<String> {
    if allowed.is_empty() {
        return Vec::new();
    }
    let allowed = by_folder(allowed);
    let more = |(folder, count): &(String, usize)| *count > allowed.get(folder).copied().unwrap_or(0);
    by_folder(found).into_iter().filter(more).map(|(folder, count)| format!("{folder} ({count})")).collect()
}

fn by_folder(counts: &Counts) -> Counts {
    let mut sums = Counts::new();
    for (path, count) in counts {
        let folder: Vec<&str> = path.split('/').take(2).collect();
        *sums.entry(folder.join("/")).or_default() += count;
    }
    sums
}

/// Differences between the list and the findings: one message for each file.
pub(super) fn compare(allowed: &Counts, found: &Counts) -> Vec<String> {
    let mut faults = Vec::new();
    for path in allowed.keys().chain(found.keys().filter(|path| !allowed.contains_key(*path))) {
        let (may, has) = (allowed.get(path).copied().unwrap_or(0), found.get(path).copied().unwrap_or(0));
        if has > may {
            faults.push(format!(
                "{path}: {has} findings of the language rules, {may} allowed: rewrite the sentences listed above"
            ));
        } else if has < may {
            faults.push(format!("{path}: {has} findings of the language rules, fewer than the {may} allowed: run `cargo xtask tidy --update`"));
        }
    }
    faults
}

#[cfg(test)]
mod tests {
    use super::{compare, parse, worse};

    #[test]
    fn changes_in_either_direction_are_reported() {
        let (allowed, found) =
            (parse("a/b/c.rs 2\na/b/d.rs 1\ne.md 3\n").unwrap(), parse("a/b/c.rs 3\ne.md 3\nf.md 1\n").unwrap());
        let faults = compare(&allowed, &found);
        assert_eq!(faults.len(), 3, "{faults:?}");
        assert!(faults[0].starts_with("a/b/c.rs: 3 findings") && faults[0].contains("2 allowed"));
        assert!(faults[1].starts_with("a/b/d.rs: 0 findings") && faults[1].contains("--update"));
        assert!(faults[2].starts_with("f.md: 1 findings"));
    }

    #[test]
    fn findings_move_within_a_crate_only() {
        let allowed = parse("crates/a/src/x.rs 2\ncrates/b/src/y.rs 1\n").unwrap();
        let list = |text| parse(text).unwrap();
        assert!(worse(&allowed, &list("crates/a/src/z.rs 2\n")).is_empty());
        assert_eq!(worse(&allowed, &list("crates/a/src/z.rs 1\ncrates/b/src/y.rs 2\n")), ["crates/b (2)"]);
        assert_eq!(worse(&allowed, &list("book/src/page.md 1\n")), ["book/src (1)"]);
    }

    #[test]
    fn merged_lists_keep_the_smaller_number() {
        assert_eq!(parse("a 3\na 2\na 4\n").unwrap()["a"], 2);
        assert!(parse("nonsense").is_err() && parse("a b").is_err());
    }
}
