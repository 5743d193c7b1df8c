// Serves a Worker: `node serve.cjs OPTIONS`. It runs until it is killed.

const { Log, LogLevel, Miniflare } = require("miniflare");
const { readFileSync } = require("node:fs");

const options = JSON.parse(readFileSync(process.argv[2], "utf8"));
const miniflare = new Miniflare({
  ...options,
  log: new Log(LogLevel.WARN),
  handleRuntimeStdio(stdout, stderr) {
    stdout.pipe(process.stdout);
    stderr.pipe(process.stderr);
  },
});
miniflare.ready.catch((error) => {
  console.error(error);
  process.exit(1);
});
