//! Runs that take long, over seeds that are new each time: every algorithm beside the reference model,
//! every fuzz target guided by coverage, and a property-based client of the HTTP interface.

mod api;
mod fuzz;
mod model;

use std::time::Duration;

use crate::run::Done;

/// How long each fuzz target and the client of the HTTP interface run unless told otherwise.
const MINUTES: u64 = 10;

/// `soak [STEPS]`, `soak fuzz [MINUTES [TARGET]]`, `soak api [MINUTES]`.
pub(crate) fn soak(arguments: &[&str]) -> Done {
    match arguments {
        [] => {
            model::soak(model::DEFAULT_STEPS)?;
            fuzz::soak(minutes(None)?, None)?;
            api::soak(minutes(None)?)
        }
        ["fuzz"] => fuzz::soak(minutes(None)?, None),
        ["fuzz", time] => fuzz::soak(minutes(Some(time))?, None),
        ["fuzz", time, target] => fuzz::soak(minutes(Some(time))?, Some(target)),
        ["api"] => api::soak(minutes(None)?),
        ["api", time] => api::soak(minutes(Some(time))?),
        [steps] => model::soak(number(steps, "steps")?),
        _ => Err("accepted: soak [STEPS], soak fuzz [MINUTES [TARGET]], soak api [MINUTES]".into()),
    }
}

fn minutes(text: Option<&str>) -> Result<Duration, String> {
    let minutes = text.map_or(Ok(MINUTES), |text| number(text, "minutes"))?;
    if minutes == 0 {
        return Err("0 minutes are no run; accepted: 1 and more".to_owned());
    }
    Ok(Duration::from_secs(minutes.saturating_mul(60)))
}

fn number(text: &str, of: &str) -> Result<u64, String> {
    let number = text.replace('_', "").parse();
    number.map_err(|error| format!("{text} is no number of {of}: {error}"))
}
