"""Tests a server with redis-py and grpcio; ends with an error if one fails.

Arguments: the ports of RESP and gRPC, and the limit of the policy `p`, whose units come back within a day.
"""

import sys
from concurrent.futures import ThreadPoolExecutor

import grpc
import redis
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import (
    ProtoReflectionDescriptorDatabase,
)

RESP, GRPC, LIMIT = (int(word) for word in sys.argv[1:])
CALLS = 3 * LIMIT


def exactly(what, replies, allowed):
    admitted = sum(1 for reply in replies if allowed(reply))
    assert (len(replies), admitted) == (CALLS, LIMIT), f"{what}: {admitted} of {LIMIT}"


def over_resp(version):
    client = redis.Redis(port=RESP, protocol=version, decode_responses=True)
    assert client.ping()
    # As redis-cell answers: not limited, limit, remaining, no wait, seconds until full.
    key = f"cell-{version}"
    *decided, full_after = client.execute_command("CL.THROTTLE", key, 15, 30, 60)
    assert decided == [0, 16, 15, -1] and full_after in (1, 2), (decided, full_after)
    # A list of values in version 2, a map in version 3.
    names = ["allowed", "limit", "remaining", "retry_after_ms", "reset_at_ms"]
    by_name = lambda reply: reply if isinstance(reply, dict) else dict(zip(names, reply))
    acquire = lambda key: by_name(client.execute_command("TG.ACQUIRE", "p", key))
    with ThreadPoolExecutor(16) as pool:
        replies = list(pool.map(acquire, [f"redis-py-{version}"] * CALLS))
    exactly(f"redis-py, version {version}", replies, lambda reply: reply["allowed"] == 1)
    denied = acquire(f"redis-py-{version}")
    assert isinstance(denied, dict) and not denied["allowed"] and denied["remaining"] == 0, denied
    assert denied["limit"] == LIMIT and denied["retry_after_ms"] > 0 < denied["reset_at_ms"]
    assert (version == 2) == ("limits" not in denied), denied
    # The default is a transaction: MULTI, the commands, EXEC.
    for kind in ({}, {"transaction": False}):
        pipeline, key = client.pipeline(**kind), f"pipeline-{version}-{len(kind)}"
        for _ in range(CALLS):
            pipeline.execute_command("TG.ACQUIRE", "p", key)
        replies = [by_name(reply) for reply in pipeline.execute()]
        exactly("a pipeline", replies, lambda reply: reply["allowed"])
    with client.pipeline() as pipeline:
        pipeline.execute_command("TG.PEEK", "p", "k")
        pipeline.execute_command("TG.PEEK", "unknown", "k")
        fine, error = pipeline.execute(raise_on_error=False)
        assert fine and isinstance(error, redis.ResponseError) and "unknown_policy" in str(error)
    # Two keys: the one that denies leaves the other uncharged.
    both = ["TG.ACQUIREALL", 2, "p", f"both-{version}", 1, "wide", f"both-{version}", 1]
    with ThreadPoolExecutor(16) as pool:
        replies = list(pool.map(lambda _: by_name(client.execute_command(*both)), range(CALLS)))
    exactly("two keys", replies, lambda reply: reply["allowed"])
    peeked = by_name(client.execute_command("TG.PEEK", "wide", f"both-{version}"))
    assert peeked["remaining"] == 1000 - LIMIT, peeked
    # A final cost, once: less, and more than there is.
    names = ["refunded", "charged", "dropped", "limit", "remaining", "reset_at_ms", "replayed"]
    for cost, expected in [(2, (3, 0, LIMIT - 2)), (LIMIT + 4, (0, LIMIT - 1, 0))]:
        key = f"settled-{version}-{cost}"
        charged = client.execute_command("TG.ACQUIRE", "p", key, 5, "RECEIPT")
        receipt = charged["receipt"] if isinstance(charged, dict) else charged[6]
        for replayed in (0, 1):
            settled = client.execute_command("TG.SETTLE", receipt, cost)
            settled = settled if isinstance(settled, dict) else dict(zip(names, settled))
            found = settled["refunded"], settled["charged"], settled["remaining"]
            assert (found, settled["replayed"]) == (expected, replayed), settled
    shaped = ["TG.ACQUIRE", "shaped", f"shaped-{version}"]
    if version == 2:
        try:
            client.execute_command(*shaped)
            raise AssertionError("a delay without a place")
        except redis.ResponseError as error:
            assert "unsupported" in str(error), error
        assert [client.execute_command(*shaped, "FULL")[7] > 0 for _ in range(2)] == [False, True]
    else:
        assert [client.execute_command(*shaped)["delay_ms"] > 0 for _ in range(2)] == [False, True]
    try:
        client.execute_command("TG.ACQUIRE", "unknown", "k")
        raise AssertionError("no error for an unknown policy")
    except redis.ResponseError as error:
        assert "unknown_policy" in str(error), error


def over_grpc():
    channel = grpc.insecure_channel(f"127.0.0.1:{GRPC}")
    # No file and no generated code: reflection describes the service.
    service = DescriptorPool(ProtoReflectionDescriptorDatabase(channel)).FindServiceByName(
        "tollgate.v1.RateLimiter"
    )
    def call(name):
        method = service.methods_by_name[name]
        request = GetMessageClass(method.input_type)
        send = channel.unary_unary(
            f"/tollgate.v1.RateLimiter/{name}",
            request_serializer=request.SerializeToString,
            response_deserializer=GetMessageClass(method.output_type).FromString,
        )
        return request, send

    request, acquire = call("Acquire")
    message = request(policy="p", key="grpcio")
    with ThreadPoolExecutor(16) as pool:
        replies = list(pool.map(acquire, [message] * CALLS))
    exactly("grpcio", replies, lambda reply: reply.allowed)
    denied = acquire(message)
    assert (denied.limit, denied.remaining) == (LIMIT, 0) and denied.retry_after_ms > 0
    both = request(charges=[dict(policy="p", key="two"), dict(policy="wide", key="two")])
    with ThreadPoolExecutor(16) as pool:
        exactly("two keys", list(pool.map(acquire, [both] * CALLS)), lambda reply: reply.allowed)
    rest = acquire(request(policy="wide", key="two", cost=2, max_cost=5000))
    assert rest.granted == 1000 - LIMIT, rest
    final, settle = call("Settle")
    charged = acquire(request(policy="p", key="settled", cost=5, receipt=True))
    settled = settle(final(receipt=charged.receipt, costs={"p": LIMIT + 4}))
    assert (settled.charged, settled.remaining, settled.limits[0].name) == (LIMIT - 1, 0, "p")
    assert settle(final(receipt=charged.receipt, cost=LIMIT + 4)).replayed
    once = request(policy="p", key="once", cost=3, request_id="a")
    assert [acquire(once).remaining for _ in range(2)] == [LIMIT - 3] * 2
    for wrong, code in [
        (request(policy="p", key="once", cost=4, request_id="a"), grpc.StatusCode.ALREADY_EXISTS),
        (request(policy="unknown", key="k"), grpc.StatusCode.NOT_FOUND),
        (request(key=""), grpc.StatusCode.INVALID_ARGUMENT),
    ]:
        try:
            acquire(wrong)
            raise AssertionError(f"no error for {wrong}")
        except grpc.RpcError as error:
            assert error.code() == code, error


over_resp(2)
over_resp(3)
over_grpc()
print(f"redis-py {redis.__version__}, grpcio {grpc.__version__}: {LIMIT} of {CALLS}")
