//! DynamoDB's emulators, and the gateway in front of one.

use std::io::{Read, Write};
use std::net::TcpStream;

use serde_json::{Value, json};
use tollgate_test_servers::shared::dynamodb;
use tollgate_test_servers::{DynamoDb, DynamoDbGateway, Refusal};

fn with_table(name: &str) -> DynamoDb {
    let server = DynamoDb::start().unwrap();
    let body = json!({
        "TableName": name,
        "AttributeDefinitions": [{"AttributeName": "key", "AttributeType": "S"}],
        "KeySchema": [{"AttributeName": "key", "KeyType": "HASH"}],
        "BillingMode": "PAY_PER_REQUEST",
    });
    server.call("CreateTable", &body).unwrap();
    server
}

/// One request over a connection of its own; status and body.
fn call(gateway: &DynamoDbGateway, operation: &str, body: &Value) -> (u16, String) {
    let mut stream = TcpStream::connect(gateway.addr()).unwrap();
    let body = body.to_string();
    let head = format!(
        "POST / HTTP/1.1\r\nhost: x\r\nx-amz-target: DynamoDB_20120810.{operation}\r\n\
         content-type: application/x-amz-json-1.0\r\ncontent-length: {}\r\n\
         authorization: AWS4-HMAC-SHA256 Credential=a/b/c/d/aws4_request, SignedHeaders=host, \
         Signature=e\r\nx-amz-date: 20260101T000000Z\r\n\r\n",
        body.len()
    );
    stream.write_all(format!("{head}{body}").as_bytes()).unwrap();
    stream.shutdown(std::net::Shutdown::Write).unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    let status = text.split(' ').nth(1).unwrap().parse().unwrap();
    (status, text.split_once("\r\n\r\n").unwrap().1.to_owned())
}

fn put(key: &str) -> Value {
    json!({
        "TableName": "limits",
        "Item": {"key": {"S": key}},
        "ConditionExpression": "attribute_not_exists(#k)",
        "ExpressionAttributeNames": {"#k": "key"},
    })
}

fn is_there(server: &DynamoDb, key: &str) -> bool {
    let get = json!({"TableName": "limits", "Key": {"key": {"S": key}}, "ConsistentRead": true});
    server.call("GetItem", &get).unwrap().get("Item").is_some()
}

#[test]
fn the_gateway_counts_requests_and_their_cost() {
    let server = with_table("limits");
    let gateway = DynamoDbGateway::to(server.addr()).unwrap();
    assert_eq!(call(&gateway, "PutItem", &put("a")).0, 200);
    let (status, body) = call(&gateway, "PutItem", &put("a"));
    assert!(status == 400 && body.contains("ConditionalCheckFailed"), "{body}");
    let get = json!({"TableName": "limits", "Key": {"key": {"S": "a"}}, "ConsistentRead": true});
    assert_eq!(call(&gateway, "GetItem", &get).0, 200);
    let tally = gateway.take_tally();
    assert_eq!((tally.reads(), tally.writes(), tally.lost_races), (1, 2, 1), "{tally:?}");
    assert!((tally.read_units - 1.0).abs() < 0.01, "{tally:?}");
    assert!((tally.write_units - 1.0).abs() < 0.01, "{tally:?}");
    assert_eq!(gateway.take_tally().writes(), 0);
}

#[test]
fn the_gateway_refuses_before_and_after_execution() {
    let server = with_table("limits");
    let gateway = DynamoDbGateway::to(server.addr()).unwrap();
    gateway.refuse("PutItem", Refusal::new(400, "ThrottlingException"));
    gateway.refuse("PutItem", Refusal::new(500, "InternalServerError").after_the_fact());
    let (status, body) = call(&gateway, "PutItem", &put("a"));
    assert!(status == 400 && body.contains("#ThrottlingException"), "{body}");
    assert!(!is_there(&server, "a"));
    let (status, body) = call(&gateway, "PutItem", &put("a"));
    assert!(status == 500 && body.contains("#InternalServerError"), "{body}");
    assert!(is_there(&server, "a"));
    assert_eq!(call(&gateway, "PutItem", &put("b")).0, 200);
}

#[test]
fn addresses_are_as_the_store_takes_them() {
    let url = dynamodb().url("limits");
    let port = dynamodb().port();
    let endpoint = format!("http%3A%2F%2F127.0.0.1%3A{port}");
    assert_eq!(url, format!("dynamodb://limits?region=us-east-1&endpoint={endpoint}"));
}
