// The policies in force: their limits in numbers, and the words of the configuration.

import { get } from "./client.js";
import { byId, count, element, span } from "./dom.js";

/** Reads the policies and draws them. */
export async function showInForce() {
  const list = byId("force");
  try {
    const { paths } = await get("openapi.json");
    if (!("/v1/policies" in paths)) return;
    const { policies } = await get("v1/policies");
    const open = new Set([...list.querySelectorAll("[open]")].map((one) => one.dataset.id));
    list.replaceChildren(...policies.map((one) => inForce(one, open)));
  } catch (problem) {
    list.replaceChildren(element("p", { class: "problem" }, problem.message));
  }
  byId("force-section").hidden = false;
}

function inForce({ policy, shadow, refunds, limits, overrides, written }, open) {
  const notes = [shadow && "in shadow mode", overrides && `${count(overrides)} keys have other limits`,
    refunds !== "receipt" && `refunds: ${refunds}`].filter(Boolean);
  const heads = limits.map((limit) => element("span", { class: "rule" }, inWords(limit)));
  return element("details", { "data-id": policy, open: open.has(policy) && "" },
    element("summary", {}, element("b", {}, policy), ...heads,
      element("small", {}, notes.join(" · "))),
    element("pre", {}, lines(written, "")));
}

/** A limit in numbers. */
function inWords({ name, algorithm, limit, units, period_us, on_outage }) {
  const per = `${count(units)} per ${span(period_us / 1000)}`;
  const most = limit === units ? "" : `, at most ${count(limit)} at once`;
  return `${name}: ${per}${most} (${algorithm}); ${on_outage} without the store`;
}

/** What a section says, a line for each value. */
function lines(value, indent) {
  const isList = Array.isArray(value);
  return Object.entries(value).map(([index, inner]) => {
    const name = isList ? `- ${Number(index) + 1}` : index;
    if (inner === null || typeof inner !== "object") return `${indent}${name}: ${inner}\n`;
    return `${indent}${name}:\n${lines(inner, `${indent}  `)}`;
  }).join("");
}
