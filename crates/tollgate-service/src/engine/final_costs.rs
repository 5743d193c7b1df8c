//! The final costs of a request to settle: which charge of its receipt each of them is for.

use tollgate_core::Error;

use super::{FinalCosts, Result};
use crate::receipt::ChargedLimit;

/// A charge of a receipt, with its policy.
pub(super) type Charged<'a> = (&'a str, &'a ChargedLimit);

impl FinalCosts<'_> {
    /// The final cost of each of these charges.
    ///
    /// # Errors
    /// `invalid_request` naming `cost` or `costs`, when one number is for charges of different
    /// costs, or a name is not that of one charge.
    pub(super) fn each(self, charges: &[Charged<'_>]) -> Result<Vec<u64>> {
        match self {
            Self::Every(units) => {
                let first = charges.first().map(|(_, limit)| limit.units);
                let is_same = charges.iter().all(|(_, limit)| Some(limit.units) == first);
                // Nothing of any of them is the same for all.
                if units > 0 && !is_same {
                    let names = names(charges);
                    let accepted = format!(
                        "is one number for charges of different costs; accepted: 0, or costs by \
                         limit: {names}"
                    );
                    return Err(Error::invalid("cost", accepted).into());
                }
                Ok(vec![units; charges.len()])
            }
            Self::Named(named) => {
                let mut each: Vec<Option<u64>> = vec![None; charges.len()];
                for (name, units) in named {
                    let cost = each.get_mut(place_of(name, charges)?);
                    if cost.and_then(|cost| cost.replace(*units)).is_some() {
                        let twice = format!("names a limit twice, as {:?} too", shorten(name));
                        return Err(Error::invalid("costs", twice).into());
                    }
                }
                if named.is_empty() {
                    let accepted = format!("is empty; accepted: {}", names(charges));
                    return Err(Error::invalid("costs", accepted).into());
                }
                let both = each.into_iter().zip(charges);
                Ok(both.map(|(cost, (_, limit))| cost.unwrap_or(limit.units.get())).collect())
            }
        }
    }
}

/// The charge that a text names: `name`, `policy/name`, or `limits[0]`.
///
/// Names contain neither slashes nor brackets, so that no text could mean two of these.
fn place_of(text: &str, charges: &[Charged<'_>]) -> Result<usize> {
    let index = text.strip_prefix("limits[").and_then(|rest| rest.strip_suffix(']'));
    if let Some(index) = index {
        // `+1` and `01` are numbers too.
        let place = index.parse().ok().filter(|place: &usize| place.to_string() == index);
        return place.filter(|place| *place < charges.len()).ok_or_else(|| unknown(text, charges));
    }
    let (policy, name) = match text.split_once('/') {
        Some((policy, name)) => (Some(policy), name),
        None => (None, text),
    };
    let is_named = |(_, (of, limit)): &(usize, &Charged<'_>)| {
        limit.name == name && policy.is_none_or(|policy| policy == *of)
    };
    let mut found = charges.iter().enumerate().filter(is_named);
    match (found.next(), found.next()) {
        (Some((place, _)), None) => Ok(place),
        (None, _) => Err(unknown(text, charges)),
        (Some(_), Some(_)) => {
            let names = names(charges);
            let several = format!("{:?} names several limits; accepted: {names}", shorten(text));
            Err(Error::invalid("costs", several).into())
        }
    }
}

fn unknown(text: &str, charges: &[Charged<'_>]) -> super::Failure {
    let names = names(charges);
    let none = format!("{:?} is no limit of the receipt; accepted: {names}", shorten(text));
    Error::invalid("costs", none).into()
}

/// The shortest name of each charge that is that of no other one.
fn names(charges: &[Charged<'_>]) -> String {
    let count = |is: &dyn Fn(&Charged<'_>) -> bool| charges.iter().filter(|one| is(one)).count();
    let name = |(place, (policy, limit)): (usize, &Charged<'_>)| {
        if count(&|(_, other)| other.name == limit.name) == 1 {
            limit.name.clone()
        } else if count(&|(of, other)| of == policy && other.name == limit.name) == 1 {
            format!("{policy}/{}", limit.name)
        } else {
            format!("limits[{place}]")
        }
    };
    charges.iter().enumerate().map(name).collect::<Vec<_>>().join(", ")
}

/// A text from outside, short enough for an error message.
fn shorten(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).take(64).collect()
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;

    use tollgate_core::Cost;

    use super::*;

    fn limit(name: &str, units: u64) -> ChargedLimit {
        ChargedLimit { name: name.to_owned(), units: Cost::new(units).unwrap(), until_ms: 0 }
    }

    fn named(costs: &[(&'static str, u64)], charges: &[Charged<'_>]) -> Result<Vec<u64>> {
        let costs: Vec<_> =
            costs.iter().map(|(name, cost)| (Cow::Borrowed(*name), *cost)).collect();
        FinalCosts::Named(&costs).each(charges)
    }

    /// The field of an error, and its message.
    fn refused(result: Result<Vec<u64>>) -> (String, String) {
        let error = result.unwrap_err().error;
        assert_eq!(error.code().as_str(), "invalid_request");
        (error.field().unwrap().to_owned(), error.message().to_owned())
    }

    #[test]
    fn a_limit_is_named_as_briefly_as_it_is_unambiguous() {
        let [second, day, api] = [limit("second", 3), limit("day", 3), limit("api", 7)];
        let charges =
            [("two", &second), ("two", &day), ("other", &day), ("api", &api), ("api", &api)];
        let all = "second, two/day, other/day, limits[3], limits[4]";
        assert_eq!(named(&[("second", 1)], &charges).unwrap(), [1, 3, 3, 7, 7]);
        let costs = [("two/day", 0), ("other/day", 5), ("limits[4]", 9), ("two/second", 3)];
        assert_eq!(named(&costs, &charges).unwrap(), [3, 0, 5, 7, 9]);
        for wrong in [
            "day",
            "api",
            "api/api",
            "x",
            "",
            "x/day",
            "limits[5]",
            "limits[+1]",
            "limits[01]",
            "limits[]",
            "limits[99999999999999999999]",
            "second/",
            "/second",
        ] {
            let (field, message) = refused(named(&[(wrong, 1)], &charges));
            assert_eq!(field, "costs", "{wrong}");
            assert!(message.contains(all), "{wrong}: {message}");
        }
        let (field, message) = refused(named(&[("second", 1), ("limits[0]", 1)], &charges));
        assert_eq!((&*field, message.contains("twice")), ("costs", true), "{message}");
        assert!(refused(named(&[], &charges)).1.contains(all));
        let long = "\n".repeat(5) + &"x".repeat(1_000);
        let long = [(Cow::Owned(long), 1)];
        assert!(refused(FinalCosts::Named(&long).each(&charges)).1.len() < 200);
    }

    #[test]
    fn one_number_is_for_charges_of_one_cost() {
        let [a, b, c] = [limit("a", 3), limit("b", 3), limit("c", 4)];
        let [same, different] = [[("p", &a), ("p", &b)], [("p", &a), ("p", &c)]];
        assert_eq!(FinalCosts::Every(9).each(&same).unwrap(), [9, 9]);
        assert_eq!(FinalCosts::Every(0).each(&different).unwrap(), [0, 0]);
        let (field, message) = refused(FinalCosts::Every(9).each(&different));
        assert_eq!((&*field, message.contains("a, c")), ("cost", true), "{message}");
        assert_eq!(FinalCosts::Every(u64::MAX).each(&same).unwrap(), [u64::MAX; 2]);
    }
}
