// @ts-check
/** Stepping as it is seen: the pass's lines with the current one, the variables in scope, what was stored, the controls. */

import { describe } from "../errors.js";
import { DTYPES } from "../tensors.js";
import { dispatchOf } from "./dispatch.js";
import { element } from "./dom.js";
import { Stepper, compared } from "../stepping/stepper.js";
import { tableOf } from "./tensor_view.js";
import { textOf } from "./values.js";
import { Unsupported } from "../stepping/types.js";
import { highlighted, originsOf } from "./wgsl_view.js";

/** @import {Dispatch} from "./dispatch.js" */
/** @import {Session} from "./session.js" */
/** @import {Store} from "../stepping/stepper.js" */
/** @import {Invocation} from "../stepping/machine.js" */

const MOST_STORES = 200;
const BOUND = "There is more: the step ended at its bound of commands. Go on from here.";

/** Opens a panel for one invocation of a pass. @param {HTMLElement} place @param {Session} session @param {number} index
 * @param {Invocation} invocation @returns {Promise<Stepper|null>}  null where it cannot be stepped through: the panel says why */
export async function openSteps(place, session, index, invocation) {
  const { plan, passes, wgsl } = session.specimen;
  const text = session.textOf(index);
  const origins = originsOf(wgsl[plan.passes[index].wgsl].split("\n"), text.split("\n"), passes[index].origins);
  const title = `Step through: pass ${passes[index].name}, workgroup [${invocation.workgroup.join(", ")}], invocation ${invocation.localIndex}`;
  const dtypes = new Map(session.buffers().map(({ layout }) => [layout.name, layout.dtype]));
  const view = new StepView(place, title, text.split("\n"), origins, ({ buffer, word, text: own }) => {
    const dtype = dtypes.get(buffer) ?? "";
    return DTYPES[dtype]?.bits === 32 ? textOf(word, dtype) : own; // what a shader holds as u32 may be a float's bits
  });
  await view.open(() => dispatchOf(session, index), invocation);
  return view.stepper;
}

/** Asks which invocation. @param {number[]} workgroups @param {(invocation: Invocation) => void} chosen @returns {HTMLElement} */
export function invocationForm(workgroups, chosen) {
  const number = (/** @type {string} */ label, /** @type {number|null} */ count) => {
    const input = element("input", { type: "number", min: 0, value: 0, required: true, ...(count === null ? {} : { max: count - 1 }) });
    return { input, label: element("label", {}, `${label} `, input) };
  };
  const fields = [...["x", "y", "z"].map((axis, at) => number(`workgroup ${axis}`, workgroups[at])), number("invocation", null)];
  const form = element("form", { className: "controls", "aria-label": "Step through an invocation" }, ...fields.map(({ label }) => label), element("button", { type: "submit" }, "Step through it"));
  form.addEventListener("submit", (/** @type {Event} */ event) => {
    event.preventDefault();
    const [x, y, z, localIndex] = fields.map(({ input }) => Number(input.value));
    chosen({ workgroup: [x, y, z], localIndex });
  });
  return form;
}

class StepView {
  /** @type {Stepper|null} */
  stepper = null;
  #busy = false;

