// @ts-check
/** The plan as a picture: what each pass reads on its left, what it writes on its right, one pass below the other. */

import { element, svg } from "./dom.js";

/** @import {Specimen} from "./desk.js" */

const WIDTH = 880;
const BOX = 250;
const STEP = 46;
const PAD = 14;

/**
 * @param {HTMLElement} place
 * @param {Specimen} specimen
 * @param {{buffer: (name: string) => void, pass: (index: number) => void, mark: (name: string) => string}} choose  `mark`: ●
 *   or ✕ where the reference says what is right
 */
export function drawPlan(place, { plan, passes }, choose) {
  if (plan.passes.length === 0) {
    place.replaceChildren(element("p", {}, "Nothing is dispatched: the output is empty."));
    return;
  }
  const specs = new Map(plan.buffers.map((spec) => [spec.name, spec]));
  const drawing = svg("svg", { viewBox: "0 0 1 1", role: "group", "aria-label": "passes and their buffers" });
  let y = PAD;
  plan.passes.forEach((pass, index) => {
    const reads = pass.bindings.filter(({ type }) => type !== "storage");
    const writes = pass.bindings.filter(({ type }) => type === "storage");
    const height = Math.max(reads.length, writes.length, 1) * STEP;
    const middle = y + height / 2;
    const line = (/** @type {number} */ x1, /** @type {number} */ y1, /** @type {number} */ x2, /** @type {number} */ y2) =>
      svg("path", { d: `M${x1} ${y1} C${(x1 + x2) / 2} ${y1} ${(x1 + x2) / 2} ${y2} ${x2} ${y2}`, class: "flow" });
    /** @param {{buffer: string}[]} bindings @param {number} x @param {boolean} left */
    const column = (bindings, x, left) =>
      bindings.forEach(({ buffer }, row) => {
        const top = y + (height - bindings.length * STEP) / 2 + row * STEP;
        const at = top + STEP / 2;
        drawing.append(left ? line(x + BOX, at, WIDTH / 2 - BOX / 2, middle) : line(WIDTH / 2 + BOX / 2, middle, x, at));
        const spec = /** @type {import("./desk.js").Buffer} */ (specs.get(buffer));
        const shape = spec.kind === "uniform" ? "parameters" : `${spec.dtype} [${spec.shape.join(", ")}]`;
        drawing.append(box(x, top + 4, STEP - 8, spec.kind, `${choose.mark(buffer)} ${buffer}`.trim(), shape, () => choose.buffer(buffer)));
      });
    column(reads, PAD, true);
    column(writes, WIDTH - BOX - PAD, false);
    const count = pass.workgroups.join(" × ");
    const skipped = pass.workgroups.includes(0) ? " (skipped)" : "";
    const title = `${index + 1}. ${passes[index].name}`;
    drawing.append(
      box(WIDTH / 2 - BOX / 2, middle - 21, 42, "pass", title, `${count} workgroups${skipped}`, () => choose.pass(index)),
    );
    y += height + PAD;
  });
  drawing.setAttribute("viewBox", `0 0 ${WIDTH} ${y}`);
  place.replaceChildren(drawing);
}

/** @param {number} x @param {number} y @param {number} height @param {string} kind @param {string} title @param {string} note
 * @param {() => void} chosen */
function box(x, y, height, kind, title, note, chosen) {
  const below = kind === "pass" ? note : `${kind}, ${note}`;
  const group = svg(
    "g",
    { class: `box ${kind}`, role: "button", tabindex: 0, "aria-label": `${clip(title)} ${clip(below)}` },
    svg("rect", { x, y, width: BOX, height, rx: kind === "pass" ? 3 : 10 }),
    svg("text", { x: x + 10, y: y + height / 2 - 2, class: "name" }, clip(title), " "),
    svg("text", { x: x + 10, y: y + height / 2 + 13, class: "note" }, clip(below)),
  );
  group.addEventListener("click", chosen);
  group.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" && event.key !== " ") return;
    event.preventDefault();
    chosen();
  });
  return group;
}

/** @param {string} text */
const clip = (text) => (text.length > 38 ? `${text.slice(0, 37)}…` : text);
