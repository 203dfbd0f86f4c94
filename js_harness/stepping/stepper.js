// @ts-check
/**
 * One invocation of one pass, line by line: where it is, what its variables hold, what it stored. Where the shader waits
 * for its workgroup, the other invocations go on to each barrier, too. No DOM, no GPU.
 */

import { Place } from "./evaluator.js";
import { Machine, lineOf } from "./machine.js";
import { plainName } from "./module.js";
import { Unsupported, Value, textOf } from "./types.js";

/** @import {Context, Frame} from "../vendor/wgsl_reflect.module.js" */
/** @import {Memory} from "./evaluator.js" */
/** @import {Invocation, Lane, Triple} from "./machine.js" */
/** @import {Scalar} from "./types.js" */

/**
 * `bindings` of group 0, each with what its buffer holds before the pass, guard words and all; `stores`: whether the
 * shader may write there.
 * @typedef {object} Shader
 * @property {string} text
 * @property {string} entry
 * @property {Triple} workgroups
 * @property {{binding: number, buffer: string, words: Uint32Array, stores: boolean}[]} bindings
 */
/** @typedef {{buffer: string, at: number, word: number, text: string, line: number}} Store  the last to each word; at: which word */
/** @typedef {{name: string, type: string, value: string, changed: boolean, scope: string}} Variable */

const MOST_COMMANDS = 1_000_000; // of one step, all invocations together: some seconds
const SLICE = 10_000; // commands between two chances for the page to answer

export class Stepper {
  steps = 0;
  /** @type {Unsupported|null} */
  stopped = null;
  /** @type {Map<string, Store>} */
  #stores = new Map();
  /** @type {Lane[]}  the other invocations, once there is a barrier to wait at */
  #others = [];
  /** @type {Map<string, string>}  values when a step last began where they can be seen, by unique name */
  #before = new Map();
  #commands = 0;
  #line = 0;

