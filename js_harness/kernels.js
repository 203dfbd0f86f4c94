// @ts-check
/**
 * getKernel: typed arrays in, typed arrays out, as a web page uses a kernel. The server plans, as it does for tests,
 * and the same code executes the plan.
 *
 *     const kernel = await getKernel("webgpu-kernels/ai.onnx.ConvInteger", { version: 1 });
 *     const { y } = await kernel({ x: { data: xData, shape: xShape }, w: { data: wData, shape: wShape } });
 */

import { Devices } from "./devices.js";
import { Watch } from "./errors.js";
import { execute } from "./execute.js";
import { probe } from "./facts.js";
import { GpuTensor } from "./gpu_tensor.js";
import { Planner, requireOutputs, requireValues } from "./planner.js";
import { dtypeOf, pack, unpack } from "./tensors.js";

/** @import {Plan} from "./wire.js" */
/** @import {Execution} from "./execute.js" */
/** @import {Facts} from "./facts.js" */
/** @import {Inputs, PlanRequest} from "./planner.js" */
/** @import {Numbers} from "./tensors.js" */
/** @import {Source} from "./uploads.js" */

/** @typedef {{data: Numbers, shape: number[], dtype: string}} HostOutput */
/**
 * @typedef {object} CallOptions
 * @property {PlanRequest["attrs"]} [attrs]  only those that are given
 * @property {Record<string, {shape: number[], dtype?: string}>} [outputs]  inferred anyway; must agree
 * @property {"cpu"|"gpu"} [output]  where the outputs are wanted
 * @property {number} [deadlineMs]
 */

const DEADLINE_MS = 60_000;

const planner = new Planner();
let devices = new Devices();
/** @type {Promise<Facts>|null} */
let probed = null;
/** @type {Promise<unknown>}  calls run one after the other */
let last = Promise.resolve();

/**
 * @param {string} id  an operator, whoever's name stands before it: "webgpu-kernels/ai.onnx.ConvInteger"
 * @param {{version: number}} options  the only version is 1
 */
export async function getKernel(id, options) {
  if (options?.version !== 1) throw new Error(`getKernel("${id}"): version must be 1, not ${options?.version}`);
  const opId = id.slice(id.lastIndexOf("/") + 1);
  probed ??= probe();
  const facts = await probed;
  if (!facts.adapter) throw new Error(`getKernel("${id}"): ${facts.reason}`);

  /**
   * @overload
   * @param {Inputs} inputs
   * @param {CallOptions & {output: "gpu"}} options
   * @returns {Promise<Record<string, GpuTensor>>}
   */
  /**
   * @overload
   * @param {Inputs} inputs
   * @param {CallOptions} [options]
   * @returns {Promise<Record<string, HostOutput>>}
   */
  /** @param {Inputs} inputs @param {CallOptions} [options] @returns {Promise<any>} */
  function kernel(inputs, options = {}) {
    const result = last.then(() => call(opId, facts, inputs, options));
    last = result.catch(() => {});
    return result;
  }
  return Object.assign(kernel, { opId });
}

/** Frees every device, and with it all GPU tensors. Kernels go on working, on new devices. */
export async function disposeSharedKernelRuntime() {
  await last;
  const old = devices;
  devices = new Devices();
  await old.destroyAll();
}

/**
 * @param {string} op
 * @param {Facts} facts
 * @param {Inputs} inputs
 * @param {CallOptions} options
 * @returns {Promise<Record<string, HostOutput|GpuTensor>>}
 */
async function call(op, facts, inputs, { attrs = {}, outputs = {}, output = "cpu", deadlineMs = DEADLINE_MS }) {
  const given = Object.entries(inputs).filter(([, tensor]) => tensor !== undefined && tensor !== null);
  /** @type {Record<string, string>} */
  const dtypes = {};
  /** @type {Record<string, number[]>} */
  const shapes = {};
  for (const [role, tensor] of given) {
    dtypes[role] = tensor instanceof GpuTensor ? tensor.dtype : dtypeOf(role, tensor);
    shapes[role] = [...tensor.shape];
  }
  const { plan, valueChecks = [] } = await planner.plan({ op, version: 1, dtypes, shapes, attrs, facts });
  requireValues(valueChecks, inputs, dtypes);
  requireOutputs(plan.outputs, outputs);
  const watch = new Watch(deadlineMs, plan.label);
  const device = await watch.wait(devices.acquire(plan.device), "a device").finally(() => watch.close());
  /** @type {Map<string, Source>} */
  const sources = new Map();
  for (const [role, tensor] of given) {
    const onGpu = tensor instanceof GpuTensor;
    sources.set(role, onGpu ? tensor.bufferOn(role, device) : pack(tensor.data, dtypes[role], tensor.shape));
  }
  const job = { plan, sources, expected: {}, read: [], deadlineMs, timing: false, keep: output === "gpu" };
  const execution = await execute(job, devices, planner.texts);
  try {
    return results(plan, execution);
  } finally {
    execution.release();
  }
}

/** @param {Plan} plan @param {Execution} execution */
function results(plan, { outcome, blobs, kept, device }) {
  if (outcome.status !== "ok" || outcome.damaged.length > 0) {
    const said = outcome.messages.filter((one) => one.kind === "error").map((one) => one.text);
    for (const name of outcome.damaged) said.push(`${name} was written beyond its end`);
    throw new Error(`${plan.label}: ${outcome.status}: ${said.join("\n")}`);
  }
  return Object.fromEntries(
    plan.outputs.map((spec, index) => {
      const buffer = kept.get(spec.name);
      if (buffer && device) return [spec.name, new GpuTensor(spec, buffer, device)];
      const bytes = blobs[outcome.outputs[index].blob ?? 0].slice();
      return [spec.name, { data: unpack(bytes, spec.dtype, spec.shape), shape: spec.shape, dtype: spec.dtype }];
    }),
  );
}
