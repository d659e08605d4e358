//! `pjrt conform`: runs the conformance suite against a plugin.

mod args;
mod list;
mod run;
mod worker;

use pjrt_conformance::{Report as Outcomes, Suite};

use crate::Report;

pub(crate) use args::Args;
use args::write;
pub(crate) use worker::{WorkerArgs, guard, worker};

pub(crate) fn run(args: &Args) -> Result<Report, String> {
    let suite = Suite::new();
    if let Some([old, new]) = args.diff.as_deref() {
        let diff = pjrt_conformance::diff::Diff::of(&Outcomes::read(old)?, &Outcomes::read(new)?);
        let code = u8::from(diff.is_worse());
        return Ok(Report::new(if args.json { diff.to_json() } else { diff.to_text() }, code));
    }
    if let Some(files) = &args.matrix {
        let reports: Vec<Outcomes> = files.iter().map(|file| Outcomes::read(file)).collect::<Result<_, _>>()?;
        let matrix = pjrt_conformance::matrix::Matrix::of(&reports);
        if let Some(path) = &args.html {
            write(path, &matrix.to_html()?)?;
        }
        return Ok(Report::new(matrix.to_text(), 0));
    }
    let ids = args.selected(&suite);
    if ids.is_empty() {
        return Err("no case matches the filter and the profile; `pjrt conform --list` lists the cases".to_owned());
    }
    if args.list {
        return Ok(Report::new(if args.json { list::as_json(&suite, &ids) } else { list::as_text(&suite, &ids) }, 0));
    }
    run::run(args, &suite, &ids)
}
