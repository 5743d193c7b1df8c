//! What is asked of whom: the requests of each server for the same limit.

use tollgate_test_servers::resp::Reply;

use super::audit::{Few, post};
use super::kinds::{BURST, FEW, PERIOD, Protocol, UNITS};
use super::wire::Message;

/// Twelve digits of a number that changes with every request, as `redis-benchmark` writes them.
pub(super) const RANDOM: &str = "__rand_int__";
/// Stands for the number of a key in a request of HTTP; as long as the number.
pub(super) const KEY: &str = "KKKKKKKKKKKK";
/// Stands for the number of a policy in a request of HTTP; as long as the number.
pub(super) const POLICY: &str = "PPPPPPPPPPPP";
/// The policy of the load.
pub(super) const BENCH: &str = "bench";
/// Messages of one stream.
pub(super) const STREAMED: u64 = 200;

/// The same limit as a script: theoretical arrival times, as Tollgate's `gcra`.
pub(super) const SCRIPT: &str = "\
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local interval, burst, cost = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local full = math.max(tonumber(redis.call('GET', KEYS[1]) or 0), now)
local after = full + interval * cost
local over = after - now - interval * burst
if over > 0 then
  local left = math.floor((interval * burst - (full - now)) / interval)
  return {0, burst, left, math.ceil(over / 1000), math.ceil(full / 1000)}
end
local ttl = math.max(math.ceil((after - now) / 1000), 1)
redis.call('SET', KEYS[1], string.format('%.0f', after), 'PX', ttl)
local left = math.floor((interval * burst - (after - now)) / interval)
return {1, burst, left, 0, math.ceil(after / 1000)}";

/// A server, or a way to use one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Target {
    Tollgate,
    /// Many messages on one stream.
    TollgateStream,
    Throttlecrab,
    Nginx,
    FloorThreads,
    FloorCurrent,
    /// A counter of Redis, which decides nothing.
    Incr,
    /// The limit as a script in Redis.
    Script,
}

