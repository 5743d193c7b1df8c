// Draws a status: the headline, the figures, the tables and the lists.

import { Plots, drawSparkline, sparkline } from "./plot.js";
import {
  byId, bytes, count, drawing, element, latency, rate, setText, share, span, timeOf, update,
} from "./dom.js";

const HOUR = 3_600_000;
/** The shortest time that is plotted. */
const SHORTEST = 300_000;
const ALL = "all policies";

/** The counts of a sample under a policy, or under all of them. */
function counts(sample, policy) {
  const sum = { allowed: 0, denied: 0, degraded: 0, errors: 0 };
  for (const of of sample.policies) {
    if (policy !== ALL && of.policy !== policy) continue;
    for (const name of Object.keys(sum)) sum[name] += of[name];
  }
  return sum;
}

const perSecond = (number, { span_ms }) => (1000 * number) / Math.max(span_ms, 1000);

/** Draws what the server sends. */
export class Views {
  constructor() {
    this.policy = ALL;
    const of = (name) => (sample) => perSecond(counts(sample, this.policy)[name], sample);
    this.plots = new Plots(byId("plots"), [
      { title: "Denied", format: (it) => `${rate(it)}/s`,
        lines: [{ name: "", kind: "denied", fills: true, of: of("denied") }] },
      { title: "Allowed", format: (it) => `${rate(it)}/s`,
        lines: [{ name: "", kind: "allowed", fills: true, of: of("allowed") }] },
      { title: "Not as usual", format: (it) => `${rate(it)}/s`, lines: [
        { name: "without the store", kind: "degraded", of: of("degraded") },
        { name: "errors", kind: "errors", of: of("errors") }] },
      { title: "Latency", format: (us) => latency(Math.round(us)), least: 100, lines: [
        { name: "median", kind: "p50", of: (sample) => sample.requests_us.p50 },
        { name: "99th", kind: "p99", of: (sample) => sample.requests_us.p99 }] },
    ]);
    this.select = byId("policy");
    this.select.addEventListener("change", () => this.choose(this.select.value));
  }

  /** Shows one policy, or all. */
  choose(policy) {
    this.policy = policy;
    this.select.value = policy;
    if (this.status) this.draw();
  }

  /** Draws a status with the samples of the last hour; `rates` has what happens per second now. */
  show(status, samples, rates) {
    Object.assign(this, { status, samples, rates });
    this.draw();
  }

  draw() {
    const { status } = this;
    this.shown = status.policies.filter((one) => this.policy === ALL || one.policy === this.policy);
    setText(byId("about"), `${status.version} · up ${span(status.now_ms - status.started_ms)}`);
    this.drawHeadline();
    this.drawFigures();
    this.drawChoice();
    const from = Math.max(status.now_ms - HOUR, Math.min(status.started_ms, status.now_ms - SHORTEST));
    this.plots.draw(this.samples.filter(({ at_ms }) => at_ms >= from - 1000), from, status.now_ms,
      status.changes.map(({ at_ms }) => at_ms));
    this.drawPolicies();
    this.drawTop("throttled", "denials");
    this.drawTop("spenders", "units");
    this.drawDenials();
    this.drawChanges();
    this.drawStore();
  }

  drawHeadline() {
    const { store } = this.status;
    const { denied, degraded, errors } = this.rates.all;
    const worst = [...this.rates.policies].sort(([, a], [, b]) => b.denied - a.denied)[0];
    const [state, text] = store.problem
      ? ["bad", "The store does not answer."]
      : degraded ? ["bad", `${rate(degraded)} decisions per second are made without the store.`]
      : errors ? ["warn", `${rate(errors)} requests per second get no decision.`]
      : denied ? ["busy", `${rate(denied)} denials per second, most under ${worst[0]}.`]
      : ["good", "Nothing is denied now."];
    byId("verdict").dataset.state = state;
    setText(byId("headline"), text);
    setText(byId("reason"), store.problem ?? "");
    byId("reason").hidden = !store.problem;
    document.title = ({ bad: "✕ ", warn: "! " }[state] ?? "") + "Tollgate";
  }

