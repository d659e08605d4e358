//! The process that loads the plugin and runs cases.

use std::io::Read;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::case::Exit;
use crate::context::{Context, Opened};
use crate::outcome::Outcome;
use crate::process::guard::die_with;
use crate::process::lines::{mark_diagnostics, stage, tell};
use crate::stop::Stop;
use crate::suite::Suite;

/// Function that opens a plugin. Its argument is the `target` of the [`Launcher`](crate::runner::Launcher).
pub type Opener<'a> = dyn Fn(&Value) -> Result<Opened, String> + 'a;

/// The task of a worker. The guard passes it to the worker's standard input as one line of JSON.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Request {
    /// Description of the plugin, which is the argument of the [`Opener`].
    pub(crate) target: Value,
    /// Ids of the cases, in the order in which they run.
    pub(crate) cases: Vec<String>,
    /// Seed for the pseudo-random data of cases.
    pub(crate) seed: u64,
    /// Minimum time for each case that calls functions from several threads in random order.
    pub(crate) stress: Duration,
    /// The reason why earlier processes failed to create a client. If it is present, the worker skips the cases that
    /// need a client.
    pub(crate) no_client: Option<String>,
}

/// Runs a worker: reads a request from the standard input, opens the plugin, and runs the cases. `parent` is the
/// process id of the guard. On Linux, this process ends when the guard ends.
///
/// # Errors
///
/// Returns an error if the request cannot be read or is not valid, or if [`die_with`] fails.
pub fn run(parent: u32, open: &Opener<'_>) -> Result<(), String> {
    die_with(parent)?;
    let mut request = String::new();
    std::io::stdin().read_to_string(&mut request).map_err(|error| error.to_string())?;
    let request: Request =
        serde_json::from_str(&request).map_err(|error| format!("the request for the worker is not valid: {error}"))?;
    let suite = Suite::new();
    stage("load", true);
    let opened = open(&request.target);
    stage("load", false);
    match opened {
        Err(reason) => tell(&json!({ "not_loaded": reason })),
        Ok(opened) => {
            tell(&json!({ "plugin": crate::machine::describe_plugin(&opened.plugin) }));
            run_cases(&suite, &request, opened);
        }
    }
    tell(&json!({ "finished": true }));
    Ok(())
}

fn run_cases(suite: &Suite, request: &Request, opened: Opened) {
    let context = Context::new(opened, request.seed, request.stress, request.no_client.clone());
    for id in &request.cases {
        let Some(case) = suite.find(id) else {
            tell(&json!({ "begin": id }));
            tell(
                &json!({ "end": id, "outcome": Outcome::Skipped, "reason": "this suite has no such case", "ms": 0.0 }),
            );
            continue;
        };
        mark_diagnostics(id);
        tell(&json!({ "begin": id }));
        let start = Instant::now();
        let result = check(case, &context);
        let ms = start.elapsed().as_secs_f64() * 1e3;
        if let Some(thread) = case.exit
            && result.is_ok()
        {
            tell(&json!({ "exits": id, "ms": ms }));
            exit(thread);
        }
        let (outcome, reason) = match result {
            Ok(()) => (Outcome::Pass, String::new()),
            Err(Stop::Fail(reason)) => (Outcome::Fail, reason),
            Err(Stop::Unsupported(reason)) => (Outcome::Unsupported, reason),
            Err(Stop::Skip(reason)) => (Outcome::Skipped, reason),
        };
        tell(&json!({ "end": id, "outcome": outcome, "reason": reason, "ms": ms }));
    }
    stage("teardown", true);
    drop(context);
    stage("teardown", false);
}

/// Calls `exit` on the main thread or on a new thread. This ends the process without dropping the objects of the
/// [`Context`].
fn exit(thread: Exit) -> ! {
    if thread == Exit::Worker
        && let Ok(exiting) = std::thread::Builder::new().spawn(|| std::process::exit(0))
    {
        // `join` does not return, because the thread ends the process.
        let _ended = exiting.join();
    }
    std::process::exit(0)
}

fn check(case: &crate::case::Case, context: &Context) -> Result<(), Stop> {
    case.needs.check(context.plugin())?;
    if case.needs.devices > 0 {
        context.devices(case.needs.devices)?;
        if let Ok(client) = context.client()
            && let Ok(version) = client.platform_version()
        {
            crate::machine::describe_client_once(client, &version);
        }
    }
    (case.check)(context)
}
