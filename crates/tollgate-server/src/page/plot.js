// Plots of the last hour, drawn as SVG, with one reading line over all of them.

import { drawing, element, minuteOf, setText, timeOf } from "./dom.js";

const HEIGHT = 100;
const MINUTE = 60_000;
/** A longer time without a sample is not bridged. */
const GAP = 5_000;
/** Of a sample that has just begun, rates say nothing yet. */
const YOUNG = 2_000;

/** The samples whose rates can be shown: all but one that has just begun. */
export function settled(samples) {
  return samples.length > 1 ? samples.filter(({ span_ms }) => span_ms >= YOUNG) : samples;
}

/**
 * Plots below each other with the same time. Each has a `title`, a `format`, and `lines`: `name`,
 * `kind` (a class) and `of`, the value of a sample, or null.
 */
export class Plots {
  constructor(root, plots) {
    this.root = root;
    this.plots = plots.map((plot) => this.build(plot));
    this.times = element("div", { class: "times", "aria-hidden": "true" });
    root.append(this.times);
    this.samples = [];
    this.read = null;
    root.addEventListener("pointermove", (event) => this.point(event));
    root.addEventListener("pointerleave", () => this.select(null));
    root.addEventListener("blur", () => this.select(null));
    root.addEventListener("keydown", (event) => this.key(event));
  }

  build(plot) {
    const cursor = drawing("line", { class: "cursor", y1: 0, y2: HEIGHT, visibility: "hidden" });
    const shapes = plot.lines.map(({ kind, fills }) => ({
      area: fills && drawing("path", { class: `area ${kind}` }),
      line: drawing("path", { class: `line ${kind}` }),
    }));
    const svg = drawing("svg", { preserveAspectRatio: "none", "aria-hidden": "true" });
    const marks = drawing("path", { class: "marks" });
    svg.append(marks, ...shapes.flatMap(({ area, line }) => (area ? [area, line] : [line])), cursor);
    const values = plot.lines.map(({ name, kind }) => {
      const value = element("b");
      return { value, shown: element("span", { class: `value ${kind}` }, `${name} `, value) };
    });
    const most = element("span", { class: "most quiet" });
    const head = element("p", { class: "plot-head" }, element("strong", {}, plot.title),
      ...values.map(({ shown }) => shown));
    const canvas = element("div", { class: "canvas" }, svg, most);
    this.root.append(element("figure", { class: "plot" }, head, canvas));
    return { ...plot, svg, canvas, shapes, cursor, marks, values, most };
  }

  /** Draws samples; time begins at `from_ms` and ends at `to_ms`. Marks are instants. */
  draw(samples, from_ms, to_ms, marks) {
    Object.assign(this, { samples, from_ms, to_ms });
    const lines = marks.filter((at) => at >= from_ms).map((at) => `M${this.x(at)} 0V${HEIGHT}`);
    for (const plot of this.plots) {
      this.drawOne(plot);
      plot.marks.setAttribute("d", lines.join(""));
    }
    this.drawTimes();
    this.show();
  }

  x(ms) {
    return (1000 * (ms - this.from_ms)) / (this.to_ms - this.from_ms);
  }

  drawOne(plot) {
    plot.svg.setAttribute("viewBox", `0 0 1000 ${HEIGHT}`);
    const all = plot.lines.flatMap(({ of }) => this.samples.map(of)).filter((it) => it !== null);
    const most = Math.max(plot.least ?? 1, ...all);
    setText(plot.most, plot.format(most));
    plot.lines.forEach(({ of }, index) => {
      const runs = this.runs(of, most);
      const { line, area } = plot.shapes[index];
      line.setAttribute("d", runs.map((run) => `M${run.join("L")}`).join(""));
      area?.setAttribute("d", runs.map((run) => {
        const [first, last] = [run[0], run[run.length - 1]].map((point) => point.split(" ")[0]);
        return `M${first} ${HEIGHT}L${run.join("L")}L${last} ${HEIGHT}Z`;
      }).join(""));
    });
  }