impl Target {
    /// The row of a table.
    pub(super) const fn title(self) -> &'static str {
        match self {
            Self::Tollgate => "Tollgate",
            Self::TollgateStream => "Tollgate, `AcquireStream`",
            Self::Throttlecrab => "throttlecrab-server",
            Self::Nginx => "nginx `limit_req`",
            Self::FloorThreads => "floor: bare hyper, one thread per core",
            Self::FloorCurrent => "floor: bare hyper, one thread",
            Self::Incr => "redis-server, `INCR` (no limit)",
            Self::Script => "redis-server, the limit as a script",
        }
    }

    /// In names of cells.
    pub(super) const fn id(self) -> &'static str {
        match self {
            Self::Tollgate => "tollgate",
            Self::TollgateStream => "stream",
            Self::Throttlecrab => "throttlecrab",
            Self::Nginx => "nginx",
            Self::FloorThreads => "floor-threads",
            Self::FloorCurrent => "floor-current",
            Self::Incr => "incr",
            Self::Script => "script",
        }
    }

    /// The path and the message of a gRPC request.
    pub(super) fn grpc(self, policy: &str, key: &str, burst: u64) -> (&'static str, Message) {
        let message = Message::default();
        match self {
            Self::Throttlecrab => {
                let message = message.text(1, key).number(2, burst).number(3, UNITS);
                ("/throttlecrab.RateLimiter/Throttle", message.number(4, PERIOD).number(5, 1))
            }
            Self::TollgateStream => {
                let path = "/tollgate.v1.RateLimiter/AcquireStream";
                (path, message.text(1, policy).text(2, key))
            }
            _ => ("/tollgate.v1.RateLimiter/Acquire", message.text(1, policy).text(2, key)),
        }
    }

    /// The target and the body of an HTTP request.
    pub(super) fn http(self, policy: &str, key: &str, burst: u64) -> (String, String) {
        match self {
            Self::Throttlecrab => (
                "/throttle".to_owned(),
                format!(
                    "{{\"key\":\"{key}\",\"max_burst\":{burst},\"count_per_period\":{UNITS},\
                     \"period\":{PERIOD},\"quantity\":1}}"
                ),
            ),
            Self::Nginx => (format!("/{policy}?key={key}"), format!(r#"{{"policy":"{policy}"}}"#)),
            _ => ("/v1/acquire".to_owned(), format!(r#"{{"policy":"{policy}","key":"{key}"}}"#)),
        }
    }

    /// The words of a RESP command. `sha` is the name of the script.
    pub(super) fn resp(self, policy: &str, key: &str, (burst, sha): (u64, &str)) -> Vec<String> {
        let interval = PERIOD * 1_000_000 / UNITS;
        let text = match self {
            Self::Throttlecrab => format!("THROTTLE {key} {burst} {UNITS} {PERIOD} 1"),
            Self::Incr => format!("INCR {key}"),
            Self::Script => format!("EVALSHA {sha} 1 {key} {interval} {burst} 1"),
            _ => format!("TG.ACQUIRE {policy} {key}"),
        };
        text.split(' ').map(str::to_owned).collect()
    }

    /// The key that is denied, as this server is asked for it; `None` for one that has no limit.
    pub(super) fn few(self, protocol: Protocol, key: &str, sha: &str) -> Option<Few> {
        if matches!(self, Self::FloorThreads | Self::FloorCurrent | Self::Incr) {
            return None;
        }
        Some(match protocol {
            Protocol::Grpc => {
                // A stream is asked for one message at a time.
                let (path, message) = self.grpc("few", key, FEW);
                Few::Grpc { path, message: message.framed() }
            }
            Protocol::Http => {
                let (target, body) = self.http("few", key, FEW);
                Few::Http { target, body }
            }
            Protocol::Resp => Few::Resp(self.resp("few", key, (FEW, sha))),
        })
    }

    /// A command that tells what a key has spent.
    pub(super) fn look(self, policy: &str, key: &str, sha: &str) -> Vec<String> {
        match self {
            Self::Incr => vec!["GET".to_owned(), key.to_owned()],
            _ => self.resp(policy, key, (BURST, sha)),
        }
    }

    /// What the reply to it tells. Looking at a limit takes one unit itself.
    pub(super) fn spent(self, reply: &Reply, burst: u64) -> Option<u64> {
        if self == Self::Incr {
            return Some(reply.text().map_or(0, |text| text.parse().unwrap_or(0)));
        }
        let left = u64::try_from(reply.elements().get(2)?.integer()?).ok()?;
        burst.checked_sub(left + 1)
    }

    /// The script of `wrk` that rotates through keys and policies.
    pub(super) fn wrk_script(self, policy: &str, prefix: &str, sizes: (u64, u64)) -> String {
        let (keys, policies) = sizes;
        let (target, body) = self.http(policy, &format!("{prefix}:{KEY}"), BURST);
        let request = post(&target, &body).replace('\\', "\\\\").replace('"', "\\\"");
        let request = request.replace("\r\n", "\\r\\n");
        let request = request.replace(KEY, "\" .. string.format(\"%012d\", i % keys) .. \"");
        let request = request.replace(POLICY, "\" .. string.format(\"%012d\", i % policies) .. \"");
        format!(
            "local i, keys, policies = 0, {keys}, {policies}\n\
             function request()\n  i = i + 1\n  return \"{request}\"\nend\n"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_of_wrk_has_the_number_of_the_key_in_the_place_of_its_mark() {
        let script = Target::Tollgate.wrk_script("bench", "r1", (1_000, 1));
        assert!(script.contains(r#"\"key\":\"r1:" .. string.format("%012d", i % keys) .. "\"}"#));
        assert!(script.contains("Content-Length: 42"), "{script}");
        assert!(!script.contains(KEY));
    }
}
