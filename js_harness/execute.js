// @ts-check
/**
 * Executes a plan and tells how it went: it obeys and decides nothing. Whatever goes wrong becomes a status and
 * messages; after any surprise the device is thrown away, so that the next plan starts on a new one.
 */

import { Fault, Watch, describe, faultOf, message } from "./errors.js";
import { dispatched } from "./regions.js";
import { Run } from "./run.js";
import { noTime } from "./timing.js";

/** @import {Plan, RunResult} from "./wire.js" */
/** @import {Device, Devices} from "./devices.js" */
/** @import {Source} from "./uploads.js" */

/**
 * `keep`: outputs stay on the GPU instead of being read.
 * @typedef {object} Job
 * @property {Plan} plan
 * @property {Map<string, Source>} sources  by buffer name
 * @property {Record<string, string>} expected
 * @property {string[]} read
 * @property {number} deadlineMs
 * @property {boolean} timing
 * @property {boolean} keep
 */
/** @typedef {Omit<RunResult, "type"|"id">} Outcome */
/**
 * @typedef {object} Execution
 * @property {Outcome} outcome
 * @property {Uint8Array<ArrayBuffer>[]} blobs  views of mapped buffers, until `release`
 * @property {Map<string, GPUBuffer>} kept  outputs that stay on the GPU, by name
 * @property {Device|null} device
 * @property {() => void} release  gives the buffers back; for the caller, once it has what it wants of `blobs`
 */

const LOSS_GRACE_MS = 500;

/** Nothing to run and nothing to read: not even a device is needed. @param {Job} job */
function isEmpty(job) {
  const bytes = job.plan.outputs.reduce((sum, output) => sum + output.bytes, 0);
  return bytes === 0 && job.read.length === 0 && !job.keep && dispatched(job.plan).length === 0;
}

/**
 * @param {Job} job
 * @param {Devices} devices
 * @param {Map<string, string>} texts  WGSL by digest
 * @returns {Promise<Execution>}  never rejects
 */
export async function execute(job, devices, texts) {
  /** @type {Execution} */
  const execution = {
    outcome: { status: "ok", outputs: [], read: [], damaged: [], messages: [], timings: noTime(), lost: null },
    blobs: [],
    kept: new Map(),
    device: null,
    release: () => {},
  };
  const watch = new Watch(job.deadlineMs, job.plan.label);
  const run = new Run(job, execution, watch);
  try {
    if (isEmpty(job)) await run.report(new Map());
    else await runOn(await watch.wait(devices.acquire(job.plan.device), "a device"), run, texts);
  } catch (error) {
    const fault = await explain(error, execution.device);
    fail(execution, fault, job.plan.label);
    // A shader that does not compile says nothing against the device, and the other pipelines are worth keeping.
    if (fault.status !== "compile_error") devices.discard(job.plan.device);
  } finally {
    watch.close();
    if (execution.device) execution.device.watch = null;
    run.clock.stop();
  }
  return execution;
}

/** @param {Device} device @param {Run} run @param {Map<string, string>} texts */
async function runOn(device, run, texts) {
  run.execution.device = device;
  device.watch = run.watch;
  device.takeUncaptured();
  await run.on(device, texts);
  const uncaptured = device.takeUncaptured();
  if (uncaptured.length > 0) throw faultOf(uncaptured);
  if (device.lost) throw device.lostFault();
}

/** @param {Execution} execution @param {Fault} fault @param {string} label */
function fail(execution, fault, label) {
  const { outcome, device } = execution;
  Object.assign(outcome, { status: fault.status, outputs: [], read: [], damaged: [] });
  outcome.messages.push(...fault.messages.map((one) => ({ ...one, pass: one.pass || label })));
  if (fault.status === "device_lost" && device?.lost) outcome.lost = `${device.lost.reason}: ${device.lost.message}`;
  execution.blobs = [];
  execution.kept.clear();
}

/** @param {unknown} error @param {Device|null} device @returns {Promise<Fault>} */
async function explain(error, device) {
  if (error instanceof Fault) return error;
  if (error instanceof DOMException && device && (await device.isLostWithin(LOSS_GRACE_MS))) return device.lostFault();
  const stack = error instanceof Error && error.stack ? error.stack : describe(error);
  return new Fault("harness_error", [message("", "harness", stack)]);
}
