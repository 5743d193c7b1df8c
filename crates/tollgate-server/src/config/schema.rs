//! The JSON Schema of the configuration file, for editors. `lint` finds more: a schema cannot
//! express everything.

use serde_json::{Map, Value, json};

use tollgate::algorithm::{Kind as Algorithm, OptionKind, OptionSpec};
use tollgate_service::config::{DEFAULT_ALGORITHM, LIMITS_MAX, values};
use tollgate_service::policy::{AD_HOC_POLICY, Refunds};

use crate::store::STORES;

use super::catalog::{Kind, OUTAGES, Setting, WHEN_FULL, WHEN_IDS_FULL};

/// The schema, in draft 7, which most editors support.
#[must_use]
pub fn schema() -> Value {
    let mut fields: Map<String, Value> = Setting::ALL
        .into_iter()
        .map(|setting| {
            let mut value = kind(setting.kind());
            describe(&mut value, setting.meaning());
            if !setting.built_in().is_empty() {
                insert(&mut value, "default", json!(setting.built_in()));
            }
            (setting.name().to_owned(), value)
        })
        .collect();
    let policies = json!({
        "type": "object",
        "description": "the policies, by name",
        "propertyNames": {"allOf": [name(), {"not": {"const": AD_HOC_POLICY}}]},
        "additionalProperties": {"$ref": "#/definitions/policy"},
    });
    fields.insert("policies".to_owned(), policies);
    fields.insert("request_ids".to_owned(), request_ids());
    json!({
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "Configuration of tollgate serve",
        "type": ["object", "null"],
        "properties": fields,
        "additionalProperties": false,
        "definitions": {
            "policy": policy(),
            "limits": limits(Algorithms::Default),
            "changes": {"anyOf": [limits(Algorithms::OfPolicy), changes()]},
            "override": limit(&[], &[], Some("#/definitions/changes"), Algorithms::OfPolicy),
        },
    })
}

/// The algorithm of a limit that names none.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Algorithms {
    Default,
    /// That of the limit of the policy, which a schema does not know.
    OfPolicy,
}

fn limits(algorithms: Algorithms) -> Value {
    let name = [("name", named("its name within the policy"))];
    json!({
        "type": "array",
        "description": "limits that are charged together, or not at all",
        "minItems": 1,
        "maxItems": LIMITS_MAX,
        "items": limit(&name, &["name"], None, algorithms),
    })
}

/// The limits of an override by name.
fn changes() -> Value {
    let dropped = json!({"const": "none", "description": "the key does not have this limit"});
    let fields = limit(&[], &[], None, Algorithms::OfPolicy);
    json!({
        "type": "object",
        "description": "the limits that differ, by name",
        "minProperties": 1,
        "maxProperties": LIMITS_MAX,
        "propertyNames": name(),
        "additionalProperties": {"anyOf": [dropped, quota(), fields]},
    })
}

fn policy() -> Value {
    let mut shadow = kind(Kind::Boolean);
    describe(&mut shadow, "decides and counts, and never denies");
    let mut on_outage = kind(Kind::OneOf(OUTAGES));
    describe(&mut on_outage, "what happens when the store cannot answer");
    let refunds = json!({
        "enum": Refunds::ALL.map(|(word, _)| word),
        "description": "who may give units back: callers with a receipt and administrators, \
                        administrators alone, or no client; receipt when absent",
    });
    let debt = json!({
        "description": "how many units beyond the ceiling of a limit a settlement charges at most; \
                        one ceiling when absent",
        "anyOf": [{"type": "integer", "minimum": 0}, digits("[0-9_]*[0-9][0-9_]*")],
    });
    let bits = json!({
        "description": "keys are replaced by this many bits of a keyed hash",
        "anyOf": [{"type": "integer", "minimum": 1, "maximum": 256}, digits("[0-9_]*[1-9][0-9_]*")],
    });
    let mut when_full = kind(Kind::OneOf(WHEN_FULL));
    describe(&mut when_full, "whether a throttled key or a new key has to give way");
    let overrides = json!({
        "type": "object",
        "description": "other limits for single keys",
        "additionalProperties": {"$ref": "#/definitions/override"},
    });
    let own = [
        ("on_outage", on_outage),
        ("shadow", shadow),
        ("refunds", refunds),
        ("max_debt", debt),
        ("prefix", named("a namespace for its keys, instead of tollgate")),
        ("hash_keys", bits),
        ("max_keys", at_least_one("the most keys of each limit in the memory store")),
        ("when_full", when_full),
        ("request_ids", request_ids()),
        ("overrides", overrides),
    ];
    limit(&own, &[], Some("#/definitions/limits"), Algorithms::Default)
}

