//! The banner of `tollgate serve`: listeners, store, outage modes, and one command to try. It stays
//! short with any number of policies.

use tollgate_server::Addresses;
use tollgate_server::policy::Policies;

/// The most policies that are named per outage mode.
const NAMES_MAX: usize = 6;

/// Every outage mode, and what it does.
const MODES: [(&str, &str); 3] =
    [("open", "admits"), ("closed", "refuses"), ("local", "grants the share of this process")];

/// All lines; `store` is the URL of a store outside of this process.
pub(super) fn lines(addresses: Addresses, store: Option<&str>, policies: &Policies) -> Vec<String> {
    let Addresses { http, grpc, resp } = addresses;
    let mut lines: Vec<String> = [("HTTP", http), ("gRPC", grpc), ("RESP", resp)]
        .map(|(name, address)| match address {
            Some(address) => format!("{name} on {address}"),
            None => format!("{name} off"),
        })
        .into();
    lines.push(match store {
        Some(store) => format!("Store: {store}"),
        None => "Store: memory; limits are per process and end with it".into(),
    });
    lines.extend(modes(policies));
    if let Some(http) = http {
        lines.push(format!("Try: curl http://{http}/v1/acquire -d '{{\"key\":\"user:1\"}}'"));
    } else if let Some(resp) = resp {
        lines.push(format!("Try: redis-cli -p {} TG.ACQUIRE default user:1", resp.port()));
    }
    lines
}

/// The outage modes in use, with their policies: one line each.
fn modes(policies: &Policies) -> impl Iterator<Item = String> {
    MODES.into_iter().filter_map(|(mode, does)| {
        let has = |name: &str| name == mode;
        let mut names = policies
            .iter()
            .filter(|policy| policy.limits().any(|limit| has(limit.outage_mode().as_str())))
            .map(|policy| policy.name().as_str());
        let named: Vec<&str> = names.by_ref().take(NAMES_MAX).collect();
        let more = match names.count() {
            0 => String::new(),
            more => format!(" and {more} more (tollgate config show)"),
        };
        let named = named.join(", ");
        (!named.is_empty()).then(|| format!("In an outage, `{mode}` {does}: {named}{more}"))
    })
}

#[cfg(test)]
mod tests {
    use tollgate_server::Config;

    use super::*;

    fn banner(text: &str, store: Option<&str>) -> Vec<String> {
        let config = Config::of_text(&[], |_| None, Some(("t.yaml", text))).unwrap();
        let http = "127.0.0.1:8080".parse().ok();
        lines(Addresses { http, grpc: None, resp: None }, store, &config.policies)
    }

    #[test]
    fn every_mode_is_listed_with_its_policies() {
        let text = "policies:
  a: {limit: 1 per 1s}
  b: {limit: 1 per 1s, on_outage: closed}
  c: {limit: 1 per 1s, on_outage: local}
";
        let lines = banner(text, Some("redis://there"));
        assert_eq!(lines[3], "Store: redis://there");
        assert_eq!(
            lines[4..7],
            [
                "In an outage, `open` admits: a, default",
                "In an outage, `closed` refuses: b",
                "In an outage, `local` grants the share of this process: c",
            ]
        );
        assert_eq!(banner("", None)[4], "In an outage, `open` admits: default");
    }

    #[test]
    fn many_policies_make_a_short_banner() {
        let policies: String = (0..500)
            .map(|n| format!("  p{n:03}: {{limit: 1 per 1s, on_outage: closed}}\n"))
            .collect();
        let lines = banner(&format!("policies:\n{policies}"), None);
        let closed = "In an outage, `closed` refuses: p000, p001, p002, p003, p004, p005 \
                      and 494 more (tollgate config show)";
        assert_eq!(lines[5], closed);
        assert_eq!(lines.len(), 7);
    }
}
