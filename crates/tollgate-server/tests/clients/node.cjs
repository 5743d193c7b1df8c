// Tests a server with ioredis and grpc-js; ends with an error if one fails.
// Arguments: the ports of RESP and gRPC, the limit of the policy `p`, whose units come back within a day, and
// the files with the protocol buffers: our own, and those of the earlier service.
const assert = require("node:assert/strict");
const { randomUUID } = require("node:crypto");
const fs = require("node:fs");
const os = require("node:os");
const path = require("node:path");
const grpc = require("@grpc/grpc-js");
const loader = require("@grpc/proto-loader");
const Redis = require("ioredis");

const [resp, port, limit] = process.argv.slice(2, 5).map(Number);
const [proto, reference] = process.argv.slice(5, 7);
const calls = 3 * limit;

async function exactly(what, call, allowed) {
  const replies = await Promise.all(Array.from({ length: calls }, call));
  assert.equal(replies.filter(allowed).length, limit, what);
}

// ioredis speaks version 3, and hands a map out as a list: name, value, name, value.
const named = (list) =>
  Object.fromEntries(list.flatMap((name, at) => (at % 2 ? [] : [[name, list[at + 1]]])));

async function overResp() {
  // Several connections, each of which pipelines by itself.
  const clients = Array.from({ length: 8 }, () => new Redis(resp));
  const decided = await clients[0].call("CL.THROTTLE", "ioredis", 15, 30, 60);
  assert.deepEqual(decided.slice(0, 4), [0, 16, 15, -1]);
  const acquire = (_, index) => clients[(index ?? 0) % 8].call("TG.ACQUIRE", "p", "ioredis");
  const isAllowed = (reply) => named(reply).allowed === 1;
  await exactly("ioredis", acquire, isAllowed);
  const denied = named(await acquire());
  assert.ok(denied.allowed === 0 && denied.limit === limit && denied.remaining === 0, denied);
  assert.ok(denied.retry_after_ms > 0, denied);
  await assert.rejects(clients[0].call("TG.ACQUIRE", "unknown", "k"), /unknown_policy/);
  // Two keys: the one that denies leaves the other uncharged.
  const both = ["TG.ACQUIREALL", 2, "p", "js-user", 1, "wide", "js-user", 1];
  const all = (_, index) => clients[(index ?? 0) % 8].call(...both);
  await exactly("two keys over RESP", all, isAllowed);
  const wide = named(await clients[0].call("TG.PEEK", "wide", "js-user"));
  assert.equal(wide.remaining, 1000 - limit);
  const range = named(await clients[0].call("TG.ACQUIRE", "wide", "js-user", "1..5000"));
  assert.equal(range.granted, 1000 - limit);
  // A final cost above the limit, once.
  const charged = named(await clients[0].call("TG.ACQUIRE", "p", "js-settled", 5, "RECEIPT"));
  for (const replayed of [0, 1]) {
    const settle = ["TG.SETTLE", charged.receipt, "p", limit + 4];
    const settled = named(await clients[0].call(...settle));
    assert.deepEqual([settled.charged, settled.remaining], [limit - 1, 0]);
    assert.equal(Number(settled.replayed), replayed);
    assert.equal(named(settled.limits[0]).charged, limit - 1);
  }
  // As ioredis sends transactions: MULTI, the commands and EXEC in one pipeline.
  const multi = clients[0].multi();
  for (let call = 0; call < calls; call++) multi.call("TG.ACQUIRE", "p", "js-multi");
  const replies = (await multi.exec()).map(([error, reply]) => assert.ifError(error) ?? reply);
  assert.equal(replies.filter(isAllowed).length, limit, "a transaction");
  const two = clients[0].multi().call("TG.PEEK", "p", "k").call("TG.PEEK", "x", "k");
  const failed = await two.exec();
  assert.ok(failed[0][0] === null && /unknown_policy/.test(failed[1][0].message));
  clients.forEach((client) => client.disconnect());
}

