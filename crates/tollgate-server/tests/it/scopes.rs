//! Tokens that are for some policies: over gRPC and RESP, in a file, and what is wrong with one.
//! HTTP is tested with every host of the API.

use tollgate_proto::ratelimit_v1 as compatible;
use tollgate_proto::ratelimit_v1::rate_limiter_client::RateLimiterClient as CompatibleClient;
use tollgate_proto::tollgate_v1 as pb;
use tollgate_server::config::Setting;
use tollgate_server::{Config, Server};
use tonic::{Code, Request};

use crate::support::{Resp, Running};

const FILE: &str = "
http: 127.0.0.1:0
grpc: 127.0.0.1:0
resp: 127.0.0.1:0
receipt_secret: a-secret-of-servers
tokens:
  - token-for-everything
  - {token: token-of-a-caller, policies: [mine, cl.throttle]}
  - {token: token-of-the-third, policies: [mine]}
admin_tokens:
  - {token: token-of-an-admin, policies: [mine]}
policies:
  mine: {limit: 100 per 1d}
  theirs: {limit: 100 per 1d}
";
const ALL: &str = "token-for-everything";
const CALLER: &str = "token-of-a-caller";
const THIRD: &str = "token-of-the-third";
const ADMIN: &str = "token-of-an-admin";

async fn server() -> Running {
    let config = Config::of_text(&[], |_| None, Some(("t.yaml", FILE))).unwrap();
    Running::of(Server::bind(config).await.unwrap())
}

fn with<T>(message: T, token: &str) -> Request<T> {
    let mut request = Request::new(message);
    let bearer = format!("Bearer {token}").parse().unwrap();
    request.metadata_mut().insert("authorization", bearer);
    request
}

fn acquire(policy: &str) -> pb::AcquireRequest {
    let (policy, key) = (policy.to_owned(), "k".to_owned());
    pb::AcquireRequest { policy, key, ..Default::default() }
}

#[tokio::test]
async fn grpc_refuses_other_policies_and_says_the_same_of_unknown_ones() {
    let server = server().await;
    let mut grpc = server.grpc().await;
    assert!(grpc.acquire(with(acquire("mine"), CALLER)).await.is_ok());
    let mut refusals = Vec::new();
    for policy in ["theirs", "unknown", "", "default"] {
        let key = || "k".to_owned();
        let policy = || policy.to_owned();
        let one = pb::Charge { policy: "mine".to_owned(), key: key(), ..Default::default() };
        let two = pb::Charge { policy: policy(), key: key(), ..Default::default() };
        let charges = vec![one, two];
        let keys = pb::ForecastRequest { policy: policy(), key: key(), charges: vec![] };
        let limits = pb::LimitsRequest { policy: policy(), key: key(), charges: vec![] };
        let units =
            pb::RefundRequest { policy: policy(), key: key(), cost: Some(1), ..Default::default() };
        let reset = pb::ResetRequest { policy: policy(), key: key() };
        let several = pb::AcquireRequest { charges, ..Default::default() };
        let found = [
            grpc.acquire(with(acquire(&policy()), ADMIN)).await.unwrap_err(),
            grpc.acquire(with(several, ADMIN)).await.unwrap_err(),
            grpc.peek(with(acquire(&policy()), ADMIN)).await.unwrap_err(),
            grpc.forecast(with(keys, ADMIN)).await.unwrap_err(),
            grpc.limits(with(limits, ADMIN)).await.unwrap_err(),
            grpc.refund(with(units, ADMIN)).await.unwrap_err(),
            grpc.reset(with(reset, ADMIN)).await.unwrap_err(),
        ];
        let found = found.map(|status| (status.code(), status.message().to_owned()));
        assert!(found.iter().all(|(code, _)| *code == Code::PermissionDenied), "{found:?}");
        assert!(
            found.iter().all(|(_, message)| message.contains("policy: is not one")),
            "{found:?}"
        );
        refusals.push(found);
    }
    assert!(refusals.iter().all(|found| *found == refusals[0]), "{refusals:?}");
    let batch = pb::AcquireManyRequest { requests: vec![acquire("theirs"), acquire("mine")] };
    let decisions = grpc.acquire_many(with(batch, CALLER)).await.unwrap().into_inner().decisions;
    let result = |index: usize| decisions[index].outcome.clone().unwrap();
    let pb::outcome::Outcome::Error(error) = result(0) else { panic!("{decisions:?}") };
    assert_eq!((&*error.code, error.field.as_deref()), ("forbidden", Some("requests[0].policy")));
    assert!(matches!(result(1), pb::outcome::Outcome::Decision(_)), "{decisions:?}");
    // The service for earlier callers has one policy.
    let mut earlier = CompatibleClient::new(server.channel().await);
    let request = compatible::AcquireRequest {
        logical_key: "k".to_owned(),
        request_id: "6f1c9a52-0d5e-4c7e-9b1a-2f3c4d5e6f70".to_owned(),
        cost: 1,
    };
    let refused = earlier.acquire(with(request.clone(), CALLER)).await.unwrap_err();
    assert_eq!(refused.code(), Code::PermissionDenied);
    assert!(earlier.acquire(with(request, ALL)).await.is_ok());
    server.end().await;
}

