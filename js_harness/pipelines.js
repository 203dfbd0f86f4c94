// @ts-check
/**
 * One device's shader modules and compute pipelines, each made once. Layouts are explicit, from the plan: an automatic
 * one rejects bindings that a shader declares and does not use. A pipeline that failed is forgotten, never handed out.
 */

import { Fault, describe, faultOf, message, scoped } from "./errors.js";

/** @import {Message, PipelineSpec} from "./wire.js" */

/** @typedef {{pipeline: GPUComputePipeline, layout: GPUBindGroupLayout, messages: Message[]}} Compiled */
/** @typedef {{module: GPUShaderModule, messages: Promise<Message[]>}} CompiledModule */

export class Pipelines {
  /** @type {Map<string, CompiledModule>} */
  #modules = new Map();
  /** @type {Map<string, Promise<Compiled>>} */
  #pipelines = new Map();

  /** @param {GPUDevice} gpu */
  constructor(gpu) {
    this.gpu = gpu;
  }

  /**
   * @param {PipelineSpec} spec
   * @param {Map<string, string>} texts  WGSL by digest
   * @returns {Promise<Compiled>}  rejects with a Fault
   */
  get(spec, texts) {
    const bindings = spec.bindings.map(({ binding, type }) => [binding, type]);
    const key = JSON.stringify([spec.wgsl, spec.entry_point, bindings]);
    let compiled = this.#pipelines.get(key);
    if (!compiled) {
      compiled = this.#compile(spec, texts);
      this.#pipelines.set(key, compiled);
      compiled.catch(() => this.#pipelines.delete(key));
    }
    return compiled;
  }

  /** @param {PipelineSpec} spec @param {Map<string, string>} texts @returns {Promise<Compiled>} */
  async #compile(spec, texts) {
    const { module, messages } = this.#module(spec, texts);
    const { value: made, errors } = scoped(this.gpu, spec.label, "createPipelineLayout", ["validation"], () => {
      const entries = spec.bindings.map(({ binding, type }) => {
        return { binding, visibility: GPUShaderStage.COMPUTE, buffer: { type } };
      });
      const layout = this.gpu.createBindGroupLayout({ label: spec.label, entries });
      return { layout, whole: this.gpu.createPipelineLayout({ label: spec.label, bindGroupLayouts: [layout] }) };
    });
    // Asked for before the module's messages are known, which saves a round trip to the GPU process.
    const asked = this.gpu.createComputePipelineAsync({
      label: spec.label,
      layout: made.whole,
      compute: { module, entryPoint: spec.entry_point ?? "main" },
    });
    const [moduleMessages, layoutErrors, pipeline] = await Promise.allSettled([messages, errors, asked]);
    if (moduleMessages.status === "rejected") throw moduleMessages.reason;
    if (layoutErrors.status === "rejected") throw layoutErrors.reason;
    const said = moduleMessages.value.map((one) => ({ ...one, pass: spec.label }));
    if (said.some((one) => one.kind === "error")) throw new Fault("compile_error", said);
    if (layoutErrors.value.length > 0) throw faultOf(layoutErrors.value);
    if (pipeline.status === "rejected") throw pipelineFault(pipeline.reason, spec.label, said);
    return { pipeline: pipeline.value, layout: made.layout, messages: said };
  }

  /** @param {PipelineSpec} spec @param {Map<string, string>} texts @returns {CompiledModule} */
  #module(spec, texts) {
    const known = this.#modules.get(spec.wgsl);
    if (known) return known;
    const code = texts.get(spec.wgsl);
    if (code === undefined) throw new Error(`${spec.label}: the WGSL with digest ${spec.wgsl} was never sent`);
    const { value: module, errors } = scoped(this.gpu, spec.label, "createShaderModule", ["validation"], () =>
      this.gpu.createShaderModule({ label: spec.label, code }),
    );
    const made = { module, messages: messagesOf(module, spec.label, errors) };
    this.#modules.set(spec.wgsl, made);
    made.messages.then(
      (said) => said.some((one) => one.kind === "error") && this.#modules.delete(spec.wgsl),
      () => this.#modules.delete(spec.wgsl),
    );
    return made;
  }
}

/**
 * @param {GPUShaderModule} module
 * @param {string} label
 * @param {Promise<import("./errors.js").ScopedError[]>} errors
 * @returns {Promise<Message[]>}
 */
async function messagesOf(module, label, errors) {
  const [info, caught] = await Promise.all([module.getCompilationInfo(), errors]);
  const said = info.messages.map((one) =>
    message(label, "getCompilationInfo", one.message, {
      kind: one.type,
      line: one.lineNum,
      column: one.linePos,
      offset: one.offset,
      length: one.length,
    }),
  );
  // The scope repeats the first message in words; it matters only where the compiler itself kept silent.
  return said.some((one) => one.kind === "error") ? said : [...said, ...caught.map((error) => error.message)];
}

/** @param {any} error @param {string} label @param {Message[]} said */
function pipelineFault(error, label, said) {
  if (!(error instanceof GPUPipelineError)) throw error;
  // "internal" is the driver's own compiler.
  const status = error.reason === "validation" ? "validation_error" : "compile_error";
  return new Fault(status, [...said, message(label, "createComputePipelineAsync", describe(error))]);
}
