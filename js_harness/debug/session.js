// @ts-check
/** One specimen on this page's adapter: opened, run, run again with edited WGSL. Holds what came of the last run. */

import { Devices } from "../devices.js";
import { execute } from "../execute.js";
import * as desk from "./desk.js";

/** @import {Facts} from "../facts.js" */
/** @import {Outcome} from "../execute.js" */
/** @import {Opened, Specimen} from "./desk.js" */
/** @import {Shown} from "./tensor_view.js" */

const DEADLINE_MS = 60_000;

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

  /** @param {string} query @param {string[]} mask */
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
    const { plan, inputs } = this.specimen;
    const blobs = /** @type {Opened} */ (this.opened).blobs;
    const texts = new Map();
    const passes = plan.passes.map((pass, index) => {
      const digest = this.edits.has(index) ? `edited ${crypto.randomUUID()}` : pass.wgsl;
      texts.set(digest, this.textOf(index));
      return { ...pass, wgsl: digest };
    });
    const features = plan.device.features;
    const stamped = timing && this.facts.features.includes("timestamp-query") && !features.includes("timestamp-query");
    const device = { ...plan.device, features: stamped ? [...features, "timestamp-query"] : features };
    const read = plan.buffers.filter(({ kind, bytes }) => (kind === "output" || kind === "intermediate") && bytes > 0);
    const job = {
      plan: { ...plan, device, passes, outputs: [] },
      sources: new Map(inputs.map(({ buffer, blob }) => [buffer, blobs[blob]])),
      expected: {},
      read: plan.passes.length > 0 ? read.map(({ name }) => name) : [],
      deadlineMs: DEADLINE_MS,
      timing: stamped || (timing && features.includes("timestamp-query")),
      keep: false,
    };
    const execution = await execute(job, this.devices, texts);
    this.outcome = execution.outcome;
    this.bytes.clear();
    for (const { buffer, blob } of execution.outcome.read) this.bytes.set(buffer, execution.blobs[blob].slice());
    execution.release();
    return execution.outcome;
  }

  /** Every buffer of the plan as it can be looked at now. @returns {Shown[]} */
  buffers() {
    if (!this.runs) return [];
    const { plan, inputs, expected, fields } = this.specimen;
    const blobs = /** @type {Opened} */ (this.opened).blobs;
    return plan.buffers.map((spec) => {
      const input = inputs.find(({ buffer }) => buffer === spec.name);
      const words = spec.words ? new Uint8Array(new Uint32Array(spec.words).buffer) : null;
      const known = input ? blobs[input.blob] : words;
      const output = plan.outputs.find(({ buffer }) => buffer === spec.name);
      const right = output && expected.find(({ name }) => name === output.name);
      return {
        layout: { name: spec.name, kind: spec.kind, dtype: spec.dtype, shape: spec.shape, packing: spec.packing },
        actual: known ?? this.bytes.get(spec.name)?.subarray(0, spec.bytes) ?? null,
        expected: right ? blobs[right.blob] : null,
        fields: fields[spec.name] ?? [],
      };
    });
  }
}
