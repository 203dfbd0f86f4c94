// @ts-check
/**
 * One buffer: a picture of a 2-D slice (values, expected values, or where they differ) and a table of its elements.
 * A click, or Enter on the picture's cursor, chooses an element.
 */

import { element } from "./dom.js";
import { codeOf, countOf, differing, differsAt, flatOf, hexOf, indexOf, isUnread, textOf, valueOf } from "./values.js";

/** @import {Layout} from "./values.js" */

/**
 * @typedef {object} Shown
 * @property {Layout & {kind: string}} layout
 * @property {Uint8Array|null} actual  null: the run gave none
 * @property {Uint8Array|null} expected  null: nobody says what is right
 * @property {string[]} fields  of a uniform
 * @property {{value: string, axes: string[], sizes: number[], places: Int32Array}|null} held  an intermediate's
 */

const ROWS = 100;
const ZOOMS = [1, 2, 4, 8, 16, 24, 32];

export class TensorView {
  #zoom = 0;
  #mode = "values";
  #onlyDiffering = true;
  #first = 0;
  /** @type {number[]} */
  #index = [];
  #name = "";

  /** @param {HTMLElement} place @param {(name: string, index: number[]) => void} choose */
  constructor(place, choose) {
    this.place = place;
    this.choose = choose;
  }

