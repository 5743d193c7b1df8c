//! What `tollgate serve` says when it starts: where it listens, what its limits are worth, what happens
//! in an outage, and one command to try. Short, however many policies there are.

use tollgate_server::Addresses;
use tollgate_server::policy::Policies;

/// So many policies are named per failure mode.
const NAMES_MAX: usize = 6;

/// Every failure mode, and what it does.
const MODES: [(&str, &str); 3] =
    [("open", "admits"), ("closed", "refuses"), ("local", "grants this process's share")];

/// All lines, in order; `store` is the address of a store that is not in this process.
pub(super) fn lines(addresses: Addresses, store: Option<&str>, policies: &Policies) -> Vec<String> {
    let Addresses { http, grpc, resp } = addresses;
    let mut lines: Vec<String> = [("HTTP", http), ("gRPC", grpc), ("RESP", resp)]
        .map(|(name, address)| match address {
            Some(address) => format!("{name} on {address}"),
            None => format!("{name} off"),
        })
        .into();
    lines.push(match store {
        Some(store) => format!("Counts are kept in {store}"),
        None => "Counts are kept in memory: limits are per process, and gone when it ends.".into(),
    });
    lines.extend(modes(policies));
    if let Some(http) = http {
        lines.push(format!("Try: curl http://{http}/v1/acquire -d '{{\"key\":\"user:1\"}}'"));
    } else if let Some(resp) = resp {
        lines.push(format!("Try: redis-cli -p {} TG.ACQUIRE default user:1", resp.port()));
    }
    lines
}

/// What policies do when the store cannot answer: a line per mode that is in use.
fn modes(policies: &Policies) -> impl Iterator<Item = String> {
    MODES.into_iter().filter_map(|(mode, does)| {
        let has = |name: &str| name == mode;
        let mut names = policies
            .iter()
            .filter(|policy| policy.limits().iter().any(|limit| has(limit.outage_mode().as_str())))
            .map(|policy| policy.name().as_str());
        let named: Vec<&str> = names.by_ref().take(NAMES_MAX).collect();
        let more = match names.count() {
            0 => String::new(),
            more => format!(" and {more} more (tollgate config show)"),
        };
        let named = named.join(", ");
        (!named.is_empty()).then(|| format!("In an outage, {mode} {does}: {named}{more}"))
    })
}

#[cfg(test)]
mod tests {
    use tollgate_server::Config;

    use super::*;

    fn told(text: &str, store: Option<&str>) -> Vec<String> {
        let config = Config::of_text(&[], |_| None, Some(("t.yaml", text))).unwrap();
        let http = "127.0.0.1:8080".parse().ok();
        lines(Addresses { http, grpc: None, resp: None }, store, &config.policies)
    }

    #[test]
    fn every_mode_is_told_with_its_policies() {
        let text = "policies: {a: {limit: 1 per 1s}, b: {limit: 1 per 1s, on_outage: closed}, c: {limit: 1 per 1s, on_outage: local}}";
        let lines = told(text, Some("redis://there"));
        assert_eq!(lines[3], "Counts are kept in redis://there");
        assert_eq!(
            lines[4..7],
            [
                "In an outage, open admits: a, default",
                "In an outage, closed refuses: b",
                "In an outage, local grants this process's share: c",
            ]
        );
        assert_eq!(told("", None)[4], "In an outage, open admits: default");
    }

    #[test]
    fn many_policies_make_no_long_text() {
        let policies: String = (0..500)
            .map(|n| format!("  p{n:03}: {{limit: 1 per 1s, on_outage: closed}}\n"))
            .collect();
        let lines = told(&format!("policies:\n{policies}"), None);
        let closed = "In an outage, closed refuses: p000, p001, p002, p003, p004, p005 and 494 more (tollgate config show)";
        assert_eq!(lines[5], closed);
        assert_eq!(lines.len(), 7);
    }
}
