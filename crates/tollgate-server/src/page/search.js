// How a key stands, a charge that is tried without being made, and a reset for administrators.

import { post } from "./client.js";
import { byId, count, drawing, element, span, timeOf } from "./dom.js";

/** Answers the search. */
export class Search {
  constructor() {
    this.result = byId("standing");
    byId("search-form").addEventListener("submit", (event) => {
      event.preventDefault();
      this.look();
    });
  }

  async look() {
    const key = byId("search").value;
    const cost = Number(byId("cost").value);
    try {
      const { now_ms, policies } = await post("v1/inspect", { key });
      const tries = policies.map(({ policy }) => attempt(policy, key, cost));
      const tried = await Promise.all(tries);
      const cards = policies.map((standing, index) => ({ standing, tried: tried[index] }));
      cards.sort((a, b) => (a.tried.kind === "allowed") - (b.tried.kind === "allowed"));
      this.result.replaceChildren(...cards.map(({ standing, tried }) =>
        this.card(standing, { key, cost, now_ms, tried })));
    } catch (problem) {
      this.result.replaceChildren(element("p", { class: "problem" }, problem.message));
    }
  }

  /** How the key stands under one policy. */
  card({ policy, shadow, problem, limits, denials }, { key, cost, now_ms, tried }) {
    const card = element("article", { class: "card" },
      element("h3", {}, policy, shadow ? element("small", {}, " in shadow mode") : ""),
      element("p", { class: tried.kind }, `${units(cost)}: ${tried.text}`));
    if (problem) card.append(element("p", { class: "problem" }, problem));
    for (const limit of limits) card.append(standing(limit, now_ms));
    if (denials.length) {
      card.append(element("h4", {}, "Last denials"), element("ul", { class: "denials" },
        ...denials.slice(0, 5).map(denied)));
    }
    const reset = element("button", { type: "button", class: "link" }, "Reset this key…");
    reset.addEventListener("click", () => this.reset(reset, policy, key));
    card.append(reset);
    return card;
  }

  /** Forgets what the key has spent, at the second press. */
  async reset(button, policy, key) {
    if (!button.dataset.sure) {
      button.dataset.sure = "yes";
      button.textContent = "Press again: the key gets its full limit under this policy";
      return;
    }
    try {
      await post("v1/reset", { policy, key });
      await this.look();
      byId("search").focus();
    } catch (problem) {
      button.replaceWith(element("p", { class: "problem", role: "alert" }, problem.message));
    }
  }
}

const units = (cost) => (cost === 1 ? "1 unit" : `${count(cost)} units`);

/** What a charge would come to. */
async function attempt(policy, key, cost) {
  try {
    const decision = await post("v1/peek", { policy, key, cost });
    if (decision.verdict === "never") return { kind: "denied", text: "never, it is too much at once" };
    if (decision.allowed) return { kind: "allowed", text: "would pass" };
    const by = decision.binding ? ` by ${decision.binding}` : "";
    return { kind: "denied", text: `would be denied${by}, for ${span(decision.retry_after_ms)}` };
  } catch (problem) {
    return { kind: "problem", text: problem.message };
  }
}

/** One limit: how much is left, and when it is full again. */
function standing({ name, limit, remaining, reset_at_ms }, now_ms) {
  const full = remaining >= limit || reset_at_ms <= now_ms;
  const again = full ? "full" : `full again in ${span(reset_at_ms - now_ms)}`;
  const bar = drawing("svg", { class: "bar left", viewBox: "0 0 100 1", "aria-hidden": "true",
    preserveAspectRatio: "none" }, drawing("rect", { height: 1, width: (100 * remaining) / limit }));
  return element("div", { class: "limit" }, element("span", {}, name),
    element("b", {}, `${count(remaining)} of ${count(limit)} left`), bar,
    element("span", { class: "quiet" }, again));
}

function denied({ at_ms, limit, cost, times }) {
  const often = times > 1 ? `, ${count(times)} times` : "";
  return element("li", {}, `${timeOf(at_ms)}: ${units(cost)} by ${limit ?? "the request"}${often}`);
}
