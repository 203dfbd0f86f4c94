// @ts-check
/**
 * A compute shader on wgsl_reflect's interpreter: its module scope, and invocations that move one command at a time.
 * The library parses, lowers statements to commands and moves among them; values are evaluator.js's.
 */

import { Evaluator, Place, local } from "./evaluator.js";
import { library, parsed } from "./module.js";
import { BOOL, Types, U32, Unsupported, Value, typed, vectorOf } from "./types.js";

/** @import {Command, Context, Frame, Node, Stack} from "../vendor/wgsl_reflect.module.js" */
/** @import {Memory} from "./evaluator.js" */
/** @import {Library} from "./module.js" */

/** @typedef {[number, number, number]} Triple */
/** @typedef {{workgroup: Triple, localIndex: number}} Invocation */

const BARRIERS = new Set(["workgroupBarrier", "storageBarrier"]);
const V3 = vectorOf(U32, 3);
const DEEPEST = 512; // frames, of calls and blocks; WGSL has no recursion
const MOST_INLINE = 1_000_000; // commands of a call that no step can stop in

/** The library's own stack, which it does not export. @implements {Stack} */
class Frames {
  /** @type {Frame[]} */
  states = [];

  get isEmpty() {
    return this.states.length === 0;
  }

  get last() {
    return this.states.at(-1) ?? null;
  }

  pop() {
    this.states.pop();
  }
}

/** One invocation on its way. */
export class Lane {
  stack = new Frames();

  /** @param {Context} context */
  constructor(context) {
    this.context = context;
  }

  /** The frame that moves next. */
  get frame() {
    while (this.stack.last?.isAtEnd) this.stack.pop();
    return this.stack.last;
  }

  get command() {
    return this.frame?.getCurrentCommand() ?? null;
  }

  /** How many calls are open. */
  get depth() {
    return this.stack.states.filter(({ isFunctionFrame }) => isFunctionFrame).length;
  }

  /** The barrier that it stands before. A block's first statement runs with the step that enters the block. */
  get barrier() {
    const { command } = this;
    const node = command?.node ?? command?.statements?.flat(Infinity)[0];
    return isBarrier(node) ? node : null;
  }
}

export class Machine {
  /** @type {Map<string, Node>}  the module's constants */
  #constants = new Map();
  /** @type {Map<string, Value>}  those that were computed */
  #computed = new Map();

  /** @param {Library} lib @param {string} text @param {string} entry */
  constructor(lib, text, entry) {
    this.lib = lib;
    const { nodes, sizes } = parsed(lib, text);
    this.nodes = nodes;
    this.debug = new lib.WgslDebug("");
    const exec = this.debug._exec;
    this.base = exec.context.clone();
    this.types = new Types(nodes);
    this.evaluator = new Evaluator(this.types, (node, context) => this.#run(node, context), (name) => this.#constant(name));
    exec.evalExpression = (node, context) => this.#forLibrary(this.evaluator.evaluate(node, context));
    exec.execStatement = (node, context) => this.#statement(node, context);
    for (const node of nodes) {
      if (node.astNodeType === "const") this.#constants.set(node.name, node);
      if (node.astNodeType === "function") this.base.functions.set(node.name, { name: node.name, node });
      if (node.astNodeType === "override") throw new Unsupported("override", node.line);
      if (node.astNodeType === "enable" && node.name !== "subgroups") throw new Unsupported(`enable ${node.name}`, node.line);
    }
    for (const { arrayType, countNode } of sizes) arrayType.count = this.evaluator.value(countNode, this.base).numbers[0];
    const found = this.base.functions.get(entry)?.node;
    if (!found) throw new Unsupported(`no entry point ${entry}`);
    this.entry = found;
    const [x, y, z] = this.#sizes();
    this.size = /** @type {Triple} */ ([x, y, z]);
    this.waits = nodes.some((node) => node.astNodeType === "function" && hasBarrier(node.body));
  }

  /** @param {string} text @param {string} entry */
  static async of(text, entry) {
    return new Machine(await library(), text, entry);
  }

  get lanes() {
    return this.size[0] * this.size[1] * this.size[2];
  }

  /** Module-scope variables: bound buffers, and zeroed workgroup memory. @param {(group: number, binding: number) => Memory|null} memoryOf */
  bind(memoryOf) {
    for (const node of this.#variables()) {
      if (node.storage === "private") continue;
      const type = this.types.of(node.type);
      const [group, binding] = ["group", "binding"].map((name) => Number(attributeOf(node, name)));
      const memory = node.storage === "workgroup" ? { words: new Uint32Array(type.words), stored: null } : memoryOf(group, binding);
      if (memory) this.base.createVariable(node.name, new Place(type, memory, 0), node);
    }
  }

  #variables() {
    return this.nodes.filter(({ astNodeType }) => astNodeType === "var");
  }

