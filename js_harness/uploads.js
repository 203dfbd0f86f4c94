// @ts-check
/**
 * What a run's buffers hold before its passes: data, poison, and guard words at the end of each binding. The guards lie
 * inside the binding because WebGPU's bounds checks keep a stray write from ever leaving it.
 */

import { POISON_BYTES } from "./buffers.js";

/** @import {BufferSpec} from "./wire.js" */
/** @import {Lease} from "./buffers.js" */
/** @import {Watch} from "./errors.js" */

/** @typedef {{url: string, bytes: number}} Remote */
/** @typedef {Uint8Array<ArrayBuffer> | Remote | GPUBuffer} Source  a GPUBuffer is bound as it is, guards and all */

const SMALL_BYTES = 2 ** 16; // up to this, data and guards travel in one write

/** @param {Source|undefined} source @returns {source is Remote} */
export const isRemote = (source) => source !== undefined && "url" in source;

/** @param {BufferSpec} spec */
function usageOf(spec) {
  const kind = spec.kind === "uniform" ? GPUBufferUsage.UNIFORM : GPUBufferUsage.STORAGE;
  return kind | GPUBufferUsage.COPY_SRC | GPUBufferUsage.COPY_DST;
}

/** Garbage, and another word at every place of every buffer. @param {number} index  of the buffer in its plan
 * @param {number} guardBytes @returns {Uint32Array<ArrayBuffer>} */
export function guardWords(index, guardBytes) {
  return Uint32Array.from({ length: guardBytes / 4 }, (_, word) => Math.imul(index * 64 + word + 1, 0x9e3779b1) >>> 0);
}

/**
 * Takes a buffer for `spec` and writes all but large poison, which needs the encoder. Belongs inside an error scope.
 * @param {GPUDevice} gpu
 * @param {GPUCommandEncoder} encoder
 * @param {Lease} lease
 * @param {BufferSpec} spec
 * @param {number} index
 * @param {Uint8Array<ArrayBuffer>|undefined} data
 */
export function upload(gpu, encoder, lease, spec, index, data) {
  const buffer = lease.take(spec.bytes + spec.guard_bytes, usageOf(spec), spec.name);
  lease.lend(spec.name, buffer);
  const words = spec.words ? new Uint8Array(Uint32Array.from(spec.words).buffer) : data;
  if (words && words.byteLength > spec.bytes) {
    throw new Error(`${spec.name}: ${words.byteLength} bytes for a buffer of ${spec.bytes}`);
  }
  if (!words && spec.fill === null && spec.kind !== "output" && spec.kind !== "intermediate") {
    throw new Error(`${spec.name}: a buffer of kind ${spec.kind} came without data, words or fill`);
  }
  const guards = guardWords(index, spec.guard_bytes);
  if (spec.bytes <= SMALL_BYTES || (words && words.byteLength < spec.bytes)) {
    const whole = new Uint8Array(spec.bytes + spec.guard_bytes);
    if (words) whole.set(words);
    else if (spec.fill !== null) new Uint32Array(whole.buffer, 0, spec.bytes / 4).fill(spec.fill);
    whole.set(new Uint8Array(guards.buffer), spec.bytes);
    gpu.queue.writeBuffer(buffer, 0, whole);
    return;
  }
  if (words) gpu.queue.writeBuffer(buffer, 0, words);
  else if (spec.fill !== null) pour(encoder, lease, buffer, spec);
  gpu.queue.writeBuffer(buffer, spec.bytes, guards);
}

/** @param {GPUCommandEncoder} encoder @param {Lease} lease @param {GPUBuffer} buffer @param {BufferSpec} spec */
function pour(encoder, lease, buffer, spec) {
  if (spec.fill === 0) return encoder.clearBuffer(buffer, 0, spec.bytes);
  const poison = lease.buffers.poison(spec.fill ?? 0);
  for (let at = 0; at < spec.bytes; at += POISON_BYTES) {
    encoder.copyBufferToBuffer(poison, 0, buffer, at, Math.min(POISON_BYTES, spec.bytes - at));
  }
}

/** Takes a mapped buffer for an input that comes by URL. Belongs inside an error scope.
 * @param {Lease} lease @param {BufferSpec} spec */
export function reserve(lease, spec) {
  lease.lend(spec.name, lease.takeMapped(spec.bytes + spec.guard_bytes, usageOf(spec), spec.name));
}

/**
 * Brings in the inputs that come by URL, all at once, each into its mapped buffer as the bytes arrive.
 * @param {BufferSpec[]} specs
 * @param {Map<string, Source>} sources
 * @param {Lease} lease
 * @param {Watch} watch
 */
export async function downloads(specs, sources, lease, watch) {
  const all = specs.map((spec, index) => {
    const source = sources.get(spec.name);
    return isRemote(source) ? download(lease.get(spec.name), spec, index, source, watch) : undefined;
  });
  await Promise.all(all);
}

/** @param {GPUBuffer} buffer @param {BufferSpec} spec @param {number} index @param {Remote} source
 * @param {Watch} watch */
async function download(buffer, spec, index, source, watch) {
  const response = await fetch(source.url, { signal: watch.signal });
  if (!response.ok || !response.body) throw new Error(`${spec.name}: GET ${source.url} gave ${response.status}`);
  const target = new Uint8Array(buffer.getMappedRange());
  const reader = response.body.getReader();
  let offset = 0;
  for (let part = await reader.read(); !part.done; part = await reader.read()) {
    if (offset + part.value.byteLength > spec.bytes) {
      throw new Error(`${spec.name}: GET ${source.url} gave more than ${spec.bytes} bytes`);
    }
    target.set(part.value, offset);
    offset += part.value.byteLength;
  }
  if (offset !== source.bytes) {
    throw new Error(`${spec.name}: GET ${source.url} gave ${offset} bytes, not ${source.bytes}`);
  }
  target.set(new Uint8Array(guardWords(index, spec.guard_bytes).buffer), spec.bytes);
  buffer.unmap();
}
