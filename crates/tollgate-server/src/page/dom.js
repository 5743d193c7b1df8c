// Elements, numbers and times. All text becomes text nodes: a key is never markup.

const SVG = "http://www.w3.org/2000/svg";

/** The element of the document with this id. */
export const byId = (id) => document.getElementById(id);

/** Makes an element with attributes and children; text is a text node. */
export function element(name, attributes = {}, ...children) {
  return fill(document.createElement(name), attributes, children);
}

/** Makes an element of a drawing. */
export function drawing(name, attributes = {}, ...children) {
  return fill(document.createElementNS(SVG, name), attributes, children);
}

function fill(made, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== undefined && value !== false) made.setAttribute(name, value);
  }
  made.append(...children);
  return made;
}

/** Sets a text, if it differs: what is selected stays selected. */
export function setText(of, text) {
  if (of.textContent !== text) of.textContent = text;
}

/**
 * Makes the children of a list those of the items, in their order. Children are kept by the id of
 * their items, so that focus and selection survive an update.
 */
export function update(list, items, idOf, make, show) {
  const before = new Map([...list.children].map((child) => [child.dataset.id, child]));
  let last = null;
  for (const item of items) {
    const id = String(idOf(item));
    let child = before.get(id);
    before.delete(id);
    if (!child) {
      child = make(item);
      child.dataset.id = id;
    }
    show(child, item);
    const next = last ? last.nextSibling : list.firstChild;
    if (next !== child) list.insertBefore(child, next);
    last = child;
  }
  for (const gone of before.values()) gone.remove();
}

const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const short = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });

/** A count: 1,234 or 1.2M. */
export const count = (number) => (number < 100_000 ? whole.format(number) : short.format(number));

/** A rate per second: few digits, and none for nothing. */
export function rate(perSecond) {
  if (!perSecond) return "0";
  if (perSecond < 0.1) return "< 0.1";
  return perSecond < 10 ? perSecond.toFixed(1) : count(perSecond);
}

/** A share in percent. */
export function share(part, all) {
  if (!all || !part) return "0 %";
  const percent = (100 * part) / all;
  return percent < 0.1 ? "< 0.1 %" : `${percent.toFixed(percent < 10 ? 1 : 0)} %`;
}

/** Microseconds in the unit that fits. */
export function latency(us) {
  if (us === null || us === undefined) return "–";
  if (us < 1000) return `${us} µs`;
  return us < 1_000_000 ? `${digits(us / 1000)} ms` : `${digits(us / 1_000_000)} s`;
}

const digits = (number) => (number < 10 ? number.toFixed(1) : number.toFixed(0));

/** A span of time in its two largest units. */
export function span(ms) {
  if (ms < 1000) return `${Math.max(0, Math.round(ms))} ms`;
  const seconds = Math.round(ms / 1000);
  const units = [["d", 86_400], ["h", 3_600], ["min", 60], ["s", 1]];
  const first = units.findIndex(([, length]) => seconds >= length);
  let left = seconds;
  const parts = units.slice(first, first + 2).map(([unit, length]) => {
    const number = Math.floor(left / length);
    left -= number * length;
    return number ? `${number} ${unit}` : "";
  });
  return parts.filter(Boolean).join(" ");
}

/** Bytes in the unit that fits. */
export function bytes(number) {
  if (number === null || number === undefined) return "–";
  const units = ["B", "KiB", "MiB", "GiB"];
  const power = Math.min(Math.floor(Math.log2(Math.max(number, 1)) / 10), 3);
  return `${digits(number / 1024 ** power).replace(".0", "")} ${units[power]}`;
}

const clock = new Intl.DateTimeFormat("en-GB", {
  hour: "2-digit", minute: "2-digit", second: "2-digit",
});

/** The time of day of an instant, here. */
export const timeOf = (ms) => clock.format(ms);

/** The hour and the minute of an instant, here. */
export const minuteOf = (ms) => timeOf(ms).slice(0, 5);