  /** @param {HTMLElement} place @param {string} title @param {string[]} lines @param {([string, number]|null)[]} origins
   * @param {(store: Store) => string} valueOf  what a stored word stands for */
  constructor(place, title, lines, origins, valueOf) {
    this.place = place;
    this.valueOf = valueOf;
    this.lines = lines;
    this.origins = origins;
    this.status = element("p", { role: "status", "aria-live": "polite", className: "at" }, "Getting what the pass is given …");
    this.end = element("p", {});
    this.line = element("input", { type: "number", min: 1, max: lines.length, value: 1, "aria-label": "line to run to" });
    this.controls = element("div", { className: "controls", role: "group", "aria-label": "Steps" });
    this.code = element("div", { className: "wide lines", tabIndex: 0, role: "region", "aria-label": "lines of the pass, the current one marked" });
    this.variables = element("div", { className: "wide", tabIndex: 0, role: "region", "aria-label": "variables in scope" });
    this.stores = element("div", { className: "wide", tabIndex: 0, role: "region", "aria-label": "words stored" });
    this.rows = lines.map((text, index) => this.#row(text, index));
    this.code.append(element("table", { className: "wgsl" }, element("tbody", {}, ...this.rows)));
    const sides = element("div", { className: "sides" }, element("div", {}, element("h3", {}, "Variables"), this.variables), element("div", {}, element("h3", {}, "Stored"), this.stores));
    place.replaceChildren(element("h2", {}, title), this.controls, this.status, this.end, this.code, sides);
    place.hidden = false;
    place.onkeydown = (event) => this.#key(event);
    place.scrollIntoView({ block: "start" });
    place.focus({ preventScroll: true });
  }

  /** @param {string} text @param {number} index */
  #row(text, index) {
    const origin = this.origins[index];
    const number = element("td", { className: "line", title: `run to line ${index + 1}` }, String(index + 1));
    number.addEventListener("click", () => this.#act((stepper) => stepper.runTo(index + 1)));
    return element("tr", {}, element("td", { className: "mark" }, ""), element("td", { className: "origin" }, origin ? `${origin[0]}:${origin[1]}` : ""), number, element("td", {}, element("code", {}, ...highlighted(text))));
  }

  /** @param {() => Promise<Dispatch>} dispatch @param {Invocation} invocation */
  async open(dispatch, invocation) {
    try {
      this.dispatch = await dispatch();
      this.start = () => Stepper.of(/** @type {Dispatch} */ (this.dispatch).shader, invocation);
      this.stepper = await this.start();
      this.#buttons();
      this.#draw("there");
    } catch (error) {
      this.#refused(error);
    }
  }

  #buttons() {
    const button = (/** @type {string} */ text, /** @type {string} */ key, /** @type {() => void} */ act) => {
      const made = element("button", { type: "button", title: `key ${key}`, "aria-keyshortcuts": key }, text, element("small", {}, ` ${key}`));
      made.addEventListener("click", act);
      return made;
    };
    const move = (/** @type {string} */ text, /** @type {string} */ key, /** @type {(stepper: Stepper) => Promise<string>} */ act) => {
      const run = () => void this.#act(act);
      this.keys.set(key, run);
      return button(text, key, run);
    };
    const restart = () => void this.#restart();
    this.keys.set("r", restart);
    this.controls.replaceChildren(
      move("Step", "s", (stepper) => stepper.step()),
      move("Over", "o", (stepper) => stepper.over()),
      move("Out", "u", (stepper) => stepper.out()),
      move("To the end", "e", (stepper) => stepper.toEnd()),
      move("To line", "l", (stepper) => stepper.runTo(Number(this.line.value))),
      this.line,
      button("Restart", "r", restart),
    );
  }

  /** @type {Map<string, () => void>} */
  keys = new Map();

