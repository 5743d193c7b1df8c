//! The schema for editors, compared with `lint`: it accepts what `lint` accepts, and refuses what a
//! schema can refuse.

use std::collections::BTreeMap;

use jsonschema::Validator;
use saphyr_parser::{Event, Parser, ScalarStyle, StrInput};
use serde_json::{Map, Value};
use tollgate::algorithm::{Kind, OptionKind};
use tollgate_server::Config;
use tollgate_server::config::schema;
use tollgate_service::config::DEFAULT_ALGORITHM;

fn validator() -> Validator {
    jsonschema::draft7::new(&schema()).expect("a schema")
}

fn lints(text: &str) -> bool {
    let secret = |name: &str| (name == "TOLLGATE_HASH_SECRET").then(|| "secret".to_owned());
    Config::of_text(&[], secret, Some(("t.yaml", text))).is_ok()
}

/// A file as an editor parses it: with the numbers and booleans of YAML 1.2.
struct Parsed<'a>(Parser<'a, StrInput<'a>>);

impl<'a> Parsed<'a> {
    fn file(text: &'a str) -> Value {
        let mut parsed = Self(Parser::new_from_str(text));
        assert!(matches!(parsed.next(), Event::StreamStart));
        match parsed.next() {
            Event::DocumentStart(_) => {
                let event = parsed.next();
                parsed.value(event)
            }
            _ => Value::Null,
        }
    }

    fn next(&mut self) -> Event<'a> {
        self.0.next_event().expect("more").expect("YAML").0
    }

    fn value(&mut self, event: Event<'a>) -> Value {
        match event {
            Event::Scalar(text, ScalarStyle::Plain, ..) => plain(&text),
            Event::Scalar(text, ..) => Value::String(text.into_owned()),
            Event::SequenceStart(..) => {
                let mut items = Vec::new();
                loop {
                    match self.next() {
                        Event::SequenceEnd => return Value::Array(items),
                        event => items.push(self.value(event)),
                    }
                }
            }
            Event::MappingStart(..) => {
                let mut fields = Map::new();
                loop {
                    let name = match self.next() {
                        Event::Scalar(name, ..) => name.into_owned(),
                        _ => return Value::Object(fields),
                    };
                    let event = self.next();
                    fields.insert(name, self.value(event));
                }
            }
            other => unreachable!("{other:?}"),
        }
    }
}

fn plain(text: &str) -> Value {
    match text {
        "" | "~" | "null" => Value::Null,
        "true" | "false" => Value::Bool(text == "true"),
        text => match (text.parse::<i64>(), text.parse::<f64>()) {
            (Ok(number), _) => number.into(),
            (_, Ok(number)) if text.starts_with(|c: char| c.is_ascii_digit()) => number.into(),
            _ => text.into(),
        },
    }
}

/// The YAML between fences of a document.
fn examples(document: &str) -> Vec<String> {
    let parts = document.split("```yaml\n").skip(1);
    parts.map(|part| part.split("```").next().expect("an end").to_owned()).collect()
}

#[test]
fn every_example_is_accepted_by_both() {
    let mut files = examples(include_str!("../../../../docs/configuration.md"));
    assert!(!files.is_empty());
    files.push(include_str!("../../../../deploy/config/tollgate.yaml").to_owned());
    files.push(include_str!("config/every_algorithm.yaml").to_owned());
    files.push(String::new());
    let several = "limits: [{name: s, limit: 1/s}, {name: d, limit: 9/day}]";
    for of_key in ["{s: 5/s}", "{d: none}", "{s: {limit: 5/s, burst: 9}, d: none}"] {
        files.push(format!(
            "policies: {{p: {{{several}, overrides: {{k: {{limits: {of_key}}}}}}}}}"
        ));
    }
    for (name, value) in defaults() {
        // A colon at the end is YAML, unless it is quoted.
        let value = if value.ends_with(':') { format!("'{value}'") } else { value };
        files.push(format!("{name}: {value}\n"));
    }
    let validator = validator();
    for file in files {
        assert!(lints(&file), "{file}");
        let wrong: Vec<String> =
            validator.iter_errors(&Parsed::file(&file)).map(|error| error.to_string()).collect();
        assert!(wrong.is_empty(), "{wrong:?}\n{file}");
    }
}

/// Every setting with what is built in.
fn defaults() -> Vec<(&'static str, String)> {
    let shown = Config::built_in().unwrap().show().into_iter();
    shown.filter(|one| one.1 != "not set").map(|(name, value, _)| (name, value)).collect()
}