  drawFigures() {
    const { status, samples, rates } = this;
    const { allowed, denied, degraded, errors } = rates.all;
    const newest = samples.findLast(({ requests_us }) => requests_us.p99 !== null);
    const keys = status.policies.flatMap(({ memory }) => memory?.keys ?? []);
    const sum = (numbers) => numbers.reduce((a, b) => a + b, 0);
    const figures = [
      ["Decisions", `${rate(allowed + denied)}/s`, ""],
      ["Denied", `${rate(denied)}/s`, share(denied, allowed + denied)],
      ["Without store", `${rate(degraded)}/s`, ""],
      ["Errors", `${rate(errors)}/s`, ""],
      ["Latency", latency(newest?.requests_us.p50), `99th ${latency(newest?.requests_us.p99)}`],
      ["Memory", bytes(status.resident_bytes), keys.length ? `${count(sum(keys))} live keys` : ""],
    ];
    update(byId("figures"), figures, ([name]) => name, ([name]) => element("div", {},
      element("dt", {}, name), element("dd"), element("dd", { class: "quiet" })),
    (shown, [, value, note]) => {
      setText(shown.children[1], value);
      setText(shown.children[2], note);
    });
  }

  drawChoice() {
    const names = [ALL, ...this.status.policies.map(({ policy }) => policy)];
    update(this.select, names, (name) => name, (name) => element("option", { value: name }, name),
      () => {});
    if (!names.includes(this.policy)) this.policy = ALL;
    this.select.value = this.policy;
  }

  drawPolicies() {
    const hour = (policy) => this.samples.map((sample) => {
      return perSecond(counts(sample, policy).denied, sample);
    });
    update(byId("policies").tBodies[0], this.status.policies, ({ policy }) => policy,
      ({ policy }) => {
        const choose = element("button", { type: "button", class: "link" }, policy);
        choose.addEventListener("click", () => {
          this.choose(this.policy === policy ? ALL : policy);
        });
        const number = () => element("td", { class: "number" });
        const wide = () => element("td", { class: "number wide" });
        return element("tr", {},
          element("th", { scope: "row" }, choose, element("small", { class: "by" })),
          element("td", { class: "sparks" }, sparkline()), number(), wide(), number(), wide(),
          wide(), wide());
      },
      (row, { policy, memory, denied_by }) => {
        const now = this.rates.policies.get(policy);
        const { allowed, denied, degraded, errors } = now;
        const cells = row.children;
        cells[0].firstChild.setAttribute("aria-pressed", String(this.policy === policy));
        setText(cells[0].lastChild, deniedBy(policy, denied_by));
        drawSparkline(cells[1].firstChild, hour(policy));
        const texts = [rate(denied), share(denied, allowed + denied), rate(allowed),
          rate(degraded), rate(errors), memory ? count(memory.keys) : "–"];
        texts.forEach((text, index) => setText(cells[2 + index], text));
        cells[2].classList.toggle("denied", denied > 0);
        cells[5].classList.toggle("degraded", degraded > 0);
        cells[6].classList.toggle("errors", errors > 0);
      });
  }

  /** The largest totals of the policies that are shown. */
  drawTop(field, unit) {
    const list = byId(field);
    const all = this.shown.flatMap(({ policy, [field]: top }) =>
      top.keys.map((key) => ({ ...key, policy })));
    all.sort((a, b) => b.count - a.count);
    const top = all.slice(0, 10);
    const sampled = Math.max(1, ...this.shown.map(({ [field]: of }) => of.sampled_one_in));
    const hashed = this.status.keys_are_hashed ? " Keys are hashed." : "";
    const about = sampled > 1 ? ` One in ${sampled} is counted.` : "";
    setText(list.previousElementSibling,
      `By ${unit} of the last 5 to 10 minutes.${about}${hashed}`);
    const most = Math.max(1, ...top.map((key) => key.count));
    update(list, top, ({ policy, key }) => `${policy} ${key}`, ({ policy, key }) => {
      const bar = drawing("svg", { class: "bar", viewBox: "0 0 100 1", "aria-hidden": "true",
        preserveAspectRatio: "none" }, drawing("rect", { height: 1 }));
      return element("li", {}, element("code", {}, key), element("span", { class: "quiet" }, policy),
        element("b"), bar);
    }, (shown, key) => {
      const exact = key.error === 0 && sampled === 1;
      setText(shown.children[2], `${exact ? "" : "≈ "}${count(key.count)}`);
      shown.children[2].title = exact ? "exact" : `at most ${count(key.error)} too high`;
      shown.querySelector("rect").setAttribute("width", (100 * key.count) / most);
    });
    showEmpty(list, top.length, "None.");
  }