/// How request ids are kept, under one policy or under all that do not say it.
fn request_ids() -> Value {
    let mut keep = kind(Kind::Duration);
    describe(&mut keep, "how long they are kept, from 1s to 30d; 5m when absent");
    let mut when_full = kind(Kind::OneOf(WHEN_IDS_FULL));
    describe(&mut when_full, "whether an old request id or a new one has to give way");
    json!({
        "type": "object",
        "description": "how request ids are kept",
        "additionalProperties": false,
        "properties": {
            "keep": keep,
            "max": at_least_one("how many are kept; that of the store when absent"),
            "when_full": when_full,
        },
    })
}

fn at_least_one(meaning: &str) -> Value {
    let whole = json!({"type": "integer", "minimum": 1});
    json!({"description": meaning, "anyOf": [whole, digits("[0-9_]*[1-9][0-9_]*")]})
}

/// A section that holds a limit, and fields of its own; or a list of limits instead.
fn limit(
    own: &[(&str, Value)],
    needs: &[&str],
    several: Option<&str>,
    algorithms: Algorithms,
) -> Value {
    let mut fields: Map<String, Value> =
        own.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
    let names = Algorithm::ALL.map(Algorithm::name);
    let meaning = format!("how the limit counts; {} when absent", DEFAULT_ALGORITHM.name());
    fields.insert("algorithm".to_owned(), json!({"enum": names, "description": meaning}));
    for own in Algorithm::ALL.map(Algorithm::fields) {
        fields.insert(own.rate.to_owned(), quota());
        fields.extend(own.option.map(|option| (option.name.to_owned(), detail(&option))));
    }
    let one = json!({"allOf": Algorithm::ALL.map(|one| of_algorithm(one, algorithms))});
    let mut section = json!({"type": "object", "required": needs, "additionalProperties": false});
    if let Some(several) = several {
        fields.insert("limits".to_owned(), json!({ "$ref": several }));
        insert(&mut section, "if", json!({"required": ["limits"]}));
        insert(&mut section, "then", json!({"properties": without(&[])}));
        insert(&mut section, "else", one);
    } else {
        insert(&mut section, "allOf", json!([one]));
    }
    insert(&mut section, "properties", Value::Object(fields));
    section
}

/// Which fields an algorithm has, and which it has not.
fn of_algorithm(algorithm: Algorithm, algorithms: Algorithms) -> Value {
    let own = algorithm.fields();
    let mut chosen = json!({"properties": {"algorithm": {"const": algorithm.name()}}});
    if algorithm != DEFAULT_ALGORITHM || algorithms == Algorithms::OfPolicy {
        insert(&mut chosen, "required", json!(["algorithm"]));
    }
    let option = own.option.map(|option| option.name);
    let has: Vec<&str> = ["algorithm", own.rate].into_iter().chain(option).collect();
    json!({"if": chosen, "then": {"required": [own.rate], "properties": without(&has)}})
}

/// Refuses every field of a limit that is not among these.
fn without(has: &[&str]) -> Value {
    let all = Algorithm::ALL.map(Algorithm::fields).into_iter();
    let all = all.flat_map(|own| [Some(own.rate), own.option.map(|option| option.name)]);
    let all = all.flatten().chain(["algorithm"]).filter(|name| !has.contains(name));
    Value::Object(all.map(|name| (name.to_owned(), Value::Bool(false))).collect())
}

/// The optional field of an algorithm.
fn detail(option: &OptionSpec) -> Value {
    let meaning = option.meaning;
    match option.kind {
        OptionKind::Whole(least) => {
            let digit = if least > 0 { "[1-9]" } else { "[0-9]" };
            let written = digits(&format!("[0-9_]*{digit}[0-9_]*"));
            let whole = json!({"type": "integer", "minimum": least});
            json!({"description": meaning, "anyOf": [whole, written]})
        }
        OptionKind::Word(words) => json!({"enum": words, "description": meaning}),
    }
}

