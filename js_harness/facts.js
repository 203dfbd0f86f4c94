// @ts-check
/** What this browser and its adapter offer, as plain data for planning. Creates no device. */

import { Watch, describe } from "./errors.js";

const DEADLINE_MS = 20_000;
// Without a GPU a Chromium with a window starts its GPU process twice. In between there is no adapter: the first
// request was refused in 5 of 8 starts, the second, 100 ms later, never.
const TRIES = 5;
const RETRY_MS = 100;

/** @typedef {{componentType: string, resultComponentType: string, M: number, N: number, K: number}} MatrixConfig */
/**
 * Strings are "" and numbers 0 where the browser does not tell (device, description, driver, backend and type need
 * --enable-webgpu-developer-features).
 * @typedef {object} AdapterFacts
 * @property {string} vendor
 * @property {string} architecture
 * @property {string} device
 * @property {string} description
 * @property {string} driver
 * @property {string} backend
 * @property {string} type
 * @property {boolean} isFallbackAdapter
 * @property {number} subgroupMinSize
 * @property {number} subgroupMaxSize
 * @property {MatrixConfig[]} subgroupMatrixConfigs
 */
/**
 * @typedef {object} Facts
 * @property {AdapterFacts|null} adapter
 * @property {string[]} features
 * @property {string[]} languageFeatures
 * @property {Record<string, number>} limits
 * @property {string} userAgent
 * @property {boolean} secureContext
 * @property {boolean} gpu  whether navigator.gpu exists
 * @property {string|null} reason  why there is no adapter
 */

let seen = false;

/** Whether this page has ever been given an adapter: if so, that there is none now will pass. */
export const adapterSeen = () => seen;

/** @returns {Promise<GPUAdapter|null>} */
export async function requestAdapter() {
  const adapter = await navigator.gpu?.requestAdapter({ powerPreference: "high-performance" });
  seen ||= Boolean(adapter);
  return adapter ?? null;
}

/** @param {any} info  newer fields than the type declarations know @param {any} adapter @returns {AdapterFacts} */
function adapterFacts(info, adapter) {
  /** @param {string} name */
  const text = (name) => String(info[name] ?? "");
  const configs = [...(info.subgroupMatrixConfigs ?? [])].map((config) => ({
    componentType: config.componentType,
    resultComponentType: config.resultComponentType,
    M: config.M,
    N: config.N,
    K: config.K,
  }));
  return {
    vendor: text("vendor"),
    architecture: text("architecture"),
    device: text("device"),
    description: text("description"),
    driver: text("driver"),
    backend: text("backend"),
    type: text("type"),
    isFallbackAdapter: Boolean(info.isFallbackAdapter ?? adapter.isFallbackAdapter),
    subgroupMinSize: info.subgroupMinSize ?? 0,
    subgroupMaxSize: info.subgroupMaxSize ?? 0,
    subgroupMatrixConfigs: configs,
  };
}

/** @param {GPUSupportedLimits} limits @returns {Record<string, number>} */
function limitsOf(limits) {
  /** @type {Record<string, number>} */
  const found = {};
  // Limits are getters on the prototype: for-in sees them, Object.keys does not.
  for (const name in limits) {
    const value = /** @type {any} */ (limits)[name];
    if (typeof value === "number") found[name] = value;
  }
  return found;
}

function reasonForNone() {
  if (!isSecureContext) return "navigator.gpu is missing: no secure context (use http://127.0.0.1 or https)";
  if (!navigator.gpu) return "navigator.gpu is missing: this browser has no WebGPU, or it is switched off";
  return "requestAdapter() gave null: no usable GPU, or Chromium was started without --enable-unsafe-webgpu";
}

/** @returns {Promise<Facts>} */
export async function probe() {
  let adapter = null;
  let failure = null;
  const watch = new Watch(DEADLINE_MS, "facts");
  try {
    for (let tries = 0; !adapter && navigator.gpu && tries < TRIES; tries += 1) {
      if (tries > 0) await new Promise((resolve) => setTimeout(resolve, RETRY_MS));
      adapter = await watch.wait(requestAdapter(), "requestAdapter");
    }
  } catch (error) {
    failure = `requestAdapter() failed: ${describe(error)}`;
  } finally {
    watch.close();
  }
  return {
    adapter: adapter ? adapterFacts(adapter.info, adapter) : null,
    features: adapter ? [...adapter.features].sort() : [],
    languageFeatures: navigator.gpu ? [...navigator.gpu.wgslLanguageFeatures].sort() : [],
    limits: adapter ? limitsOf(adapter.limits) : {},
    userAgent: navigator.userAgent,
    secureContext: isSecureContext,
    gpu: Boolean(navigator.gpu),
    reason: adapter ? null : (failure ?? reasonForNone()),
  };
}