  drawDenials() {
    const all = this.shown.flatMap(({ policy, denials }) =>
      denials.map((denial) => ({ ...denial, policy })));
    all.sort((a, b) => b.at_ms - a.at_ms);
    const idOf = ({ at_ms, policy, key, limit }) => `${at_ms} ${policy} ${limit} ${key}`;
    const body = byId("denials").tBodies[0];
    update(body, all.slice(0, 12), idOf, (denial) => element("tr", {},
      element("td", { class: "when" }, timeOf(denial.at_ms)),
      element("td", { class: "of" }, denial.policy),
      element("td", { class: "by" }, denial.limit ?? "of the request"),
      element("td", { class: "key" }, element("code", {}, denial.key)),
      element("td", { class: "number" }), element("td", { class: "number" }),
      element("td", { class: "number" })),
    (row, { cost, retry_after_ms, times }) => {
      const wait = retry_after_ms === null ? "useless" : span(retry_after_ms);
      [count(cost), wait, count(times)].forEach((text, at) => setText(row.children[4 + at], text));
    });
    showEmpty(byId("denials"), all.length, "None since the server started.");
  }

  drawChanges() {
    const started = { at_ms: this.status.started_ms, text: "The server was started." };
    const all = [...this.status.changes, started].slice(0, 12);
    update(byId("changes"), all, ({ at_ms, text }) => `${at_ms} ${text}`, ({ at_ms, text }) =>
      element("li", {}, element("time", { datetime: new Date(at_ms).toISOString() }), ` ${text}`),
    (shown, { at_ms }) => {
      const ago = this.status.now_ms - at_ms;
      setText(shown.firstChild, ago < 60_000 ? "now" : `${span(ago - (ago % 60_000))} ago`);
      shown.firstChild.title = new Date(at_ms).toLocaleString();
    });
  }

  drawStore() {
    const { store } = this.status;
    const newest = this.samples.findLast(({ calls_us }) => calls_us.p99 !== null);
    const facts = [["Kind", store.in_process ? `${store.kind}, in this process` : store.kind],
      ["Answers", store.problem ? "no" : "yes"]];
    if (!store.in_process) {
      facts.push(["Latency", `${latency(newest?.calls_us.p50)}, 99th ${latency(newest?.calls_us.p99)}`],
        ["Calls", `${count(store.calls)} in ${count(store.round_trips)} round trips`],
        ["Failed", count(store.calls_failed)],
        ["Breaker", `${count(store.breaker_rejections)} calls rejected`]);
    }
    const full = this.status.policies.filter(({ memory }) => memory && memory.keys >= memory.max_keys);
    if (full.length) facts.push(["Full tables", full.map(({ policy }) => policy).join(", ")]);
    update(byId("store"), facts, ([name]) => name, ([name]) =>
      element("div", {}, element("dt", {}, name), element("dd")),
    (shown, [, text]) => setText(shown.lastChild, text));
  }
}

/** Which limits denied in the last minutes, and their shares where there are several. */
function deniedBy(policy, limits) {
  if (limits.length === 1 && limits[0].limit === policy) return "";
  const all = limits.reduce((sum, { denied }) => sum + denied, 0);
  const shares = limits.map(({ limit, denied }) => {
    return limits.length > 1 ? `${limit} ${share(denied, all)}` : limit;
  });
  return shares.length ? `by ${shares.join(", ")}` : "";
}

/** Says that a list is empty, below it. */
function showEmpty(list, length, text) {
  let note = list.nextElementSibling;
  if (!note?.classList.contains("empty")) {
    note = element("p", { class: "quiet empty" }, text);
    list.after(note);
  }
  note.hidden = length > 0;
}