  /** Letters, where they are not typed into a field. @param {KeyboardEvent} event */
  #key(event) {
    const into = /** @type {HTMLElement} */ (event.target);
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const act = this.keys.get(into === this.line ? (event.key === "Enter" ? "l" : "") : event.key);
    if (!act) return;
    event.preventDefault();
    act();
  }

  /** One at a time. @param {(stepper: Stepper) => Promise<string>} act */
  async #act(act) {
    if (this.#busy || !this.stepper || this.stepper.stopped || this.stepper.done) return;
    this.#busy = true;
    this.place.setAttribute("aria-busy", "true");
    try {
      this.#draw(await act(this.stepper));
    } catch (error) {
      this.#refused(error);
    } finally {
      this.#busy = false;
      this.place.removeAttribute("aria-busy");
    }
  }

  async #restart() {
    if (this.#busy || !this.start) return;
    this.stepper = await this.start();
    this.#draw("there");
  }

  /** @param {unknown} error */
  #refused(error) {
    if (!(error instanceof Unsupported)) {
      this.status.textContent = error instanceof Error ? error.message : describe(error);
      this.status.className = "failed at";
      return;
    }
    this.#mark(error.line, "✕");
    this.status.textContent = `Not stepped through: ${error.message}${this.#where(error.line)}. What the GPU wrote stands.`;
    this.status.className = "failed at";
  }

  /** @param {number} line */
  #where(line) {
    if (!line) return "";
    const origin = this.origins[line - 1];
    return `, line ${line}${origin ? ` (${origin[0]}:${origin[1]})` : ""}`;
  }

  /** @param {string} how */
  #draw(how) {
    const stepper = /** @type {Stepper} */ (this.stepper);
    const { line, steps, calls, machine } = stepper;
    this.end.textContent = "";
    this.end.className = "";
    this.status.className = "at";
    this.#mark(line, "▶");
    const others = machine.waits ? `; at a barrier the other ${machine.lanes - 1} invocations of the workgroup go on, too` : "";
    if (how === "stopped") this.#refused(stepper.stopped);
    else if (stepper.done) this.status.textContent = `At the end, after ${steps} steps.`;
    else this.status.textContent = `Step ${steps}: line ${line}${this.#where(line).replace(`, line ${line}`, "")}, in ${calls.join(", called by ")}${others}.${how === "bound" ? ` ${BOUND}` : ""}`;
    this.#variables();
    this.#stores();
  }

  #variables() {
    const { variables, done } = /** @type {Stepper} */ (this.stepper);
    const rows = variables.map(({ name, type, value, changed }) =>
      element("tr", { className: changed ? "warned" : "" }, element("th", { scope: "row" }, name), element("td", {}, type), element("td", {}, element("code", {}, value)), element("td", {}, changed ? "● changed" : "")),
    );
    const head = element("tr", {}, ...["name", "type", "value", "in this step"].map((text) => element("th", { scope: "col" }, text)));
    const none = done ? "None: the invocation has ended." : "None as yet.";
    this.variables.replaceChildren(rows.length > 0 && !done ? element("table", {}, element("thead", {}, head), element("tbody", {}, ...rows)) : element("p", {}, none));
  }

  /** What it stored; at the end, beside what the GPU has there. */
  #stores() {
    const stepper = /** @type {Stepper} */ (this.stepper);
    if (stepper.stores.length === 0) return this.stores.replaceChildren(element("p", {}, "Nothing."));
    const { rows, same, different } = compared(stepper.stores, /** @type {Dispatch} */ (this.dispatch).gpu);
    const hex = (/** @type {number|null} */ word) => (word === null ? "" : `0x${word.toString(16).padStart(8, "0")}`);
    const cells = rows.slice(0, MOST_STORES).map((row) => [row.buffer, row.at, this.valueOf(row), hex(row.word), row.line, ...(stepper.done ? [hex(row.gpu), row.gpu === null ? "not comparable" : row.gpu === row.word ? "equal" : "✕ differs"] : [])]);
    const head = ["buffer", "word", "value", "bits", "line", ...(stepper.done ? ["on the GPU", ""] : [])];
    this.stores.replaceChildren(tableOf(head, cells), ...(rows.length > cells.length ? [element("p", {}, `… and ${rows.length - cells.length} words more`)] : []));
    if (!stepper.done) return;
    const words = rows.length === 1 ? "the word that it stored" : `all ${rows.length} words that it stored`;
    if (different > 0) this.end.textContent = `✕ ${different} of ${rows.length} stored words differ from the GPU's: the interpreter is not exact for this shader, or other invocations store there, too. Trust the GPU.`;
    else if (same === rows.length) this.end.textContent = `● The interpreter's value equals the GPU's in ${words}.`;
    else this.end.textContent = `${rows.length - same} of ${rows.length} stored words cannot be compared with the GPU's.`;
    this.end.className = different > 0 ? "failed" : "passed";
  }

  /** @param {number} line  0: none @param {string} sign */
  #mark(line, sign) {
    for (const row of this.rows.filter((one) => one.hasAttribute("aria-current"))) {
      row.removeAttribute("aria-current");
      row.cells[0].textContent = "";
    }
    const row = this.rows[line - 1];
    if (!row) return;
    row.setAttribute("aria-current", "step");
    row.cells[0].textContent = sign;
    this.code.scrollTop = row.offsetTop - this.code.clientHeight / 3; // the list, not the page
  }
}