#[test]
fn lint_and_schema_agree_about_every_field_of_every_algorithm() {
    // Every field of any algorithm, with a value that is accepted.
    let mut fields = BTreeMap::new();
    let mut expected = 0;
    for kind in Kind::ALL {
        let option = kind.fields().option;
        fields.insert(kind.fields().rate, "6 per 1m");
        fields.extend(option.map(|option| match option.kind {
            OptionKind::Whole(_) => (option.name, "6"),
            OptionKind::Word(words) => (option.name, words[0]),
        }));
        // The algorithm without and with its optional field, and once more without its name.
        let named = if kind == DEFAULT_ALGORITHM { 2 } else { 1 };
        expected += named * (1 + usize::from(option.is_some()));
    }
    let validator = validator();
    let mut accepted = 0;
    for algorithm in Kind::ALL.iter().map(|kind| kind.name()).chain(["", "bucket"]) {
        // Every set of fields: two to the power of their number.
        for chosen in 0_u32..1 << fields.len() {
            let mut policy: Vec<String> = Vec::new();
            if !algorithm.is_empty() {
                policy.push(format!("algorithm: {algorithm}"));
            }
            let is_chosen = |(bit, _): &(usize, _)| chosen >> bit & 1 == 1;
            for (_, (field, value)) in fields.iter().enumerate().filter(is_chosen) {
                policy.push(format!("{field}: {value}"));
            }
            let policy = policy.join(", ");
            for file in [
                format!("policies: {{p: {{{policy}}}}}"),
                format!("policies: {{p: {{limits: [{{name: n, {policy}}}]}}}}"),
                format!("policies: {{p: {{limit: 1 per 1s, overrides: {{k: {{{policy}}}}}}}}}"),
            ] {
                let (lints, is_valid) = (lints(&file), validator.is_valid(&Parsed::file(&file)));
                // An override has the algorithm of its policy, which a schema does not know.
                let is_known = !algorithm.is_empty() || !file.contains("overrides");
                assert!(lints == is_valid || (!lints && !is_known), "{file}");
                accepted += usize::from(lints);
            }
        }
    }
    assert_eq!(accepted, 3 * expected);
}

#[test]
fn the_schema_refuses_what_it_can_express() {
    let validator = validator();
    let with = |policy: &str| format!("policies: {{p: {{{policy}}}}}");
    let broken = [
        "htpp: 127.0.0.1:1".to_owned(),
        "http: 127.0.0.1".to_owned(),
        "deadline: fast".to_owned(),
        "deadline: 100".to_owned(),
        "max_in_flight: many".to_owned(),
        "connections: -1".to_owned(),
        "on_outage: maybe".to_owned(),
        "log_level: loud".to_owned(),
        "insecure_public: 1".to_owned(),
        "local_share: half".to_owned(),
        "default_refill_rate: 0".to_owned(),
        "default_refill_rate: fast".to_owned(),
        "store: redis".to_owned(),
        "store: [a]".to_owned(),
        "- a".to_owned(),
        "policies: []".to_owned(),
        "policies: {'no space': {limit: 1 per 1s}}".to_owned(),
        "policies: {cl.throttle: {limit: 1 per 1s}}".to_owned(),
        format!("policies: {{{}: {{limit: 1 per 1s}}}}", "n".repeat(65)),
        with("limit: lots"),
        with("limit: 100"),
        with("limit: 0 per 1m"),
        with("limit: 1.5 per 1m"),
        with("limit: 1 per 1x"),
        with("limit: 1 per 1s, burst: 0"),
        with("limit: 1 per 1s, burst: few"),
        with("limit: 1 per 1s, shadow: perhaps"),
        with("limit: 1 per 1s, on_outage: maybe"),
        with("limit: 1 per 1s, hash_keys: 257"),
        with("limit: 1 per 1s, hash_keys: 0"),
        with("limit: 1 per 1s, prefix: 'a b'"),
        with("limit: 1 per 1s, algoritm: gcra"),
        with("algorithm: fixed_window, limit: 1 per 1s, anchor: noon"),
        with("limits: []"),
        with("limits: 3"),
        with("limits: [{limit: 1 per 1s}]"),
        with("limits: [{name: n, limit: 1 per 1s}], limit: 1 per 1s"),
        with("limits: [{name: n, limit: 1 per 1s}], burst: 1"),
        with("limit: 1 per 1s, overrides: {k: {limit: 1 per 1s, shadow: true}}"),
        with("limit: 1 per 1s, overrides: {k: 3}"),
        with("limits: [{name: n, limit: 1/s}], overrides: {k: {limits: {}}}"),
        with("limits: [{name: n, limit: 1/s}], overrides: {k: {limits: {n: few}}}"),
        with("limits: [{name: n, limit: 1/s}], overrides: {k: {limits: {n: {limt: 2/s}}}}"),
        with("limit: 100/"),
    ];
    for file in broken {
        assert!(!lints(&file), "lint accepts {file}");
        assert!(!validator.is_valid(&Parsed::file(&file)), "the schema accepts {file}");
    }
}
