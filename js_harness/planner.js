// @ts-check
/** Plans for getKernel: asked of the server, remembered by request, checked against the values at hand. */

import { GpuTensor } from "./gpu_tensor.js";
import { keepsRule } from "./tensors.js";

/** @import {OutputSpec, Plan} from "./wire.js" */
/** @import {Facts} from "./facts.js" */

/** @typedef {{data: ArrayBufferView, shape: number[], dtype?: string}} HostInput */
/** @typedef {Record<string, HostInput|GpuTensor>} Inputs */
/**
 * The body of POST /plan, as JSON.
 * @typedef {object} PlanRequest
 * @property {string} op
 * @property {number} version
 * @property {Record<string, string>} dtypes  by role
 * @property {Record<string, number[]>} shapes  by role
 * @property {Record<string, number|string|number[]>} attrs
 * @property {Facts} facts
 */
/** @typedef {{input: string, rule: "zero"|"not_zero_or_nan", sentence: string}} ValueCheck */
/** @typedef {{plan: Plan, wgsl: Record<string, string>, valueChecks?: ValueCheck[]}} Planned */

const KEPT_PLANS = 256;
const DEADLINE_MS = 30_000;

export class Planner {
  /** @type {Map<string, Planned>}  oldest first */
  #plans = new Map();
  /** @type {Map<string, string>}  WGSL by digest */
  texts = new Map();

  /** @param {PlanRequest} request @returns {Promise<Planned>}  rejects with the server's sentence where it refuses */
  async plan(request) {
    const { facts, ...rest } = request;
    const key = JSON.stringify(rest);
    const known = this.#plans.get(key);
    if (known) return known;
    const planned = await ask({ ...rest, facts });
    for (const [digest, text] of Object.entries(planned.wgsl)) this.texts.set(digest, text);
    this.#plans.set(key, planned);
    for (const oldest of this.#plans.keys()) {
      if (this.#plans.size <= KEPT_PLANS) break;
      this.#plans.delete(oldest);
    }
    return planned;
  }
}

/** @param {PlanRequest} request @returns {Promise<Planned>} */
async function ask(request) {
  const headers = { "Content-Type": "application/json" };
  const signal = AbortSignal.timeout(DEADLINE_MS);
  const response = await fetch("/plan", { method: "POST", headers, signal, body: JSON.stringify(request) });
  if (!response.ok) throw new Error(`POST /plan gave ${response.status}: ${(await response.text()).slice(0, 500)}`);
  const answer = await response.json();
  if (answer.refused) throw new Error(answer.refused);
  return answer;
}

/** Refuses values the operator does not take. Values that are on the GPU are not known here and pass.
 * @param {ValueCheck[]} checks @param {Inputs} inputs @param {Record<string, string>} dtypes */
export function requireValues(checks, inputs, dtypes) {
  for (const { input, rule, sentence } of checks) {
    const tensor = inputs[input];
    if (!tensor || tensor instanceof GpuTensor) continue;
    if (!keepsRule(rule, tensor.data, dtypes[input], tensor.shape)) throw new Error(sentence);
  }
}

/** Outputs are inferred; what the caller says of them must agree.
 * @param {OutputSpec[]} inferred @param {Record<string, {shape: number[], dtype?: string}>} said */
export function requireOutputs(inferred, said) {
  for (const [name, { shape, dtype }] of Object.entries(said)) {
    const spec = inferred.find((output) => output.name === name);
    if (!spec) throw new Error(`outputs: no output ${name} (there are: ${inferred.map((one) => one.name).join(", ")})`);
    const agrees = String(spec.shape) === String(shape) && (dtype === undefined || dtype === spec.dtype);
    if (!agrees) throw new Error(`outputs: ${name} is ${spec.dtype}[${spec.shape}], not ${dtype ?? ""}[${shape}]`);
  }
}