  /** Steps of a line, one list for each stretch without a gap. */
  runs(of, most) {
    const runs = [[]];
    let end_ms = 0;
    for (const sample of this.samples) {
      const value = of(sample);
      if (value === null || sample.at_ms > end_ms + GAP) runs.push([]);
      if (value === null) continue;
      end_ms = sample.at_ms + sample.span_ms;
      const y = (HEIGHT - 2 - ((HEIGHT - 8) * value) / most).toFixed(1);
      const [from, to] = [sample.at_ms, end_ms].map((ms) => this.x(ms));
      runs[runs.length - 1].push(`${from.toFixed(1)} ${y}`, `${to.toFixed(1)} ${y}`);
    }
    return runs.filter((run) => run.length);
  }

  drawTimes() {
    const minutes = (this.to_ms - this.from_ms) / MINUTE;
    const step = (minutes > 30 ? 10 : minutes > 12 ? 5 : minutes > 6 ? 2 : 1) * MINUTE;
    const ticks = [];
    for (let at = Math.ceil(this.from_ms / step) * step; at < this.to_ms; at += step) {
      ticks.push(at);
    }
    this.times.replaceChildren(...ticks.map((at) => {
      const tick = element("span", {}, minuteOf(at));
      tick.style.left = `${this.x(at) / 10}%`;
      return tick;
    }));
    // On a phone a time takes a tenth of the width: one that does not fit is left out.
    const fits = ({ offsetLeft, offsetWidth }) => offsetLeft + offsetWidth <= this.times.clientWidth;
    [...this.times.children].filter((tick) => !fits(tick)).forEach((tick) => tick.remove());
  }

  point(event) {
    const { left, width } = this.plots[0].canvas.getBoundingClientRect();
    const at = this.from_ms + ((this.to_ms - this.from_ms) * (event.clientX - left)) / width;
    const index = this.samples.findIndex(({ at_ms, span_ms }) => at < at_ms + span_ms);
    this.select(at < this.from_ms || index < 0 ? null : this.samples[index].at_ms);
  }

  key(event) {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!step || !this.samples.length) return;
    event.preventDefault();
    const now = this.samples.findIndex(({ at_ms }) => at_ms === this.read);
    const from = now < 0 ? this.samples.length - (step < 0 ? 0 : 1) : now;
    const next = Math.min(Math.max(from + step, 0), this.samples.length - 1);
    this.select(this.samples[next].at_ms);
  }

  select(at_ms) {
    this.read = at_ms;
    this.show();
  }

  /** The values of the selected sample, or of the newest. */
  show() {
    const selected = this.samples.find(({ at_ms }) => at_ms === this.read);
    const sample = selected ?? this.samples[this.samples.length - 1];
    this.root.dataset.reading = selected ? timeOf(selected.at_ms) : "";
    for (const plot of this.plots) {
      plot.lines.forEach(({ of }, index) => {
        const value = sample ? of(sample) : null;
        setText(plot.values[index].value, value === null ? "–" : plot.format(value));
      });
      plot.cursor.setAttribute("visibility", selected ? "visible" : "hidden");
      if (selected) {
        const x = this.x(selected.at_ms + selected.span_ms / 2);
        plot.cursor.setAttribute("x1", x);
        plot.cursor.setAttribute("x2", x);
      }
    }
  }
}

/** A small plot of one line, for a row of a table. */
export function sparkline() {
  const line = drawing("path");
  return drawing("svg", { class: "spark", viewBox: "0 0 240 24", preserveAspectRatio: "none",
    "aria-hidden": "true" }, line);
}

/** Draws a sparkline of values that are spread evenly. */
export function drawSparkline(svg, values) {
  const most = Math.max(1e-9, ...values);
  svg.firstChild.setAttribute("class", most > 1e-9 ? "line denied" : "line none");
  const width = 240 / Math.max(values.length, 1);
  const points = values.flatMap((value, index) => {
    const y = (22 - (20 * value) / most).toFixed(1);
    return [`${(index * width).toFixed(1)} ${y}`, `${((index + 1) * width).toFixed(1)} ${y}`];
  });
  svg.firstChild.setAttribute("d", points.length ? `M${points.join("L")}` : "");
}