  /** @param {Shown} shown @param {number[]|null} index  the chosen element */
  show(shown, index) {
    const { name, shape } = shown.layout;
    if (this.#name !== name || this.#index.length !== shape.length || index) {
      const differs = differing(shown);
      this.#index = index ?? indexOf(shape, differs[0] ?? 0);
      if (this.#name !== name) {
        this.#first = 0;
        this.#mode = differs.length > 0 ? "difference" : "values";
        this.#onlyDiffering = differs.length > 0;
        const widest = Math.max(shape.at(-1) ?? 1, shape.at(-2) ?? 1);
        this.#zoom = ZOOMS.findLastIndex((zoom) => zoom * widest <= 480);
        if (this.#zoom < 0) this.#zoom = 0;
      }
    }
    this.#name = name;
    this.shown = shown;
    this.#draw();
  }

  #draw() {
    const shown = /** @type {Shown} */ (this.shown);
    const { layout, actual, expected, fields, held } = shown;
    if (fields.length > 0 && actual) {
      const rows = fields.map((field, at) => [field, textOf(codeOf(actual, layout, at), layout.dtype)]);
      this.place.replaceChildren(element("p", {}, `${layout.name}: a uniform`), tableOf(["field", "word"], rows));
      return;
    }
    const differs = differing(shown);
    const words = [`${layout.name}: ${layout.kind}, ${layout.dtype} [${layout.shape.join(", ")}]`];
    if (!actual) words.push("no bytes came back");
    if (actual && expected) words.push(differs.length ? `${differs.length.toLocaleString("en")} of ${countOf(layout).toLocaleString("en")} elements differ` : "equal to the bit");
    if (held) words.push(`expected is the reference's ${held.value}${held.places.some((_, flat) => isUnread(shown, flat)) ? "; padding of which no pass makes use is not compared" : ""}`);
    else if (layout.kind === "intermediate" && countOf(layout) > 0) words.push("the reference has no value for it");
    const parts = [element("p", { className: differs.length ? "failed" : "" }, words.join("; "))];
    if (countOf(layout) > 0 && (actual || expected)) parts.push(this.#controls(), this.#picture(), this.#table(differs));
    this.place.replaceChildren(...parts);
  }

  #controls() {
    const { layout, expected, actual } = /** @type {Shown} */ (this.shown);
    const bar = element("div", { className: "controls", role: "group", "aria-label": "what the picture shows" });
    const modes = [actual && "values", expected && "expected", actual && expected && "difference"].filter(Boolean);
    for (const mode of /** @type {string[]} */ (modes)) {
      const button = element("button", { type: "button" }, mode);
      button.setAttribute("aria-pressed", String(mode === this.#mode));
      button.addEventListener("click", () => this.#set(() => (this.#mode = mode)));
      bar.append(button);
    }
    layout.shape.slice(0, -2).forEach((size, axis) => {
      const input = element("input", { type: "number", min: 0, max: size - 1, value: this.#index[axis] });
      input.addEventListener("change", () => {
        const at = Math.min(Math.max(0, Math.trunc(Number(input.value)) || 0), size - 1);
        this.#set(() => (this.#index[axis] = at));
      });
      bar.append(element("label", {}, `axis ${axis} `, input, ` of ${size}`));
    });
    for (const [text, by] of [["−", -1], ["+", 1]]) {
      const button = element("button", { type: "button", "aria-label": by === 1 ? "larger" : "smaller" }, String(text));
      button.addEventListener("click", () =>
        this.#set(() => (this.#zoom = Math.min(Math.max(0, this.#zoom + Number(by)), ZOOMS.length - 1))),
      );
      bar.append(button);
    }
    return bar;
  }

  /** @param {() => void} change */
  #set(change) {
    change();
    this.#draw();
  }

  #picture() {
    const shown = /** @type {Shown} */ (this.shown);
    const { layout, actual, expected } = shown;
    const { shape, dtype, name } = layout;
    const [height, width] = shape.length > 1 ? shape.slice(-2) : [1, shape[0] ?? 1];
    const start = shape.length > 1 ? flatOf(shape, [...this.#index.slice(0, -2), 0, 0]) : 0;
    const zoom = ZOOMS[this.#zoom];
    const canvas = element("canvas", { width, height, className: "picture", tabIndex: 0, role: "img" });
    canvas.style.width = `${zoom * width}px`;
    canvas.setAttribute("aria-label", `${this.#mode} of ${name}; arrow keys move, Enter chooses`);
    const context = canvas.getContext("2d");
    const image = context.createImageData(width, height);
    const source = this.#mode === "expected" ? expected : (actual ?? expected);
    const numbers = new Float64Array(width * height);
    let [least, most] = [Infinity, -Infinity];
    for (let at = 0; at < numbers.length; at += 1) {
      const value = valueOf(codeOf(/** @type {Uint8Array} */ (source), layout, start + at), dtype);
      numbers[at] = value;
      if (Number.isFinite(value)) [least, most] = [Math.min(least, value), Math.max(most, value)];
    }
    for (let at = 0; at < numbers.length; at += 1) {
      let colour = [0, 0, 0];
      if (this.#mode === "difference") {
        colour = differsAt(shown, start + at) ? [230, 97, 0] : isUnread(shown, start + at) ? [110, 110, 110] : [190, 205, 222];
      } else {
        const share = most > least ? (Math.min(Math.max(numbers[at], least), most) - least) / (most - least) : 0.5;
        colour = Number.isNaN(numbers[at]) ? [204, 121, 167] : shade(share);
      }
      image.data.set([...colour, 255], 4 * at);
    }
    context.putImageData(image, 0, 0);
    const cursor = element("div", { className: "cursor" });
    const box = element("div", { className: "canvas" }, canvas, cursor);
    const say = element("p", { className: "note", "aria-live": "polite" });
    const place = () => {
      const [row, column] = shape.length > 1 ? this.#index.slice(-2) : [0, this.#index[0] ?? 0];
      Object.assign(cursor.style, { left: `${column * zoom}px`, top: `${row * zoom}px`, width: `${zoom}px`, height: `${zoom}px` });
      const flat = flatOf(shape, this.#index);
      const told = [`[${this.#index.join(", ")}]`];
      if (actual) told.push(`actual ${textOf(codeOf(actual, layout, flat), dtype)}`);
      if (expected) told.push(isUnread(shown, flat) ? "not compared" : `expected ${textOf(codeOf(expected, layout, flat), dtype)}`);
      if (this.#mode !== "difference") told.push(`dark ${least}, light ${most}`);
      say.textContent = told.join("; ");
    };
    place();
    /** @param {MouseEvent} event */
    const under = (event) => {
      const column = Math.min(width - 1, Math.floor(event.offsetX / zoom));
      const row = Math.min(height - 1, Math.floor(event.offsetY / zoom));
      return shape.length > 1 ? [...this.#index.slice(0, -2), row, column] : shape.length ? [column] : [];
    };
    canvas.addEventListener("click", (/** @type {MouseEvent} */ event) => {
      this.#index = under(event);
      place();
      this.choose(name, [...this.#index]);
    });
    canvas.addEventListener("keydown", (/** @type {KeyboardEvent} */ event) => {
      const by = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key];
      if (event.key === "Enter") this.choose(name, [...this.#index]);
      if (!by || shape.length === 0) return;
      event.preventDefault();
      const last = shape.length - 1;
      this.#index[last] = Math.min(Math.max(0, this.#index[last] + by[1]), shape[last] - 1);
      if (last > 0) this.#index[last - 1] = Math.min(Math.max(0, this.#index[last - 1] + by[0]), shape[last - 1] - 1);
      place();
    });
    const frame = element("div", { className: "frame" }, box);
    panned(frame);
    return element("figure", {}, frame, say);
  }

  /** @param {number[]} differs */
  #table(differs) {
    const shown = /** @type {Shown} */ (this.shown);
    const { layout, actual, expected } = shown;
    const { shape, dtype, name } = layout;
    const only = this.#onlyDiffering && differs.length > 0;
    const count = only ? differs.length : countOf(layout);
    this.#first = Math.min(this.#first, Math.floor((count - 1) / ROWS) * ROWS);
    const head = ["index", "actual", "expected", "actual bits", "expected bits"];
    const body = [];
    for (let at = this.#first; at < Math.min(count, this.#first + ROWS); at += 1) {
      const flat = only ? differs[at] : at;
      const codes = [actual, isUnread(shown, flat) ? null : expected].map((bytes) => (bytes ? codeOf(bytes, layout, flat) : null));
      const texts = codes.map((code) => (code === null ? "" : textOf(code, dtype)));
      if (isUnread(shown, flat)) texts[1] = "not compared";
      const bits = codes.map((code) => (code === null ? "" : hexOf(code, dtype)));
      const index = indexOf(shape, flat);
      const button = element("button", { type: "button", className: "link" }, `[${index.join(", ")}]`);
      button.addEventListener("click", () => this.choose(name, index));
      const cells = [button, ...texts, ...bits].map((cell) => element("td", {}, cell));
      body.push(element("tr", { className: differsAt(shown, flat) ? "failed" : "" }, ...cells));
    }
    const table = element("table", {}, element("thead", {}, element("tr", {}, ...head.map((text) => element("th", { scope: "col" }, text)))), element("tbody", {}, ...body));
    const bar = element("div", { className: "controls" });
    if (differs.length > 0) {
      const box = element("input", { type: "checkbox", checked: only });
      box.addEventListener("change", () => this.#set(() => (this.#onlyDiffering = box.checked)));
      bar.append(element("label", { className: "check" }, box, " only what differs"));
    }
    if (count > ROWS) {
      for (const [text, by] of [["earlier", -ROWS], ["later", ROWS]]) {
        const next = this.#first + Number(by);
        const button = element("button", { type: "button", disabled: next < 0 || next >= count }, String(text));
        button.addEventListener("click", () => this.#set(() => (this.#first = next)));
        bar.append(button);
      }
      bar.append(` ${this.#first + 1} to ${Math.min(count, this.#first + ROWS)} of ${count.toLocaleString("en")}`);
    }
    return element("div", {}, bar, element("div", { className: "wide", tabIndex: 0, role: "region", "aria-label": `elements of ${name}` }, table));
  }
}

/** Dark blue to light yellow, even in brightness: readable for any pair of eyes. @param {number} share 0 to 1 */
function shade(share) {
  const stops = [[0, 32, 81], [60, 77, 110], [124, 123, 120], [187, 175, 113], [253, 234, 69]];
  const at = Math.min(3.999, share * 4);
  const low = Math.floor(at);
  return stops[low].map((value, channel) => Math.round(value + (stops[low + 1][channel] - value) * (at - low)));
}

/** Dragging moves what does not fit. @param {HTMLElement} frame */
function panned(frame) {
  let from = /** @type {{x: number, y: number}|null} */ (null);
  frame.addEventListener("pointerdown", (event) => (from = { x: event.clientX + frame.scrollLeft, y: event.clientY + frame.scrollTop }));
  frame.addEventListener("pointermove", (event) => {
    if (!from || event.buttons !== 1) return;
    frame.scrollLeft = from.x - event.clientX;
    frame.scrollTop = from.y - event.clientY;
  });
  for (const name of ["pointerup", "pointerleave"]) frame.addEventListener(name, () => (from = null));
}

/** @param {string[]} head @param {(string|number)[][]} rows @returns {HTMLElement} */
export function tableOf(head, rows) {
  const line = (/** @type {(string|number)[]} */ cells, /** @type {string} */ tag) =>
    element("tr", {}, ...cells.map((cell) => element(tag, tag === "th" ? { scope: "col" } : {}, String(cell))));
  const body = rows.map((row) => line(row, "td"));
  return element("table", {}, element("thead", {}, line(head, "th")), element("tbody", {}, ...body));
}