fn quota() -> Value {
    let count = "[0-9_]*[1-9][0-9_]*";
    let pattern = format!("^\\s*{count}\\s*( per |/)\\s*({count})?\\s*({})\\s*$", units());
    json!({"type": "string", "pattern": pattern, "description": "such as 100/minute, 100 per 1m"})
}

fn units() -> String {
    values::units().collect::<Vec<_>>().join("|")
}

fn name() -> Value {
    json!({"pattern": "^[A-Za-z0-9_.-]{1,64}$"})
}

fn named(meaning: &str) -> Value {
    let mut value = name();
    insert(&mut value, "type", json!(["string", "number"]));
    describe(&mut value, meaning);
    value
}

fn digits(pattern: &str) -> Value {
    json!({"type": "string", "pattern": format!("^{pattern}$")})
}

/// The schema of a kind of value. Numbers may be written as YAML numbers, or as texts with
/// underscores.
fn kind(kind: Kind) -> Value {
    let whole =
        || json!({"anyOf": [{"type": "integer", "minimum": 0}, digits("[0-9_]*[0-9][0-9_]*")]});
    match kind {
        Kind::Address => json!({"type": "string", "pattern": "^(off|.+:[0-9]+)$"}),
        Kind::Duration => {
            let pattern = format!("^\\s*([0-9_]*[0-9][0-9_]*)?\\s*({})\\s*$", units());
            json!({"type": "string", "pattern": pattern})
        }
        Kind::Endpoint => json!({"type": "string", "pattern": "^https?://[^@]+$"}),
        Kind::Fraction => json!({"anyOf": [{"enum": [0, 1]}, digits("[0-9_]+(/[0-9_]+)?")]}),
        Kind::OneOf(words) => json!({"enum": words}),
        Kind::PerSecond => json!({"anyOf": [
            {"type": "number", "exclusiveMinimum": 0},
            {"type": "string", "pattern": "^([0-9]+(\\.[0-9]*)?|\\.[0-9]+)$"},
        ]}),
        Kind::Tokens => json!({"anyOf": [
            {"type": ["string", "number"]},
            {"type": "array", "items": {"anyOf": [{"type": ["string", "number"]}, scoped_token()]}},
        ]}),
        Kind::File | Kind::Hosts | Kind::Secret => json!({"type": ["string", "number"]}),
        Kind::Share => json!({"anyOf": [{"const": 1}, digits("[0-9_]+(/[0-9_]+)?")]}),
        Kind::Store => json!({"anyOf": [store_url(), store_section()]}),
        Kind::Boolean => json!({"enum": [true, false, "true", "false"]}),
        Kind::Whole => whole(),
    }
}

/// A token that is for some policies.
fn scoped_token() -> Value {
    let policies = json!({
        "type": "array", "minItems": 1, "items": name(),
        "description": "the policies that the token is for; every one when absent",
    });
    json!({
        "type": "object", "required": ["token"], "additionalProperties": false,
        "properties": {"token": {"type": ["string", "number"]}, "policies": policies},
    })
}

fn store_url() -> Value {
    json!({"type": "string", "pattern": "^[a-z][a-z0-9+.-]*:"})
}

/// The address of a store and its parameters. `lint` refuses those of another store.
fn store_section() -> Value {
    let mut fields = Map::new();
    for parameter in STORES.iter().flat_map(|spec| (spec.parameters)()) {
        let mut value = json!({"type": ["string", "number", "boolean"]});
        describe(&mut value, parameter.meaning);
        fields.entry(parameter.name).or_insert(value);
    }
    let mut url = store_url();
    describe(&mut url, "the address of the store");
    fields.insert("url".to_owned(), url);
    json!({
        "type": "object", "required": ["url"], "additionalProperties": false, "properties": fields,
    })
}

fn describe(value: &mut Value, meaning: &str) {
    insert(value, "description", json!(meaning));
}

fn insert(value: &mut Value, name: &str, member: Value) {
    if let Value::Object(members) = value {
        members.insert(name.to_owned(), member);
    }
}
