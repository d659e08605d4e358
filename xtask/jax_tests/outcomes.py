"""The outcomes of a run: as JSON, compared with an earlier run, and compared with a reference."""

import json
import pathlib

FORMAT = 1
#: Outcomes that count as failures.
BAD = ("failed", "crashed", "timeout")
#: All outcomes of a case that ran, from the best to the worst.
RANKING = ("passed", "skipped", *BAD)
#: The outcome of a case whose file reached its time limit first. A resumed run runs it.
NOT_RUN = "not_run"


def read(path):
    """Reads a file of outcomes. Raises `ValueError` with the remedy if it is not one."""
    try:
        outcomes = json.loads(pathlib.Path(path).read_text(encoding="utf-8"))
    except (OSError, json.JSONDecodeError) as error:
        raise ValueError(f"{path}: {error}") from None
    if not isinstance(outcomes, dict) or outcomes.get("format") != FORMAT:
        raise ValueError(f"{path}: not outcomes in format {FORMAT}; write the file anew with --output")
    return outcomes


def write(path, outcomes):
    path = pathlib.Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(outcomes, indent=1, sort_keys=True) + "\n", encoding="utf-8")


def cases_of(files):
    """Every case of `files`, as `(file, case)`, with its record."""
    return {(file, case): record for file, cases in files.items() for case, record in cases.items()}


def not_run(cases):
    """The names of the cases that are left for a resumed run."""
    return [case for case, record in cases.items() if record["outcome"] == NOT_RUN]


def counts(cases):
    """The number of cases with each outcome."""
    found = {}
    for record in cases.values():
        found[record["outcome"]] = found.get(record["outcome"], 0) + 1
    return found


def compare(before, now):
    """Regressions, and cases that pass now and failed before.

    If a case passed before, any other outcome now is a regression. This includes a case that is now missing from its
    file. If a case was skipped before or has no earlier outcome, it is a regression if it fails now. Files and cases
    that were not run now are ignored.
    """
    regressions, progress = {}, {}
    earlier = {key: record for key, record in cases_of(before).items() if key[0] in now}
    current = cases_of(now)
    for key in sorted(earlier.keys() | current.keys()):
        was = earlier.get(key, {}).get("outcome")
        record = current.get(key, {"outcome": "missing", "reason": "the file no longer has this case"})
        is_now = record["outcome"]
        if is_now == NOT_RUN:
            continue
        if is_now == "passed":
            if was in BAD:
                progress[key] = {**record, "was": was}
        elif was == "passed" or (was not in BAD and is_now in BAD):
            regressions[key] = {**record, "was": was or "not run"}
    return regressions, progress


def read_expected(path):
    """Reads a list of cases that are expected to fail, with the reason of each. Raises `ValueError` if it is not one.
    """
    try:
        listed = json.loads(pathlib.Path(path).read_text(encoding="utf-8"))
        files = listed["expected_failures"]
        return {(file, case): str(reason) for file, cases in files.items() for case, reason in cases.items()}
    except (OSError, json.JSONDecodeError) as error:
        raise ValueError(f"{path}: {error}") from None
    except (AttributeError, KeyError, TypeError):
        raise ValueError(f'{path}: not of the form {{"expected_failures": {{FILE: {{CASE: REASON}}}}}}') from None


def compare_with_expected(expected, now):
    """Cases that fail unexpectedly, with their records, and cases that pass although they are expected to fail."""
    found = cases_of(now)
    unexpected = {key: record for key, record in found.items() if record["outcome"] in BAD and key not in expected}
    mended = {key: record for key, record in found.items() if record["outcome"] == "passed" and key in expected}
    return unexpected, mended


def only_on_references(now, references):
    """Cases that fail now but pass on at least one of the references."""
    records = [item for reference in references for item in cases_of(reference).items()]
    passed = {key for key, record in records if record["outcome"] == "passed"}
    return {key: record for key, record in cases_of(now).items() if record["outcome"] in BAD and key in passed}


def listing(title, cases):
    lines = [f"{title}: {len(cases)}"]
    for (file, case), record in cases.items():
        was = f", was {record['was']}" if "was" in record else ""
        reason = f": {record['reason']}" if record.get("reason") else ""
        lines.append(f"  {file} {case}: {record['outcome']}{was}{reason}")
    return "\n".join(lines)


def table(files):
    """The outcomes of each file, as text."""
    names = ("passed", *BAD, "skipped", NOT_RUN)
    rows = [("file", *names)]
    rows += [(file, *(str(counts(cases).get(name, 0)) for name in names)) for file, cases in sorted(files.items())]
    total = counts(cases_of(files))
    rows.append(("total", *(str(total.get(name, 0)) for name in names)))
    widths = [max(len(row[column]) for row in rows) for column in range(len(names) + 1)]
    return "\n".join(" ".join([row[0].ljust(widths[0]), *(cell.rjust(w) for cell, w in zip(row[1:], widths[1:]))]) for row in rows)
