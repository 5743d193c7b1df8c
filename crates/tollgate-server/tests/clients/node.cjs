// Tests a server with ioredis and grpc-js; ends with an error if one fails.
// Arguments: the ports of RESP and gRPC, the limit of the policy `p`, whose units come back within a day, and
// the file with the protocol buffers.
const assert = require("node:assert/strict");
const grpc = require("@grpc/grpc-js");
const loader = require("@grpc/proto-loader");
const Redis = require("ioredis");

const [resp, port, limit] = process.argv.slice(2, 5).map(Number);
const proto = process.argv[5];
const calls = 3 * limit;

async function exactly(what, call, allowed) {
  const replies = await Promise.all(Array.from({ length: calls }, call));
  assert.equal(replies.filter(allowed).length, limit, what);
}

async function overResp() {
  // Several connections, each of which pipelines by itself.
  const clients = Array.from({ length: 8 }, () => new Redis(resp));
  const decided = await clients[0].call("CL.THROTTLE", "ioredis", 15, 30, 60);
  assert.deepEqual(decided.slice(0, 4), [0, 16, 15, -1]);
  const acquire = (_, index) => clients[(index ?? 0) % 8].call("TG.ACQUIRE", "p", "ioredis");
  await exactly("ioredis", acquire, (reply) => reply[0] === 1);
  const [allowed, ceiling, remaining, wait] = await acquire();
  assert.ok(allowed === 0 && ceiling === limit && remaining === 0 && wait > 0);
  await assert.rejects(clients[0].call("TG.ACQUIRE", "unknown", "k"), /unknown_policy/);
  clients.forEach((client) => client.disconnect());
}

async function overGrpc() {
  const options = { keepCase: true, longs: Number, enums: String, defaults: true };
  const loaded = grpc.loadPackageDefinition(loader.loadSync(proto, options));
  const client = new loaded.tollgate.v1.RateLimiter(
    `127.0.0.1:${port}`,
    grpc.credentials.createInsecure(),
  );
  const acquire = (request) =>
    new Promise((resolve, reject) =>
      client.Acquire(request, (error, reply) => (error ? reject(error) : resolve(reply))),
    );
  const request = { policy: "p", key: "grpc-js" };
  await exactly("grpc-js", () => acquire(request), (reply) => reply.allowed);
  const denied = await acquire(request);
  assert.equal(denied.verdict, "VERDICT_DENIED");
  assert.ok(denied.remaining === 0 && denied.limit === limit && denied.retry_after_ms > 0);
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
  .then(() => console.log(`ioredis, grpc-js: ${limit} of ${calls}`));
