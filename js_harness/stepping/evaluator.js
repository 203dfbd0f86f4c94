// @ts-check
/**
 * Expressions and statements on wgsl_reflect's tree, to the bit. The library's interpreter moves from statement to
 * statement and asks here for each; what is not known here is Unsupported, with its line.
 */

import { ATOMIC, binary, bitcast, called, converted, isKnown, unary } from "./numbers.js";
import { BOOL, LITERAL, U32, I32, F32, Unsupported, Value, scalarOf, solid, typed, vectorOf } from "./types.js";

/** @import {Context, Node} from "../vendor/wgsl_reflect.module.js" */
/** @import {Scalar, Type, Types} from "./types.js" */

/** @typedef {{words: Uint32Array, stored: ((at: number, count: number, of: Scalar) => void)|null}} Memory
 *   stored: told of each store that may be seen from outside */

/** A place in memory, which a pointer holds, too. */
export class Place {
  /** @param {Type} type @param {Memory} memory @param {number} at */
  constructor(type, memory, at) {
    this.type = type;
    this.memory = memory;
    this.at = at;
  }

  load() {
    return new Value(this.type, this.memory.words.slice(this.at, this.type.words ? this.at + this.type.words : undefined));
  }

  /** @param {Value} value */
  store(value) {
    for (const { at, count, of } of solid(this.type)) {
      this.memory.words.set(value.words.subarray(at, at + count), this.at + at);
      this.memory.stored?.(this.at + at, count, of);
    }
  }
}

/** @param {Type} type @returns {Place} */
export const local = (type) => new Place(type, { words: new Uint32Array(type.words), stored: null }, 0);

const SCALARS = { u32: U32, i32: I32, f32: F32, bool: BOOL };
const LETTERS = ["xyzw", "rgba"];

export class Evaluator {
  /** @param {Types} types @param {(node: Node, context: Context) => unknown} run  a function of the text, to its end
   * @param {(name: string) => Value|null} constant  of the module, by name */
  constructor(types, run, constant) {
    this.types = types;
    this.run = run;
    this.constant = constant;
  }

  /** @param {any} node @param {Context} context @returns {Value|Place}  a place where a pointer is meant */
  evaluate(node, context) {
    try {
      return this.#evaluate(node, context);
    } catch (error) {
      if (error instanceof Unsupported && !error.line) error.line = node.line;
      throw error;
    }
  }

  /** @param {any} node @param {Context} context @returns {Value} */
  value(node, context) {
    const found = this.evaluate(node, context);
    if (found instanceof Place) throw new Unsupported("a pointer where a value is meant", node.line);
    return found;
  }

  /** @param {any} node @param {Context} context @returns {Value|Place} */
  #evaluate(node, context) {
    switch (node.astNodeType) {
      case "literalExpr": return this.#literal(node);
      case "varExpr": case "constExpr": {
        const found = this.#named(node, context);
        if (!(found instanceof Place)) return this.#part(found, node.postfix, context);
        if (this.#isPointer(node, context)) return found;
        return this.#load(found, node.postfix, context);
      }
      case "unaryOp":
        if (node.operator === "&") return this.place(node.right, context);
        if (node.operator === "*") return this.place(node, context).load();
        return this.#part(unary(node.operator, this.value(node.right, context)), node.postfix, context);
      case "binaryOp": return this.#part(this.#binary(node, context), node.postfix, context);
      case "bitcastExpr": return this.#part(bitcast(this.value(node.value, context), this.types.of(node.type)), node.postfix, context);
      case "createExpr": return this.#part(this.#created(this.types.of(node.type), node.args ?? [], context), node.postfix, context);
      case "callExpr": return this.#part(this.#called(node, context), node.postfix, context);
      default: throw new Unsupported(`the expression ${node.astNodeType}`);
    }
  }

