//! The text of a vector file: one decision per line, so that a change shows as a small diff.

use core::fmt::Write as _;

use serde::Deserialize;
use serde_json::Value;
use tollgate_core::{Cost, Decision, Settlement, Verdict};

use super::{Group, Op, SettledVector, Vector, VectorFile};
use crate::model::{Kind, ModelQuota};

/// The version of the format.
const FORMAT: u64 = 1;

pub(super) fn write(file: &VectorFile) -> String {
    let algorithm = file.algorithm.name();
    let mut text = format!("{{\"format\":{FORMAT},\"algorithm\":\"{algorithm}\",\"groups\":[\n");
    for (index, group) in file.groups.iter().enumerate() {
        let comma = if index == 0 { "" } else { ",\n" };
        let (name, quota) = (Value::from(group.name.as_str()), quota_text(&group.quota));
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{comma}{{\"name\":{name},\"quota\":{quota},\"decisions\":[");
        let lines: Vec<String> = group.decisions.iter().map(vector_text).collect();
        text.push_str(&lines.join(",\n"));
        text.push_str("]}");
    }
    text.push_str("\n]}\n");
    text
}

fn vector_text(vector: &Vector) -> String {
    let change = vector.change.as_ref().map(|quota| format!("\"quota\":{},", quota_text(quota)));
    let op = match vector.op {
        Op::Check => "check",
        Op::Peek => "peek",
        Op::Settle => "settle",
    };
    let d = &vector.decision;
    let retry = d.retry_after_ms.map_or_else(|| "null".to_owned(), |ms| ms.to_string());
    let optional = |name: &str, units: Option<Cost>| {
        units.map_or_else(String::new, |units| format!(",\"{name}\":{units}"))
    };
    format!(
        "{{{}\"now_us\":{},\"cost\":{}{},\"op\":\"{op}\"{},\"verdict\":\"{}\"{},\"limit\":{},\
         \"remaining\":{},\"reset_at_ms\":{},\"retry_after_ms\":{retry},\"delay_ms\":{}}}",
        change.unwrap_or_default(),
        vector.now_us,
        vector.cost,
        optional("max", vector.max),
        vector.settled.as_ref().map(settled_text).unwrap_or_default(),
        d.verdict.as_str(),
        optional("granted", d.granted()),
        d.limit,
        d.remaining,
        d.reset_at_ms,
        d.delay_ms,
    )
}

fn settled_text(settled: &SettledVector) -> String {
    let SettledVector { until_us, to, max_debt, settlement } = settled;
    let Settlement { given_back, charged, dropped, .. } = settlement;
    let until = until_us.map_or_else(|| "null".to_owned(), |until| until.to_string());
    format!(
        ",\"until_us\":{until},\"to\":{to},\"max_debt\":{max_debt},\
         \"given_back\":{given_back},\"charged\":{charged},\"dropped\":{dropped}"
    )
}

/// The names of variants and fields are the text form. Serializing cannot fail: the keys are texts,
/// the values numbers and words.
fn quota_text(quota: &ModelQuota) -> String {
    serde_json::to_string(quota).unwrap_or_default()
}

/// The names of the numbers of a quota, in alphabetical order.
pub(super) fn field_names(quota: &ModelQuota) -> Vec<String> {
    let Ok(Value::Object(fields)) = serde_json::to_value(quota) else { return Vec::new() };
    let mut names: Vec<String> = fields.into_iter().map(|(name, _)| name).collect();
    names.retain(|name| name != "algorithm");
    names.sort_unstable();
    names
}

pub(super) fn read(text: &str) -> Result<VectorFile, String> {
    let file: Value = serde_json::from_str(text).map_err(|error| error.to_string())?;
    if number(&file, "format")? != FORMAT {
        return Err(format!("only format {FORMAT} is known"));
    }
    let groups = list(&file, "groups")?.iter().map(group).collect::<Result<_, _>>()?;
    Ok(VectorFile { algorithm: kind(&file)?, groups })
}

fn group(value: &Value) -> Result<Group, String> {
    let quota = value.get("quota").ok_or("a group has no quota")?;
    Ok(Group {
        name: string(value, "name")?.to_owned(),
        quota: read_quota(quota)?,
        decisions: list(value, "decisions")?.iter().map(vector).collect::<Result<_, _>>()?,
    })
}

fn vector(value: &Value) -> Result<Vector, String> {
    let op = match string(value, "op")? {
        "check" => Op::Check,
        "peek" => Op::Peek,
        "settle" => Op::Settle,
        other => return Err(format!("the op {other} is unknown")),
    };
    let cost = Cost::new(number(value, "cost")?).map_err(|error| error.to_string())?;
    Ok(Vector {
        change: value.get("quota").map(read_quota).transpose()?,
        op,
        now_us: number(value, "now_us")?,
        cost,
        max: units(value, "max")?,
        settled: if op == Op::Settle { Some(settled(value)?) } else { None },
        decision: decision(value)?,
    })
}

fn settled(value: &Value) -> Result<SettledVector, String> {
    let until_us = match value.get("until_us") {
        Some(Value::Null) => None,
        _ => Some(number(value, "until_us")?),
    };
    let settlement = match number(value, "given_back")? {
        0 => Settlement::charging(number(value, "charged")?, number(value, "dropped")?),
        units => Settlement::giving_back(units),
    };
    let (to, max_debt) = (number(value, "to")?, number(value, "max_debt")?);
    Ok(SettledVector { until_us, to, max_debt, settlement })
}

fn decision(value: &Value) -> Result<Decision, String> {
    let known = [Verdict::Allowed, Verdict::Denied, Verdict::Never];
    let text = string(value, "verdict")?;
    let verdict = known.into_iter().find(|verdict| verdict.as_str() == text);
    let (limit, remaining) = (number(value, "limit")?, number(value, "remaining")?);
    let reset_at_ms = number(value, "reset_at_ms")?;
    let mut decision = Decision::allowed(limit, remaining, reset_at_ms);
    decision.verdict = verdict.ok_or_else(|| format!("the verdict {text} is unknown"))?;
    decision.retry_after_ms = match value.get("retry_after_ms") {
        Some(Value::Null) => None,
        _ => Some(number(value, "retry_after_ms")?),
    };
    decision.delay_ms = number(value, "delay_ms")?;
    Ok(decision.granting(units(value, "granted")?))
}

/// Units that need not be there.
fn units(value: &Value, field: &str) -> Result<Option<Cost>, String> {
    if value.get(field).is_none() {
        return Ok(None);
    }
    Cost::new(number(value, field)?).map(Some).map_err(|error| error.to_string())
}

fn read_quota(value: &Value) -> Result<ModelQuota, String> {
    ModelQuota::deserialize(value).map_err(|error| format!("{error} in {value}"))
}

fn kind(value: &Value) -> Result<Kind, String> {
    let name = string(value, "algorithm")?;
    Kind::of_name(name).ok_or_else(|| format!("the algorithm {name} is unknown"))
}

fn number(value: &Value, field: &str) -> Result<u64, String> {
    let number = value.get(field).and_then(Value::as_u64);
    number.ok_or_else(|| format!("{field} is not a whole number in {value}"))
}

fn string<'a>(value: &'a Value, field: &str) -> Result<&'a str, String> {
    let text = value.get(field).and_then(Value::as_str);
    text.ok_or_else(|| format!("{field} is not a text in {value}"))
}

fn list<'a>(value: &'a Value, field: &str) -> Result<&'a Vec<Value>, String> {
    let list = value.get(field).and_then(Value::as_array);
    list.ok_or_else(|| format!("{field} is not a list"))
}