// The earlier service, by the names that it may have.
async function overReference() {
  const text = fs.readFileSync(reference, "utf8");
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), "reference-"));
  for (const name of ["", "ratelimit", "ratelimit.v1"]) {
    const file = path.join(folder, `named-${name}.proto`);
    fs.writeFileSync(file, name ? text.replace("import", `package ${name};\n\nimport`) : text);
    const options = { longs: Number, enums: String, defaults: true };
    const loaded = grpc.loadPackageDefinition(loader.loadSync(file, options));
    const within = name.split(".").filter(Boolean).reduce((at, part) => at[part], loaded);
    const client = new within.RateLimiter(
      `127.0.0.1:${port}`,
      grpc.credentials.createInsecure(),
    );
    const acquire = (cost, requestId = randomUUID()) =>
      new Promise((resolve, reject) =>
        client.acquire({ requestId, logicalKey: `reference-${name}`, cost }, (error, reply) =>
          error ? reject(error) : resolve(reply),
        ),
      );
    await exactly(`reference ${name}`, () => acquire(1), (reply) => reply.verdict === "ALLOWED");
    const denied = await acquire(1);
    assert.ok(denied.verdict === "DENIED" && denied.remaining === 0);
    assert.ok(Number(denied.retryAfter.seconds) > 0);
    await assert.rejects(acquire(0), { code: grpc.status.INVALID_ARGUMENT });
    await assert.rejects(acquire(1, "no-uuid"), { code: grpc.status.INVALID_ARGUMENT });
    client.close();
  }
  fs.rmSync(folder, { recursive: true });
}

async function overGrpc() {
  const options = { keepCase: true, longs: Number, enums: String, defaults: true };
  const loaded = grpc.loadPackageDefinition(loader.loadSync(proto, options));
  const client = new loaded.tollgate.v1.RateLimiter(
    `127.0.0.1:${port}`,
    grpc.credentials.createInsecure(),
  );
  const call = (method) => (request) =>
    new Promise((resolve, reject) =>
      client[method](request, (error, reply) => (error ? reject(error) : resolve(reply))),
    );
  const [acquire, settle] = [call("Acquire"), call("Settle")];
  const request = { policy: "p", key: "grpc-js" };
  await exactly("grpc-js", () => acquire(request), (reply) => reply.allowed);
  const denied = await acquire(request);
  assert.equal(denied.verdict, "VERDICT_DENIED");
  assert.ok(denied.remaining === 0 && denied.limit === limit && denied.retry_after_ms > 0);
  const charges = [{ policy: "p", key: "two" }, { policy: "wide", key: "two" }];
  await exactly("two keys over gRPC", () => acquire({ charges }), (reply) => reply.allowed);
  const range = await acquire({ policy: "wide", key: "two", max_cost: 5000 });
  assert.equal(range.granted, 1000 - limit, "the other key was charged for what was allowed");
  const { receipt } = await acquire({ policy: "p", key: "js-final", cost: 5, receipt: true });
  const settled = await settle({ receipt, costs: { "p/p": 2 } });
  assert.deepEqual([settled.refunded, settled.remaining], [3, limit - 2]);
  assert.ok((await settle({ receipt, cost: 2 })).replayed);
  await assert.rejects(settle({ receipt, cost: 3 }), { code: grpc.status.ALREADY_EXISTS });
  const once = { policy: "p", key: "js-once", cost: 3, request_id: "a" };
  assert.equal((await acquire(once)).remaining, limit - 3);
  assert.equal((await acquire(once)).remaining, limit - 3);
  const { ALREADY_EXISTS, NOT_FOUND } = grpc.status;
  await assert.rejects(acquire({ ...once, cost: 4 }), { code: ALREADY_EXISTS });
  await assert.rejects(acquire({ policy: "unknown", key: "k" }), { code: NOT_FOUND });
  client.close();
}

overResp()
  .then(overGrpc)
  .then(overReference)
  .then(() => console.log(`ioredis, grpc-js: ${limit} of ${calls}`));
