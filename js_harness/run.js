// @ts-check
/** One plan on one device, stage by stage: pipelines, buffers, passes in one submit, guards, digests, bytes. */

import { Lease } from "./buffers.js";
import { Fault, faultOf, scoped } from "./errors.js";
import { Readback, digestOf } from "./readback.js";
import { STAMPS, damagedIn, dataOf, dispatched, regionsOf } from "./regions.js";
import { Clock, Timestamps } from "./timing.js";
import { downloads, isRemote, reserve, upload } from "./uploads.js";

/** @import {PassSpec} from "./wire.js" */
/** @import {Device} from "./devices.js" */
/** @import {ScopedError, Watch} from "./errors.js" */
/** @import {Execution, Job} from "./execute.js" */
/** @import {Compiled} from "./pipelines.js" */
/** @import {Views} from "./regions.js" */

/** @type {GPUErrorFilter[]} */
const EVERY_ERROR = ["validation", "out-of-memory", "internal"];

export class Run {
  /** @type {Promise<ScopedError[]>[]} */
  #errors = [];

  /** @param {Job} job @param {Execution} execution @param {Watch} watch */
  constructor(job, execution, watch) {
    this.job = job;
    this.plan = job.plan;
    this.execution = execution;
    this.watch = watch;
    this.clock = new Clock(execution.outcome.timings);
  }

  /** @param {Device} device @param {Map<string, string>} texts */
  async on({ gpu, pipelines, buffers }, texts) {
    const { outcome, kept } = this.execution;
    const passes = dispatched(this.plan);
    const compiled = await this.#compile(passes.map((pass) => pipelines.get(pass, texts)));
    this.clock.lap("compile_ms");

    const lease = new Lease(buffers);
    const encoder = gpu.createCommandEncoder({ label: this.plan.label });
    await this.#fill(gpu, encoder, lease);
    const stamps = new Timestamps(gpu, passes.length, this.job.timing);
    passes.forEach((pass, index) => {
      const group = this.#bind(gpu, lease, pass, compiled[index].layout);
      const encoding = encoder.beginComputePass({ label: pass.label, timestampWrites: stamps.writes(index) });
      encoding.setPipeline(compiled[index].pipeline);
      encoding.setBindGroup(0, group);
      encoding.dispatchWorkgroups(...pass.workgroups);
      encoding.end();
    });
    const { readback, done, mapped } = this.#scoped(gpu, this.plan.label, "submit", EVERY_ERROR, () => {
      stamps.resolve(encoder, lease);
      const readback = new Readback(gpu, encoder, lease, regionsOf(this.job, lease, stamps));
      gpu.queue.submit([encoder.finish()]);
      return { readback, done: gpu.queue.onSubmittedWorkDone(), mapped: readback.map() };
    });
    for (const promise of [done, mapped]) promise.catch(() => {}); // waited for below, unless something failed before
    this.clock.lap("upload_ms");

    const found = (await this.watch.wait(Promise.all(this.#errors), "popErrorScope")).flat();
    if (found.length > 0) throw faultOf(found);
    await this.watch.wait(done, "onSubmittedWorkDone");
    this.clock.lap("gpu_ms");
    await this.watch.wait(mapped, "mapAsync");
    const views = readback.views();
    outcome.damaged = damagedIn(this.plan, views);
    this.clock.lap("readback_ms");
    await this.report(views);
    const ticks = views.get(STAMPS);
    if (ticks) {
      const times = stamps.read(ticks);
      outcome.timings.pass_ns = this.plan.passes.map((pass) => times[passes.indexOf(pass)] ?? null);
    }
    if (this.job.keep) for (const { name, buffer } of this.plan.outputs) kept.set(name, lease.get(buffer));
    this.execution.release = () => {
      readback.unmap();
      stamps.destroy();
      lease.end(new Set(kept.values()));
    };
  }

  /** Digests of the outputs; bytes of those that differ, and of what was asked for: views, not copies.
   * @param {Views} views */
  async report(views) {
    const { outcome, blobs } = this.execution;
    const { expected, keep, read } = this.job;
    /** @param {string} buffer */
    const bytesOf = (buffer) => views.get(dataOf(buffer)) ?? new Uint8Array(0);
    const outputs = keep ? [] : this.plan.outputs;
    const asked = outputs.map(({ name, buffer }) => (name in expected ? digestOf(bytesOf(buffer)) : null));
    const digests = await this.watch.wait(Promise.all(asked), "digests");
    this.clock.lap("digest_ms");
    outputs.forEach(({ name, buffer }, index) => {
      const digest = digests[index];
      const equal = digest !== null && digest === expected[name];
      const blob = equal ? null : blobs.push(bytesOf(buffer)) - 1;
      outcome.outputs.push({ name, equal, digest, blob });
    });
    for (const buffer of read) outcome.read.push({ buffer, blob: blobs.push(bytesOf(buffer)) - 1 });
  }

  /** All of the pipelines, or all that was said against them. @param {Promise<Compiled>[]} asked */
  async #compile(asked) {
    const settled = await this.watch.wait(Promise.allSettled(asked), "pipelines");
    const faults = settled.filter((one) => one.status === "rejected").map((one) => one.reason);
    const unforeseen = faults.find((fault) => !(fault instanceof Fault));
    if (unforeseen) throw unforeseen;
    if (faults.length > 0) {
      const messages = faults.flatMap((fault) => fault.messages);
      throw new Fault(faults[0].status, messages);
    }
    const compiled = settled.filter((one) => one.status === "fulfilled").map((one) => one.value);
    this.execution.outcome.messages.push(...compiled.flatMap((one) => one.messages));
    return compiled;
  }

  /** Every buffer of the plan, with what it holds before the passes.
   * @param {GPUDevice} gpu @param {GPUCommandEncoder} encoder @param {Lease} lease */
  async #fill(gpu, encoder, lease) {
    const { sources } = this.job;
    const { buffers, label } = this.plan;
    const remote = buffers.filter((spec) => isRemote(sources.get(spec.name)));
    this.#scoped(gpu, label, "buffers", EVERY_ERROR, () => {
      for (const spec of remote) reserve(lease, spec);
      buffers.forEach((spec, index) => {
        const source = sources.get(spec.name);
        if (source instanceof GPUBuffer) lease.lend(spec.name, source);
        else if (!isRemote(source)) upload(gpu, encoder, lease, spec, index, source);
      });
    });
    if (remote.length > 0) await this.watch.wait(downloads(buffers, sources, lease, this.watch), "inputs");
  }

  /** @param {GPUDevice} gpu @param {Lease} lease @param {PassSpec} pass @param {GPUBindGroupLayout} layout */
  #bind(gpu, lease, pass, layout) {
    const sizes = new Map(this.plan.buffers.map((spec) => [spec.name, spec.bytes + spec.guard_bytes]));
    return this.#scoped(gpu, pass.label, "createBindGroup", ["validation"], () => {
      const entries = pass.bindings.map(({ binding, buffer }) => {
        return { binding, resource: { buffer: lease.get(buffer), offset: 0, size: sizes.get(buffer) } };
      });
      return gpu.createBindGroup({ label: pass.label, layout, entries });
    });
  }

  /** Calls `body` in error scopes that `on` waits for.
   * @template T @param {GPUDevice} gpu @param {string} label @param {string} scope @param {GPUErrorFilter[]} filters
   * @param {() => T} body @returns {T} */
  #scoped(gpu, label, scope, filters, body) {
    const { value, errors } = scoped(gpu, label, scope, filters, body);
    this.#errors.push(errors);
    return value;
  }
}
