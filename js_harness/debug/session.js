// @ts-check
/** One specimen on this page's adapter: opened, run, run again with edited WGSL. Holds what came of the last run. */

import { Devices } from "../devices.js";
import { execute } from "../execute.js";
import * as desk from "./desk.js";

/** @import {Facts} from "../facts.js" */
/** @import {Outcome} from "../execute.js" */
/** @import {Mask, Opened, Specimen} from "./desk.js" */
/** @import {Shown} from "./tensor_view.js" */

const DEADLINE_MS = 60_000;
const MOST_RECORDS = 500; // what one request holds

export class Session {
  devices = new Devices();
  /** @type {Opened|null} */
  opened = null;
  /** @type {Outcome|null} */
  outcome = null;
  /** @type {Map<string, Uint8Array>}  what buffers held after the last run, by name */
  bytes = new Map();
  /** @type {Map<number, string>}  edited WGSL, by the pass's number */
  edits = new Map();

  /** @param {Facts} facts */
  constructor(facts) {
    this.facts = facts;
  }

  /** The specimen; an error if nothing is open or nothing can run. @returns {Specimen} */
  get specimen() {
    if (!this.opened) throw new Error("no case is open: choose one, or lab.run(\"OPERATOR:CASE\").");
    return this.opened.header;
  }

  /** Whether there is a plan to run. */
  get runs() {
    return Boolean(this.opened?.header.plan);
  }

  /** @param {string} query @param {Mask} mask */
  async open(query, mask) {
    const opened = await desk.specimen(query, this.facts, mask);
    this.opened = opened;
    this.edits.clear();
    return opened.header;
  }

  /** WGSL of a pass as it will run. @param {number} index */
  textOf(index) {
    const { plan, wgsl } = this.specimen;
    return this.edits.get(index) ?? wgsl[plan.passes[index].wgsl];
  }

  /** @param {boolean} timing @returns {Promise<Outcome>} */
  async run(timing) {
    const { plan } = this.specimen;
    const { passes, texts } = this.#passes();
    const features = plan.device.features;
    const offered = this.facts.features.includes("timestamp-query") && !this.specimen.masked.includes("timestamp-query");
    const stamped = timing && offered && !features.includes("timestamp-query");
    const device = { ...plan.device, features: stamped ? [...features, "timestamp-query"] : features };
    const read = plan.buffers.filter(({ kind, bytes }) => (kind === "output" || kind === "intermediate") && bytes > 0);
    const names = plan.passes.length > 0 ? read.map(({ name }) => name) : [];
    const timed = stamped || (timing && features.includes("timestamp-query"));
    const execution = await this.#execute({ ...plan, device, passes }, texts, names, timed);
    this.outcome = execution.outcome;
    this.bytes.clear();
    for (const { buffer, blob } of execution.outcome.read) this.bytes.set(buffer, execution.blobs[blob].slice());
    execution.release();
    return execution.outcome;
  }

  /** The plan's passes with the WGSL of each, edited ones under digests of their own. */
  #passes() {
    const texts = new Map();
    const passes = this.specimen.plan.passes.map((pass, index) => {
      const digest = this.edits.has(index) ? `edited ${crypto.randomUUID()}` : pass.wgsl;
      texts.set(digest, this.textOf(index));
      return { ...pass, wgsl: digest };
    });
    return { passes, texts };
  }

  /** What the buffers that passes write hold once the first of them, so many, have run: they alone run again.
   * @param {number} count @returns {Promise<Map<string, Uint8Array>>} by name */
  async after(count) {
    const { plan } = this.specimen;
    const { passes, texts } = this.#passes();
    const read = plan.buffers.filter(({ kind, bytes }) => (kind === "output" || kind === "intermediate") && bytes > 0).map(({ name }) => name);
    const { outcome, blobs, release } = await this.#execute({ ...plan, passes: passes.slice(0, count) }, texts, read, false);
    if (outcome.status !== "ok") throw new Error(`the first ${count} passes: ${outcome.status}: ${outcome.messages.map(({ text }) => text).join("; ")}`);
    const held = new Map(outcome.read.map(({ buffer, blob }) => [buffer, blobs[blob].slice()]));
    release();
    return held;
  }

  /** A plan on this specimen's inputs; of its buffers those named are read.
   * @param {Specimen["plan"]} plan @param {Map<string, string>} texts @param {string[]} read @param {boolean} timing */
  #execute(plan, texts, read, timing) {
    const { inputs } = this.specimen;
    const blobs = /** @type {Opened} */ (this.opened).blobs;
    const sources = new Map(inputs.map(({ buffer, blob }) => [buffer, blobs[blob]]));
    const job = { plan: { ...plan, outputs: [] }, sources, expected: {}, read, deadlineMs: DEADLINE_MS, timing, keep: false };
    return execute(job, this.devices, texts);
  }

  /** A debug run: the server's plan for what is looked for, run here, and what the server reads in its buffer.
   * @param {Omit<desk.Look, "query"|"facts"|"mask"|"words">} look @param {Mask} mask */
  async inspect(look, mask) {
    const { operator, case: name, variant } = this.specimen;
    const asked = { ...look, query: `${operator}:${name}:${variant}`, facts: this.facts, mask };
    const { plan, wgsl, read } = await desk.inspect(asked);
    const execution = await this.#execute(plan, new Map(Object.entries(wgsl)), [read.buffer], false);
    const { outcome, blobs: found, release } = execution;
    if (outcome.status !== "ok") throw new Error(`the debug run: ${outcome.status}: ${outcome.messages.map(({ text }) => text).join("; ")}`);
    const words = new Uint32Array(found[outcome.read[0].blob].slice().buffer);
    release();
    const kept = Math.min(words[0], MOST_RECORDS);
    const left_over = words[0] - kept;
    words[0] = kept;
    const bytes = new Uint8Array(words.buffer, 0, 4 * (1 + kept * read.record_words));
    const hex = Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
    const { told } = await desk.inspect({ ...asked, words: hex });
    return { ...told, lost: told.lost + left_over };
  }

  /** Every buffer of the plan as it can be looked at now. @returns {Shown[]} */
  buffers() {
    if (!this.runs) return [];
    const { plan, inputs, expected, fields, held } = this.specimen;
    const blobs = /** @type {Opened} */ (this.opened).blobs;
    return plan.buffers.map((spec) => {
      const input = inputs.find(({ buffer }) => buffer === spec.name);
      const words = spec.words ? new Uint8Array(new Uint32Array(spec.words).buffer) : null;
      const known = input ? blobs[input.blob] : words;
      const output = plan.outputs.find(({ buffer }) => buffer === spec.name);
      const right = output && expected.find(({ name }) => name === output.name);
      const hold = held.find(({ buffer }) => buffer === spec.name);
      return {
        layout: { name: spec.name, kind: spec.kind, dtype: spec.dtype, shape: spec.shape, packing: spec.packing },
        actual: known ?? this.bytes.get(spec.name)?.subarray(0, spec.bytes) ?? null,
        expected: right ? blobs[right.blob] : hold ? blobs[hold.blob] : null,
        held: hold ? { ...hold, places: new Int32Array(blobs[hold.places].slice().buffer) } : null,
        fields: fields[spec.name] ?? [],
      };
    });
  }
}