  /** @param {Invocation} invocation @param {Triple} workgroups  of the dispatch */
  lane({ workgroup, localIndex }, workgroups) {
    const context = this.base.clone();
    for (const node of this.#variables().filter(({ storage }) => storage === "private")) {
      const place = local(this.types.of(node.type));
      if (node.value) place.store(typed(this.evaluator.value(node.value, this.base), place.type));
      context.createVariable(node.name, place, node);
    }
    const [width, height] = this.size;
    const id = [localIndex % width, Math.floor(localIndex / width) % height, Math.floor(localIndex / (width * height))];
    /** @type {Record<string, Value>} */
    const builtins = {
      workgroup_id: new Value(V3, Uint32Array.from(workgroup)),
      num_workgroups: new Value(V3, Uint32Array.from(workgroups)),
      local_invocation_id: new Value(V3, Uint32Array.from(id)),
      local_invocation_index: Value.of(U32, localIndex),
      global_invocation_id: new Value(V3, Uint32Array.from(workgroup, (at, axis) => at * this.size[axis] + id[axis])),
    };
    for (const argument of this.entry.args) {
      const name = attributeOf(argument, "builtin");
      if (!Object.hasOwn(builtins, String(name))) throw new Unsupported(`@builtin(${name})`, argument.line);
      context.createVariable(argument.name, builtins[String(name)], argument);
    }
    const lane = new Lane(context);
    const frame = this.debug.createStackFrame(this.entry.body, context);
    frame.isFunctionFrame = true;
    lane.stack.states.push(frame);
    return lane;
  }

  /** Whether the step began before a barrier, which all of the workgroup have reached. */
  #passing = false;

  /** One command. The library says what it cannot do on the console: here that is an error. @param {Lane} lane */
  step(lane) {
    this.#passing = lane.barrier !== null;
    if (this.#passing && lane.stack.states.some(({ parentCallExpr }) => parentCallExpr)) throw new Unsupported("a barrier in a function that returns a value", lane.barrier?.line);
    const line = lineOf(lane.command);
    const say = console.error;
    /** @type {string[]} */
    const said = [];
    console.error = (...what) => said.push(what.map(String).join(" "));
    try {
      this.debug.stepStack(lane.stack, true);
    } catch (error) {
      if (!(error instanceof Unsupported)) throw new Unsupported(`what wgsl_reflect's interpreter fails at (${error instanceof Error ? error.message : error})`, line);
      error.line ||= line;
      throw error;
    } finally {
      console.error = say;
    }
    if (said.length > 0) throw new Unsupported(`what wgsl_reflect's interpreter cannot do (${said[0]})`, line);
    if (lane.stack.states.length > DEEPEST) throw new Unsupported("calls that go too deep", line);
  }

  /** A call inside an expression that the library does not take apart, to its end. @param {Node} node @param {Context} context */
  #run(node, context) {
    const { node: called } = /** @type {{node: Node}} */ (context.getFunction(node.name));
    const frame = this.debug.createStackFrame(called.body, this.base.clone());
    called.args.forEach((/** @type {Node} */ argument, /** @type {number} */ index) => {
      frame.context.createVariable(argument.name, this.evaluator.evaluate(node.args[index], context), argument);
    });
    frame.isFunctionFrame = true;
    frame.parentCallExpr = node.astNodeType === "callExpr" ? node : null;
    const stack = new Frames();
    stack.states.push(frame);
    let left = MOST_INLINE;
    while (this.debug.stepStack(stack, true)) {
      left -= 1;
      if (left === 0) throw new Unsupported(`${node.name}(), which takes more than ${MOST_INLINE.toLocaleString("en")} commands inside of an expression`, node.line);
    }
  }

  /** @param {Node} node @param {Context} context */
  #statement(node, context) {
    if (node.astNodeType === "return") return node.value?.type === null ? this.lib.VoidData.void : this.evaluator.evaluate(node.value, context);
    if (isBarrier(node)) {
      if (!this.#passing) throw new Unsupported(`${node.name}() in a place where wgsl_reflect does not wait for it`, node.line);
      return null;
    }
    this.evaluator.execute(node, context);
    return null;
  }

  /** Conditions are the library's own scalars; all else it only hands on. @param {Value|Place} found */
  #forLibrary(found) {
    if (found instanceof Place || found.type !== BOOL) return found;
    return Object.assign(new this.lib.ScalarData(found.words[0], this.debug._exec.typeInfo.bool), { own: found });
  }

  /** @param {string} name @returns {Value|null} */
  #constant(name) {
    const known = this.#computed.get(name);
    if (known) return known;
    const node = this.#constants.get(name);
    if (!node) return null;
    const value = this.evaluator.value(node.value, this.base);
    // a literal's node has the declared type already; where none is declared, the parser writes one that WGSL does not give
    const made = node.type && node.value.astNodeType !== "literalExpr" ? typed(value, this.types.of(node.type)) : value;
    this.#computed.set(name, made);
    return made;
  }

  #sizes() {
    const given = [attributeOf(this.entry, "workgroup_size")].flat().map((text) => {
      const number = Number.parseInt(String(text), 10);
      return Number.isNaN(number) ? (this.#constant(String(text))?.numbers[0] ?? NaN) : number;
    });
    if (given.some(Number.isNaN)) throw new Unsupported("@workgroup_size of an expression", this.entry.line);
    return [...given, 1, 1].slice(0, 3);
  }
}

/** @param {Node} node @param {string} name @returns {string|string[]|undefined} */
const attributeOf = (node, name) => node.attributes?.find((/** @type {any} */ one) => one.name === name)?.value;

/** @param {any} node @returns {boolean} */
const isBarrier = (node) => node?.astNodeType === "call" && BARRIERS.has(node.name);

/** @param {any} nodes @returns {boolean} */
function hasBarrier(nodes) {
  return [nodes].flat(Infinity).some((node) => node && (
    isBarrier(node) || [node.body, node.else, ...(node.elseif ?? []).map((/** @type {any} */ one) => one.body), ...(node.cases ?? []).map((/** @type {any} */ one) => one.body)].some((part) => part && hasBarrier(part))));
}

/** @param {Command|null} command */
export const lineOf = (command) => command?.statement?.line || command?.node?.line || command?.line || 0;

