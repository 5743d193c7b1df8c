//! Long runs with a new seed each time: every algorithm against the reference model, every fuzz
//! target guided by coverage, a property-based client of the HTTP interface. And attacks on a
//! server.

mod abuse;
mod api;
mod fuzz;
mod model;

use std::time::Duration;

use crate::run::TaskResult;

/// How long each fuzz target, the client of the HTTP interface and the attacks run by default.
const MINUTES: u64 = 10;

/// `soak [STEPS]`, `soak fuzz [MINUTES [TARGET]]`, `soak api [MINUTES]`, `soak abuse [MINUTES
/// [STORE [ATTACK]]]`.
pub(crate) fn soak(arguments: &[&str]) -> TaskResult {
    match arguments {
        [] => {
            model::soak(model::DEFAULT_STEPS)?;
            fuzz::soak(minutes(None)?, None)?;
            api::soak(minutes(None)?)?;
            abuse::soak(minutes(None)?, "memory", None)
        }
        ["fuzz"] => fuzz::soak(minutes(None)?, None),
        ["fuzz", time] => fuzz::soak(minutes(Some(time))?, None),
        ["fuzz", time, target] => fuzz::soak(minutes(Some(time))?, Some(target)),
        ["api"] => api::soak(minutes(None)?),
        ["api", time] => api::soak(minutes(Some(time))?),
        ["abuse"] => abuse::soak(minutes(None)?, "memory", None),
        ["abuse", time] => abuse::soak(minutes(Some(time))?, "memory", None),
        ["abuse", time, store] => abuse::soak(minutes(Some(time))?, store, None),
        ["abuse", time, store, attack] => abuse::soak(minutes(Some(time))?, store, Some(attack)),
        [steps] => model::soak(number(steps, "steps")?),
        _ => Err("accepted: soak [STEPS], soak fuzz [MINUTES [TARGET]], soak api [MINUTES], \
                  soak abuse [MINUTES [STORE [ATTACK]]]"
            .into()),
    }
}

fn minutes(text: Option<&str>) -> Result<Duration, String> {
    let minutes = text.map_or(Ok(MINUTES), |text| number(text, "minutes"))?;
    if minutes == 0 {
        return Err("accepted: 1 minute and more".to_owned());
    }
    Ok(Duration::from_secs(minutes.saturating_mul(60)))
}

fn number(text: &str, of: &str) -> Result<u64, String> {
    let number = text.replace('_', "").parse();
    number.map_err(|error| format!("{text} is not a number of {of}: {error}"))
}