#[tokio::test]
async fn resp_refuses_other_policies_and_says_the_same_of_unknown_ones() {
    let server = server().await;
    let mut all = server.resp().await;
    assert_eq!(all.call(&["AUTH", ALL]).await, "+OK");
    let charge = all.reply(&["TG.ACQUIRE", "theirs", "k", "1", "RECEIPT"]).await;
    let receipt = charge[6].as_str().unwrap().to_owned();
    let mut resp = server.resp().await;
    assert_eq!(resp.call(&["AUTH", ADMIN]).await, "+OK");
    for command in [
        &["TG.ACQUIRE", "POLICY", "k"][..],
        &["TG.ACQUIREALL", "2", "mine", "k", "1", "POLICY", "k", "1"],
        &["TG.PEEK", "POLICY", "k"],
        &["TG.FORECAST", "POLICY", "k"],
        &["TG.REFUND", "POLICY", "k", "1"],
        &["TG.RESET", "POLICY", "k"],
    ] {
        let mut replies = Vec::new();
        for policy in ["theirs", "unknown", "default"] {
            let words = command.iter().map(|word| if *word == "POLICY" { policy } else { word });
            let reply = resp.call(&words.collect::<Vec<_>>()).await;
            assert!(reply.starts_with("-NOPERM forbidden: "), "{command:?}: {reply}");
            assert!(reply.contains("policy: is not one"), "{reply}");
            replies.push(reply);
        }
        assert!(replies.iter().all(|reply| *reply == replies[0]), "{replies:?}");
    }
    assert!(resp.call(&["TG.SETTLE", &receipt, "0"]).await.starts_with("-NOPERM"));
    assert!(resp.call(&["TG.REFUND", &receipt]).await.starts_with("-NOPERM"));
    assert!(all.call(&["TG.REFUND", &receipt]).await.starts_with('*'));
    // Limits of a command are a policy too.
    let throttle = ["CL.THROTTLE", "k", "1", "1", "60"];
    assert!(resp.call(&throttle).await.starts_with("-NOPERM"));
    let mut caller = server.resp().await;
    assert_eq!(caller.call(&["AUTH", CALLER]).await, "+OK");
    assert_eq!(caller.five(&throttle).await[0], 0);
    // Each command of a pipeline and of a transaction is judged by itself.
    let mut third = server.resp().await;
    let commands = [
        &["AUTH", THIRD][..],
        &["TG.ACQUIRE", "theirs", "k"],
        &["TG.ACQUIRE", "mine", "k"],
        &["MULTI"],
        &["TG.ACQUIRE", "theirs", "k"],
        &["EXEC"],
        &["QUIT"],
    ];
    let pipeline: String = commands.iter().map(|words| Resp::command(words)).collect();
    third.send(pipeline.as_bytes()).await;
    let replies = third.rest().await;
    let refused = replies.matches("-NOPERM forbidden").count();
    assert_eq!((refused, replies.matches("*5\r\n").count()), (2, 1), "{replies}");
    server.end().await;
}

#[test]
fn a_list_of_tokens_is_the_same_as_one_text() {
    let texts = [
        "tokens: [token-of-a-caller, {token: token-of-another, policies: [a, b]}]",
        "tokens: \"token-of-a-caller, token-of-another:a+b\"",
    ];
    for text in texts {
        let text = format!("policies: {{a: {{limit: 1 per 1s}}, b: {{limit: 1 per 1s}}}}\n{text}");
        let config = Config::of_text(&[], |_| None, Some(("t.yaml", &text))).unwrap();
        let rights = |token| config.auth.permit(Some(token), tollgate_service::auth::Role::Caller);
        assert!(rights("token-of-a-caller").unwrap().policies.is_all());
        let scope = rights("token-of-another").unwrap().policies;
        assert!(scope.names().eq(["a", "b"]) && !scope.has("default"), "{scope:?}");
        let shown = format!("{:?}", config.show());
        assert!(shown.contains("***") && !shown.contains("token-of"), "{shown}");
        assert!(!format!("{config:?}").contains("token-of"));
    }
}

#[test]
fn what_is_wrong_with_a_token_is_said_without_it() {
    let refused = |tokens: &str| {
        let text = format!("policies: {{api: {{limit: 1 per 1s}}}}\ntokens: {tokens}");
        let errors = Config::of_text(&[], |_| None, Some(("t.yaml", &text))).unwrap_err();
        let text = errors.to_string();
        assert!(!text.contains("secret-") && text.contains("t.yaml:2: tokens"), "{text}");
        text
    };
    assert!(refused("secret-of-16-bytes:apj").contains("has a policy that does not exist"));
    assert!(refused("\"secret-of-16-bytes:\"").contains("no policy behind it"));
    assert!(refused("secret-short").contains("can be guessed"));
    assert!(refused("[{token: secret-of-16-bytes, policies: api}]").contains("a list of names"));
    assert!(refused("[{token: secret-of-16-bytes, policies: []}]").contains("a list of names"));
    assert!(refused("[{policies: [api]}]").contains("tokens[0].token: is missing"));
    assert!(refused("[\"secret-of,16-bytes\"]").contains("without commas and colons"));
    assert!(
        refused("[{token: secret-of-16-bytes, policy: [api]}]")
            .contains("accepted: token, policies")
    );
    assert!(refused("[[secret-of-16-bytes]]").contains("tokens[0]: is a list"));
    let of_flag = [(Setting::Tokens, "secret-of-16-bytes:nothing".to_owned())];
    let errors = Config::of_text(&of_flag, |_| None, None).unwrap_err().to_string();
    assert!(errors.contains("--tokens") && !errors.contains("secret-"), "{errors}");
    let twice = "token-of-a-caller:default,token-of-a-caller".to_owned();
    let errors = Config::of_text(&[(Setting::Tokens, twice)], |_| None, None).unwrap_err();
    assert!(errors.to_string().contains("twice"), "{errors}");
}
