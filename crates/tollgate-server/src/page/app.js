// The page for operators: follows the status of the server and draws it.

import { Problem, follow, hasToken, setToken } from "./client.js";
import { byId, setText, span } from "./dom.js";
import { showInForce } from "./force.js";
import { settled } from "./plot.js";
import { Search } from "./search.js";
import { Views } from "./views.js";

const HOUR = 3_600_000;
/** Over how many seconds the present rates are taken. */
const RATES_OVER = 5;

const views = new Views();
new Search();
const samples = new Map();
let statuses = [];
let newest = null;

/** Takes a status in: the first has the whole history, the others the newest samples. */
function receive(status) {
  // A server that was started again counts from zero.
  if (newest && newest.started_ms !== status.started_ms) {
    samples.clear();
    statuses = [];
  }
  const has_changed = JSON.stringify(newest?.changes) !== JSON.stringify(status.changes);
  newest = status;
  for (const sample of status.samples) samples.set(sample.at_ms, sample);
  for (const at_ms of samples.keys()) if (at_ms < status.now_ms - HOUR) samples.delete(at_ms);
  statuses = [...statuses, status].slice(-RATES_OVER - 1);
  show("main");
  views.show(status, settled([...samples.values()]), rates(statuses[0], status));
  if (has_changed) showInForce();
}

/** What happens per second, by the totals of two statuses. */
function rates(before, now) {
  const seconds = Math.max((now.now_ms - before.now_ms) / 1000, 1);
  const earlier = new Map(before.policies.map((one) => [one.policy, one]));
  const all = { allowed: 0, denied: 0, degraded: 0, errors: 0 };
  const policies = new Map(now.policies.map((one) => {
    const rate = {};
    for (const name of Object.keys(all)) {
      rate[name] = (one[name] - (earlier.get(one.policy)?.[name] ?? 0)) / seconds;
      all[name] += rate[name];
    }
    return [one.policy, rate];
  }));
  return { all, policies };
}

/** Shows the status, or the form for a token. */
function show(part) {
  byId("main").hidden = part !== "main";
  byId("sign-in").hidden = part !== "sign-in";
}

function connection(state, text) {
  byId("connection").dataset.state = state;
  setText(byId("connection"), text);
}

/** Waits for a token. */
function signIn(problem) {
  connection("waiting", "");
  show("sign-in");
  setText(byId("token-problem"), problem);
  byId("token").focus();
  return new Promise((resolve) => {
    byId("token-form").addEventListener("submit", (event) => {
      event.preventDefault();
      setToken(byId("token").value.trim());
      byId("token").value = "";
      resolve();
    }, { once: true });
  });
}

const pause = (ms) => new Promise((resolve) => { setTimeout(resolve, ms); });

async function run() {
  for (;;) {
    try {
      await follow(receive, () => connection("live", "live"));
    } catch (problem) {
      if (problem instanceof Problem && [401, 403].includes(problem.status)) {
        const wrong = hasToken() || problem.status === 403;
        setToken("");
        await signIn(wrong ? `This token is not accepted: ${problem.message}` : "");
        continue;
      }
    }
    const ago = newest ? `, the figures are ${span(Date.now() - newest.now_ms)} old` : "";
    connection("lost", `no connection${ago}`);
    await pause(1000);
  }
}

document.addEventListener("keydown", (event) => {
  const typing = event.target.matches("input, select, textarea");
  if (event.key === "/" && !typing && !event.ctrlKey && !event.metaKey && !event.altKey) {
    event.preventDefault();
    byId("search").focus();
  } else if (event.key === "Escape" && event.target === byId("search")) {
    byId("search").value = "";
    byId("standing").replaceChildren();
    byId("search").blur();
  }
});

run();