  /** @param {Machine} machine @param {Shader} shader @param {Invocation} invocation */
  constructor(machine, shader, invocation) {
    this.machine = machine;
    this.shader = shader;
    this.invocation = invocation;
    const memories = new Map(shader.bindings.map((one) => [one.binding, this.#memory(one)]));
    machine.bind((group, binding) => (group === 0 ? (memories.get(binding) ?? null) : null));
    this.lane = machine.lane(invocation, shader.workgroups);
    this.#line = lineOf(this.lane.command);
  }

  /** Unsupported where the shader has what cannot be stepped through. @param {Shader} shader @param {Invocation} invocation */
  static async of(shader, invocation) {
    const machine = await Machine.of(shader.text, shader.entry);
    if (!(invocation.localIndex < machine.lanes)) throw new Error(`a workgroup has ${machine.lanes} invocations, 0 to ${machine.lanes - 1}.`);
    const inside = invocation.workgroup.every((at, axis) => at < shader.workgroups[axis]);
    if (!inside) throw new Error(`the pass has ${shader.workgroups.join(" × ")} workgroups, counted from 0.`);
    return new Stepper(machine, shader, invocation);
  }

  /** The line that the next step begins with; 0 at the end. */
  get line() {
    return this.lane.command ? this.#line : 0;
  }

  get done() {
    return this.lane.command === null;
  }

  /** The functions that are open, the innermost first. */
  get calls() {
    return this.lane.stack.states.filter(({ isFunctionFrame }) => isFunctionFrame).map((frame) => frame.context.currentFunctionName || this.shader.entry).reverse();
  }

  get stores() {
    return [...this.#stores.values()].sort((a, b) => a.buffer.localeCompare(b.buffer) || a.at - b.at);
  }

  /** To the next line, into a call if there is one. */
  step() {
    const [line, depth] = [this.line, this.lane.depth];
    return this.#until(() => this.line !== line || this.lane.depth !== depth);
  }

  /** To the next line of this function. */
  over() {
    const [line, depth] = [this.line, this.lane.depth];
    return this.#until(() => this.lane.depth < depth || (this.lane.depth === depth && this.line !== line));
  }

  /** Out of this function. */
  out() {
    const { depth } = this.lane;
    return this.#until(() => this.lane.depth < depth);
  }

  /** To the next time that it is on that line. @param {number} line */
  runTo(line) {
    let left = this.line !== line;
    return this.#until(() => {
      left ||= this.line !== line;
      return left && this.line === line;
    });
  }

  toEnd() {
    return this.#until(() => false);
  }

  /** Moves on until that holds after a command, the end, or the bound. @param {() => boolean} there
   * @returns {Promise<"there"|"done"|"bound"|"stopped">} */
  async #until(there) {
    for (const { key, text } of this.#named()) this.#before.set(key, text);
    this.#commands = 0;
    this.steps += 1;
    try {
      while (!this.done) {
        if (this.lane.barrier && !(await this.#meet())) return "bound";
        this.#move(this.lane);
        if (there()) return "there";
        if (await this.#spent()) return "bound";
      }
    } catch (error) {
      if (!(error instanceof Unsupported)) throw error;
      this.stopped = error;
      return "stopped";
    }
    return "done";
  }

  /** @param {Lane} lane */
  #move(lane) {
    this.#recording = lane === this.lane;
    this.machine.step(lane);
    if (this.#recording) this.#line = lineOf(lane.command) || this.#line;
  }

  #recording = false;

  /** Counts a command; whether there were too many. */
  async #spent() {
    this.#commands += 1;
    if (this.#commands % SLICE === 0) await pause();
    return this.#commands >= MOST_COMMANDS;
  }

  /** The others of the workgroup come to the barrier that this one stands before, and pass it; false if they take more
   * commands than a step may, and are on their way. */
  async #meet() {
    if (this.#others.length === 0) {
      const { lanes } = this.machine;
      const indices = Array.from({ length: lanes }, (_, index) => index).filter((index) => index !== this.invocation.localIndex);
      this.#others = indices.map((localIndex) => this.machine.lane({ ...this.invocation, localIndex }, this.shader.workgroups));
    }
    const { barrier } = this.lane;
    for (const other of this.#others) {
      while (other.command && !other.barrier) {
        this.#move(other);
        if (await this.#spent()) return false;
      }
      if (other.barrier !== barrier) throw new Unsupported("a barrier that not all of the workgroup reach", barrier?.line);
    }
    for (const other of this.#others) this.#move(other);
    return true;
  }

  /** @param {Shader["bindings"][number]} binding @returns {Memory} */
  #memory({ buffer, words, stores }) {
    const own = words.slice();
    const stored = (/** @type {number} */ from, /** @type {number} */ count, /** @type {Scalar} */ of) => {
      if (!this.#recording) return;
      for (let at = from; at < from + count; at += 1) {
        const text = textOf(new Value(of, own.slice(at, at + 1)));
        this.#stores.set(`${buffer} ${at}`, { buffer, at, word: own[at], text, line: this.#line });
      }
    };
    return { words: own, stored: stores ? stored : null };
  }

  /** @returns {Variable[]}  of the innermost function, the last declared first */
  get variables() {
    return this.#named().map(({ key, name, type, text }) => {
      const before = this.#before.get(key);
      return { name, type, value: text, changed: before !== text, scope: this.calls[0] ?? this.shader.entry };
    });
  }

  #named() {
    /** @type {{key: string, name: string, type: string, text: string}[]} */
    const found = [];
    const seen = new Set();
    for (let context = /** @type {Context|null} */ (this.lane.frame?.context ?? this.lane.context); context && context !== this.machine.base; context = context.parent) {
      const names = [...context.variables.values()].reverse();
      for (const { name, value } of names) {
        const key = name;
        const plain = plainName(name);
        if (seen.has(plain)) continue;
        seen.add(plain);
        const held = /** @type {any} */ (value);
        const shown = held instanceof Place ? held.load() : (held?.own ?? held);
        if (shown instanceof Value) found.push({ key, name: plain, type: shown.type.name === "literal" ? "i32" : shown.type.name, text: textOf(shown) });
      }
      if (this.#isFunction(context)) break;
    }
    return found;
  }

  /** Whether a context is a function's outermost. @param {Context} context */
  #isFunction(context) {
    return this.lane.stack.states.some((/** @type {Frame} */ frame) => frame.isFunctionFrame && frame.context === context);
  }
}

/** Lets the page answer; a timer would be held back in a tab that is not looked at. @returns {Promise<void>} */
const pause = () =>
  new Promise((resolve) => {
    const { port1, port2 } = new MessageChannel();
    port1.onmessage = () => resolve();
    port2.postMessage(null);
  });

/**
 * What the invocation left in buffers beside what the GPU left there.
 * @param {Store[]} stores
 * @param {(buffer: string) => Uint32Array|null} gpu  the words after the run; null where they cannot be compared
 */
export function compared(stores, gpu) {
  const rows = stores.map((store) => ({ ...store, gpu: gpu(store.buffer)?.[store.at] ?? null }));
  return { rows, same: rows.filter((row) => row.gpu === row.word).length, different: rows.filter((row) => row.gpu !== null && row.gpu !== row.word).length };
}
