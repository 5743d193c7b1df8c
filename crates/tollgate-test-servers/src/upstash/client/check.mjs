// What the published client of Upstash says about a server: any surprise ends this with an error.
import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { createRequire } from "node:module";
import { join } from "node:path";

const [packages, url, token] = process.argv.slice(2);
const { Redis } = createRequire(join(packages, "package.json"))("@upstash/redis");
const options = { url, token, enableTelemetry: false, retry: false };
const redis = new Redis(options);

// Plain commands, strings that are no ASCII, numbers, nothing.
assert.equal(await redis.set("client:text", "grüße → 1"), "OK");
assert.equal(await redis.get("client:text"), "grüße → 1");
assert.equal(await redis.incrby("client:number", 41), 41);
assert.equal(await redis.incr("client:number"), 42);
assert.equal(await redis.get("client:nothing"), null);

// Scripts: by text, by digest, and by a digest that the server does not know.
const script = "return {KEYS[1], ARGV[1], 7, false}";
const digest = createHash("sha1").update(script).digest("hex");
await assert.rejects(redis.evalsha(digest, ["k"], ["a"]), /NOSCRIPT/);
assert.deepEqual(await redis.eval(script, ["k"], ["a"]), ["k", "a", 7, null]);
assert.deepEqual(await redis.evalsha(digest, ["k"], ["a"]), ["k", "a", 7, null]);
await assert.rejects(redis.eval("return redis.error_reply('MINE it is')", [], []), /MINE it is/);

// Several commands: in order, an error in its place.
const pipeline = redis.pipeline();
pipeline.set("client:p", 1);
pipeline.incr("client:p");
pipeline.get("client:p");
assert.deepEqual(await pipeline.exec(), ["OK", 2, 2]);
const mixed = redis.pipeline();
mixed.set("client:word", "word");
mixed.incr("client:word");
mixed.get("client:word");
const results = await mixed.exec({ keepErrors: true });
assert.equal(results[0].result, "OK");
assert.match(results[1].error, /not an integer/);
assert.equal(results[2].result, "word");

// A transaction: all of it, or a single error.
const multi = redis.multi();
multi.set("client:m", 10);
multi.decr("client:m");
assert.deepEqual(await multi.exec(), ["OK", 9]);
const wrong = redis.multi();
wrong.set("client:m", 1);
wrong.del();
await assert.rejects(wrong.exec(), /EXECABORT/);
assert.equal(await redis.get("client:m"), 9);

// What is asked at the same moment goes out together.
const together = new Redis({ ...options, enableAutoPipelining: true });
const counts = await Promise.all(Array.from({ length: 20 }, () => together.incr("client:auto")));
assert.deepEqual(counts, Array.from({ length: 20 }, (_, at) => at + 1));

// One command per request, without base64.
const single = new Redis({ ...options, enableAutoPipelining: false, responseEncoding: false });
assert.equal(await single.get("client:text"), "grüße → 1");
await assert.rejects(single.incr("client:text"), /not an integer/);

// A token that is not the server's.
for (const enableAutoPipelining of [true, false]) {
  const stranger = new Redis({ ...options, token: "guess", enableAutoPipelining });
  await assert.rejects(stranger.get("client:text"), /WRONGPASS/);
  const several = stranger.multi();
  several.get("client:text");
  await assert.rejects(several.exec(), /WRONGPASS/);
}
console.log("all held");