  /** @param {any} node */
  #literal({ type, value }) {
    const name = type.name === "x32" ? "literal" : type.name;
    const of = name === "literal" ? LITERAL : SCALARS[/** @type {keyof typeof SCALARS} */ (name)];
    if (!of) throw new Unsupported(name);
    return Value.of(of, value.value);
  }

  /** @param {any} node @param {Context} context @returns {Value|Place} */
  #named({ name, line }, context) {
    const variable = context.getVariable(name);
    const found = /** @type {any} */ (variable?.value ?? this.constant(name));
    if (!found) throw new Unsupported(`the name ${name}`, line);
    const value = found.own ?? found; // a condition's, for the library
    const isArgument = variable?.node?.astNodeType === "argument";
    return value instanceof Value && isArgument ? typed(value, this.types.of(variable?.node?.type)) : value;
  }

  /** Whether a name stands for a pointer: a parameter, or a `let` that holds one. @param {any} node @param {Context} context */
  #isPointer(node, context) {
    const declared = context.getVariable(node.name)?.node;
    return declared?.astNodeType !== "var" && !node.postfix;
  }

  /** @param {any} node @param {Context} context @returns {Place} */
  place(node, context) {
    if (node.astNodeType === "unaryOp" && node.operator === "*") {
      const found = this.evaluate(node.right, context);
      if (!(found instanceof Place)) throw new Unsupported("* of what is no pointer", node.line);
      return this.#inside(found, node.postfix, context);
    }
    const found = node.astNodeType === "varExpr" ? this.#named(node, context) : null;
    if (!(found instanceof Place)) throw new Unsupported("an assignment to this", node.line);
    return this.#inside(found, node.postfix, context);
  }

  /** @param {Place} from @param {any} postfix @param {Context} context @returns {Place} */
  #inside(from, postfix, context) {
    const [place, rest] = this.#walk(from, postfix, context);
    if (rest) throw new Unsupported(`an assignment to .${rest.value}`, rest.line);
    return place;
  }

  /** The place that `[i]` and `.member` behind a name lead to, and `.xyz` with what follows it, which is no place.
   * @param {Place} from @param {any} postfix @param {Context} context @returns {[Place, any]} */
  #walk(from, postfix, context) {
    let { type, at } = from;
    let part = postfix;
    for (; part; part = part.postfix) {
      if (part.astNodeType !== "stringExpr") {
        at += this.#index(part, type, context, from.memory.words.length - at) * (type.kind === "array" ? type.stride : 1);
        type = /** @type {any} */ (type).of;
      } else if (type.kind === "struct") {
        const member = type.members.find(({ name }) => name === part.value);
        if (!member) throw new Unsupported(`the member ${part.value} of ${type.name}`, part.line);
        at += member.at;
        type = member.type;
      } else {
        const [letter, ...more] = lettersOf(part.value, type);
        if (more.length > 0) break;
        at += letter;
        type = scalarOf(type);
      }
    }
    return [new Place(type, from.memory, at), part];
  }

  /** @param {Place} from @param {any} postfix @param {Context} context @returns {Value} */
  #load(from, postfix, context) {
    const [place, rest] = this.#walk(from, postfix, context);
    return this.#part(place.load(), rest, context);
  }

  /** An index that lies inside; what a GPU gives outside is its own affair. @param {any} part @param {Type} type
   * @param {Context} context @param {number} words  up to the memory's end */
  #index(part, type, context, words) {
    if (type.kind !== "array" && type.kind !== "vector") throw new Unsupported(`an index into ${type.name}`, part.line);
    const index = this.value(part.index, context).numbers[0];
    const count = type.count || Math.floor(words / /** @type {any} */ (type).stride);
    if (index < 0 || index >= count) throw new Unsupported(`index ${index} of ${type.name}${type.count ? "" : ` with ${count} elements`}: out of bounds, where WGSL leaves open what is read or written`, part.line);
    return index;
  }

  /** The same of a value. @param {Value} value @param {any} postfix @param {Context} context @returns {Value} */
  #part(value, postfix, context) {
    if (!postfix) return value;
    const { type, words } = value;
    if (postfix.astNodeType === "stringExpr" && type.kind === "vector" && postfix.value.length > 1) {
      const letters = lettersOf(postfix.value, type);
      const chosen = Uint32Array.from(letters, (letter) => words[letter]);
      return this.#part(new Value(vectorOf(type.of, letters.length), chosen), postfix.postfix, context);
    }
    return this.#load(new Place(type, { words, stored: null }, 0), postfix, context);
  }

  /** @param {any} node @param {Context} context */
  #binary({ operator, left, right }, context) {
    const isFloatLiteral = (/** @type {any} */ one) => one.astNodeType === "literalExpr" && one.type.name === "f32";
    if (isFloatLiteral(left) && isFloatLiteral(right)) throw new Unsupported("arithmetic on two float literals");
    const first = this.value(left, context);
    if (operator === "&&" || operator === "||") {
      const decided = (first.words[0] !== 0) === (operator === "||");
      return decided ? first : this.value(right, context);
    }
    return binary(operator, first, this.value(right, context));
  }

  /** @param {Type} type @param {any[]} nodes @param {Context} context @returns {Value} */
  #created(type, nodes, context) {
    const values = nodes.map((node) => this.value(node, context));
    if (values.length === 0) return Value.zero(type);
    if (type.kind === "scalar") return converted(values[0], type);
    if (type.kind === "vector") {
      const scalars = values.flatMap((value) => this.#scalars(value)).map((one) => converted(one, type.of).words[0]);
      return new Value(type, scalars.length === 1 ? new Uint32Array(type.count).fill(scalars[0]) : Uint32Array.from(scalars));
    }
    const made = Value.zero(type);
    if (type.kind === "struct") type.members.forEach((member, index) => made.words.set(typed(values[index], member.type).words, member.at));
    else if (type.kind === "array") values.forEach((value, index) => made.words.set(typed(value, type.of).words, index * type.stride));
    return made;
  }

  /** @param {Value} value */
  #scalars(value) {
    if (value.type === LITERAL) return [value];
    const of = scalarOf(value.type);
    return Array.from(value.words, (word) => new Value(of, Uint32Array.of(word)));
  }

  /** @param {any} node @param {Context} context @returns {Value} */
  #called(node, context) {
    const { name, args } = node;
    const own = context.getFunction(name);
    if (own) {
      if (node.cachedReturnValue === null) this.run(node, context);
      const value = node.cachedReturnValue;
      node.cachedReturnValue = null; // the library keeps it, and would give it again in the next turn of a loop
      if (!(value instanceof Value)) throw new Unsupported(`${name}(), which returned nothing`);
      return typed(value, this.types.of(own.node.returnType));
    }
    if (name.startsWith("atomic")) return this.#atomic(name, args, context);
    if (this.types.isDeclared(name)) return this.#created(this.types.of({ name, line: node.line }), args ?? [], context);
    if (name === "arrayLength") return this.#arrayLength(this.evaluate(args[0], context));
    if (!isKnown(name)) throw new Unsupported(`${name}()`);
    return called(name, args.map((/** @type {any} */ one) => this.value(one, context)));
  }

  /** Of the binding, as WGSL counts it: guard words and all. @param {Value|Place} place */
  #arrayLength(place) {
    if (!(place instanceof Place) || place.type.kind !== "array" || place.type.count > 0) throw new Unsupported("arrayLength() of this");
    return Value.of(U32, Math.floor((place.memory.words.length - place.at) / place.type.stride));
  }

  /** @param {string} name @param {any[]} args @param {Context} context @returns {Value}  what was there before */
  #atomic(name, args, context) {
    const place = /** @type {Place} */ (this.evaluate(args[0], context));
    const before = place.load();
    if (name === "atomicLoad") return before;
    const act = ATOMIC[name];
    if (!act) throw new Unsupported(`${name}()`);
    const operand = typed(this.value(args[1], context), place.type);
    place.store(Value.of(scalarOf(place.type), act(before.numbers[0], operand.numbers[0])));
    return before;
  }

  /** A statement that moves nowhere. @param {any} node @param {Context} context */
  execute(node, context) {
    try {
      this.#execute(node, context);
    } catch (error) {
      if (error instanceof Unsupported) error.line = node.line || error.line;
      throw error;
    }
  }

  /** @param {any} node @param {Context} context */
  #execute(node, context) {
    switch (node.astNodeType) {
      case "let": case "const": {
        const found = this.evaluate(node.value, context);
        context.createVariable(node.name, found instanceof Value ? this.#declared(found, node) : found, node);
        return;
      }
      case "var": {
        const value = node.value ? this.#declared(this.value(node.value, context), node) : null;
        const place = local(value ? value.type : this.types.of(node.type));
        if (value) place.store(value);
        context.createVariable(node.name, place, node);
        return;
      }
      case "assign": {
        const place = this.place(node.variable, context);
        const value = this.value(node.value, context);
        const operator = node.operator.slice(0, -1);
        place.store(typed(operator ? binary(operator, place.load(), value) : value, place.type));
        return;
      }
      case "increment": {
        const place = this.place(node.variable, context);
        place.store(binary(node.operator[0], place.load(), Value.of(LITERAL, 1)));
        return;
      }
      case "call":
        if (context.getFunction(node.name)) this.run(node, context);
        else if (node.name.startsWith("atomic")) this.#atomic(node.name, node.args, context);
        else throw new Unsupported(`${node.name}()`);
        return;
      case "staticAssert":
        return;
      default:
        throw new Unsupported(`the statement ${node.astNodeType}`);
    }
  }

  /** With the type that its declaration gives, or a literal's own. @param {Value} value @param {any} node */
  #declared(value, node) {
    if (value.type !== LITERAL) return value;
    const declared = node.type && node.type.name !== "x32";
    if (!declared) return node.astNodeType === "const" ? value : typed(value, I32);
    return typed(value, this.types.of(node.type));
  }
}

/** @param {string} text @param {Type} type */
function lettersOf(text, type) {
  const letters = [...text].map((letter) => Math.max(...LETTERS.map((set) => set.indexOf(letter))));
  if (type.kind !== "vector" || letters.some((letter) => letter < 0 || letter >= type.count)) throw new Unsupported(`.${text} of ${type.name}`);
  return letters;
}
