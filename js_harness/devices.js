// @ts-check
/**
 * GPU devices: one for each distinct set of features and limits, requested with exactly those, replaced once lost.
 * A device's pipelines and pooled buffers live and die with it.
 */

import { Fault, describe, message, scopedError } from "./errors.js";
import { adapterSeen, requestAdapter } from "./facts.js";
import { Buffers } from "./buffers.js";
import { Pipelines } from "./pipelines.js";

/** @import {DeviceSpec} from "./wire.js" */
/** @import {ScopedError, Watch} from "./errors.js" */

// After its GPU process died Chromium needs a moment before it offers an adapter again. Some crashes later it never
// does until the page is loaded anew; then only the first run waits in vain.
const RECOVERY_MS = 3000;
const RETRY_MS = 200;

/** @param {number} ms */
const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

/** One live device, and what has happened to it. */
export class Device {
  /** @type {GPUDeviceLostInfo|null} */
  lost = null;
  /** @type {ScopedError[]}  errors that no scope caught, since the last run took them */
  uncaptured = [];
  /** @type {Watch|null}  of the run in progress: ends with the device */
  watch = null;

  /** @param {GPUDevice} gpu */
  constructor(gpu) {
    this.gpu = gpu;
    this.pipelines = new Pipelines(gpu);
    this.buffers = new Buffers(gpu);
    gpu.addEventListener("uncapturederror", (event) => {
      this.uncaptured.push(scopedError(event.error, "", "uncapturederror"));
    });
    /** @type {Promise<void>} */
    this.end = gpu.lost.then((info) => {
      this.lost = info;
      this.watch?.fail(this.lostFault());
    });
  }

  lostFault() {
    const text = `the device was lost (${this.lost?.reason}): ${this.lost?.message}`;
    return new Fault("device_lost", [message("", "device.lost", text)]);
  }

  /** Whether the device proves lost within `ms`: a rejected map often comes before the news of the loss.
   * @param {number} ms */
  async isLostWithin(ms) {
    if (!this.lost) await Promise.race([this.end, sleep(ms)]);
    return this.lost !== null;
  }

  takeUncaptured() {
    return this.uncaptured.splice(0);
  }
}

/** @param {DeviceSpec} spec */
function keyOf(spec) {
  return JSON.stringify([[...spec.features].sort(), Object.entries(spec.limits).sort()]);
}

/** Whether a refused request is not the plan's fault. @param {GPUAdapter} adapter @param {DeviceSpec} spec */
function supports(adapter, spec) {
  const limits = /** @type {Record<string, any>} */ (adapter.limits);
  const within = Object.entries(spec.limits).every(([name, value]) =>
    name.startsWith("min") ? value >= limits[name] : value <= limits[name],
  );
  return within && spec.features.every((feature) => adapter.features.has(feature));
}

export class Devices {
  /** @type {Map<string, Promise<Device>>} */
  #devices = new Map();
  /** @type {number|null}  since when devices that the adapter ought to give are not to be had */
  #failingSince = null;

  /** @param {DeviceSpec} spec @returns {Promise<Device>} */
  async acquire(spec) {
    const key = keyOf(spec);
    const known = this.#devices.get(key);
    if (known) {
      const device = await known;
      if (!device.lost) return device;
      if (this.#devices.get(key) === known) this.#devices.delete(key);
      return this.acquire(spec);
    }
    const created = this.#create(spec);
    this.#devices.set(key, created);
    created.catch(() => this.#devices.get(key) === created && this.#devices.delete(key));
    return created;
  }

  /** @param {DeviceSpec} spec @returns {Promise<Device>} */
  async #create(spec) {
    for (;;) {
      const device = await this.#request(spec);
      // An adapter that is gone may still give a device, lost from the start.
      if (device instanceof Device && !(await device.isLostWithin(0))) {
        this.#failingSince = null;
        return device;
      }
      if (!adapterSeen()) throw new Fault("harness_error", [message("", "requestAdapter", String(device))]);
      const now = performance.now();
      this.#failingSince ??= now;
      if (now - this.#failingSince > RECOVERY_MS) {
        const text = device instanceof Device ? "every new device is lost at once" : device;
        throw new Fault("device_lost", [message("", "requestDevice", text)]);
      }
      await sleep(RETRY_MS);
    }
  }

  /** @param {DeviceSpec} spec @returns {Promise<Device|string>}  or why there is none, though there ought to be */
  async #request(spec) {
    const adapter = await requestAdapter();
    if (!adapter) return "requestAdapter() gave null: there is no adapter";
    try {
      const requiredFeatures = /** @type {GPUFeatureName[]} */ (spec.features);
      return new Device(await adapter.requestDevice({ requiredFeatures, requiredLimits: spec.limits }));
    } catch (error) {
      if (error instanceof DOMException && supports(adapter, spec)) return describe(error);
      throw new Fault("validation_error", [message("", "requestDevice", describe(error))]);
    }
  }

  /** Throws the device away; the next run gets a new one. @param {DeviceSpec} spec */
  discard(spec) {
    const key = keyOf(spec);
    const known = this.#devices.get(key);
    this.#devices.delete(key);
    known?.then((device) => device.gpu.destroy(), () => {});
  }

  /** Destroys every device, also under a run in progress, which then ends as device_lost. */
  async destroyAll() {
    for (const device of await Promise.allSettled(this.#devices.values())) {
      if (device.status === "fulfilled") device.value.gpu.destroy();
    }
  }
}
