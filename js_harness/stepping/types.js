// @ts-check
/**
 * WGSL's types as they lie in memory, and values of them. All is counted in words of 32 bits, which every type that can
 * be stepped through consists of. A value keeps its words, so that copies and bitcasts change no bit.
 */

/** @typedef {"u32"|"i32"|"f32"|"bool"|"literal"} ScalarName  "literal": an integer literal without a type as yet */
/** @typedef {{kind: "scalar", name: ScalarName, words: number, align: number}} Scalar */
/** @typedef {{kind: "vector", name: string, of: Scalar, count: number, words: number, align: number}} Vector */
/** @typedef {{kind: "array", name: string, of: Type, count: number, stride: number, words: number, align: number}} ArrayOf
 *   count 0: as long as its buffer */
/** @typedef {{kind: "struct", name: string, members: {name: string, type: Type, at: number}[], words: number, align: number}} Struct */
/** @typedef {{kind: "pointer", name: string, to: Type, words: number, align: number}} Pointer */
/** @typedef {Scalar|Vector|ArrayOf|Struct|Pointer} Type */

/** A construct that is not stepped through, with its name, and its line where that is known. */
export class Unsupported extends Error {
  /** @param {string} construct @param {number} [line] */
  constructor(construct, line = 0) {
    super(construct);
    this.line = line;
  }
}

/** @param {ScalarName} name @returns {Scalar} */
const scalar = (name) => ({ kind: "scalar", name, words: 1, align: 1 });

export const [U32, I32, F32, BOOL, LITERAL] = /** @type {ScalarName[]} */ (["u32", "i32", "f32", "bool", "literal"]).map(scalar);

/** @type {Record<string, Scalar>} */
const SCALARS = { u32: U32, i32: I32, f32: F32, bool: BOOL };
/** @type {Record<string, Scalar>} */
const SUFFIXES = { u: U32, i: I32, f: F32 };

/** @param {Scalar} of @param {number} count @returns {Vector} */
export const vectorOf = (of, count) => ({ kind: "vector", name: `vec${count}<${of.name}>`, of, count, words: count, align: count === 2 ? 2 : 4 });

/** @param {number} words @param {number} align */
const roundUp = (words, align) => Math.ceil(words / align) * align;

/** @param {Type} of @param {number} count @returns {ArrayOf} */
export function arrayOf(of, count) {
  const stride = roundUp(of.words, of.align);
  return { kind: "array", name: `array<${of.name}${count ? `, ${count}` : ""}>`, of, count, stride, words: stride * count, align: of.align };
}

/** @param {string} name @param {{name: string, type: Type}[]} members @returns {Struct} */
export function structOf(name, members) {
  let [words, align] = [0, 1];
  const placed = members.map((member) => {
    const at = roundUp(words, member.type.align);
    words = at + member.type.words;
    align = Math.max(align, member.type.align);
    return { ...member, at };
  });
  return { kind: "struct", name, members: placed, words: roundUp(words, align), align };
}

/** The types that a text declares, from the parser's nodes. */
export class Types {
  /** @type {Map<string, any>}  structs and aliases by name */
  #declared = new Map();
  /** @type {Map<string, Type>} */
  #known = new Map();

  /** @param {any[]} nodes  the module's */
  constructor(nodes) {
    for (const node of nodes) if (["struct", "alias"].includes(node.astNodeType)) this.#declared.set(node.name, node);
  }

  /** @param {string} name */
  isDeclared(name) {
    return this.#declared.has(name);
  }

  /** @param {any} node @returns {Type} */
  of(node) {
    const { name } = node;
    if (node.astNodeType === "array") {
      if (!node.format) throw new Unsupported("an array whose type is inferred", node.line);
      return arrayOf(this.of(node.format), Math.max(0, Number(node.count)));
    }
    if (node.astNodeType === "pointer") {
      const to = this.of(node.type);
      return { kind: "pointer", name: `ptr<${to.name}>`, to, words: 1, align: 1 };
    }
    if (name === "atomic") return this.of(node.format);
    const width = /^vec([234])([uif])?$/.exec(name);
    if (width) {
      const of = width[2] ? SUFFIXES[width[2]] : node.format && this.of(node.format);
      if (of?.kind !== "scalar") throw new Unsupported(`${name} without a type`, node.line);
      return vectorOf(of, Number(width[1]));
    }
    return SCALARS[name] ?? this.#named(name, node);
  }

  /** @param {string} name @param {any} node @returns {Type} */
  #named(name, node) {
    const known = this.#known.get(name);
    if (known) return known;
    const found = this.#declared.get(name);
    if (!found) throw new Unsupported(/^(f16|vec[234]h)$/.test(name) ? "f16" : `the type ${name}`, node.line);
    if (found.astNodeType === "struct") {
      const placed = found.members.find((/** @type {any} */ one) => one.attributes?.some((/** @type {any} */ given) => ["size", "align"].includes(given.name)));
      if (placed) throw new Unsupported(`@size or @align of ${name}.${placed.name}`, found.line);
    }
    const made = found.astNodeType === "alias" ? this.of(found.type) : structOf(name, found.members.map((/** @type {any} */ one) => ({ name: one.name, type: this.of(one.type) })));
    this.#known.set(name, made);
    return made;
  }
}

const bits = new DataView(new ArrayBuffer(4));

/** @param {number} word @param {ScalarName} name */
export function decode(word, name) {
  if (name === "i32") return word | 0;
  if (name !== "f32") return word;
  bits.setUint32(0, word);
  return bits.getFloat32(0);
}

/** @param {number} number @param {ScalarName} name  a f32 is rounded, an integer taken modulo 2^32 */
export function encode(number, name) {
  if (name !== "f32") return number >>> 0;
  bits.setFloat32(0, number);
  return bits.getUint32(0);
}

export class Value {
  /** @param {Type} type @param {Uint32Array} words  as long as the type @param {number} [number]  a literal's */
  constructor(type, words, number = 0) {
    this.type = type;
    this.words = words;
    this.number = number;
  }

  /** @param {Scalar} type @param {number} number */
  static of(type, number) {
    if (type === LITERAL) return new Value(LITERAL, new Uint32Array(1), number);
    return new Value(type, Uint32Array.of(encode(number, type.name)));
  }

  /** @param {Type} type */
  static zero(type) {
    return new Value(type, new Uint32Array(type.words));
  }

  /** The numbers of a scalar or a vector. */
  get numbers() {
    if (this.type === LITERAL) return [this.number];
    const { name } = scalarOf(this.type);
    const numbers = [];
    for (const word of this.words) numbers.push(decode(word, name));
    return numbers;
  }
}

/** The scalar that a scalar or a vector consists of. @param {Type} type @returns {Scalar} */
export function scalarOf(type) {
  if (type.kind === "scalar") return type;
  if (type.kind === "vector") return type.of;
  throw new Unsupported(`arithmetic on ${type.name}`);
}

/** An integer literal takes the type that it meets. @param {Value} value @param {Type} type */
export function typed(value, type) {
  return value.type === LITERAL && type.kind === "scalar" && type !== LITERAL ? Value.of(type, value.number) : value;
}

/** The words of a type that are not padding. @param {Type} type @param {number} [at]
 * @returns {{at: number, count: number, of: Scalar}[]} */
export function solid(type, at = 0) {
  if (type.kind === "struct") return type.members.flatMap((member) => solid(member.type, at + member.at));
  if (type.kind === "array") return Array.from({ length: type.count }, (_, index) => solid(type.of, at + index * type.stride)).flat();
  return [{ at, count: type.words, of: scalarOf(type) }];
}

/** A value as people read it. @param {Value} value @returns {string} */
export function textOf({ type, words, number }) {
  if (type === LITERAL) return String(number);
  if (type.kind === "scalar") return type === BOOL ? String(words[0] !== 0) : scalarText(decode(words[0], type.name), type);
  if (type.kind === "vector") return `(${Array.from(words, (word) => textOf(new Value(type.of, Uint32Array.of(word)))).join(", ")})`;
  if (type.kind === "struct") return `{${type.members.map((one) => `${one.name}: ${textOf(new Value(one.type, words.subarray(one.at, one.at + one.type.words)))}`).join(", ")}}`;
  if (type.kind === "pointer") return "pointer";
  const [count, most] = [type.count || Math.floor(words.length / type.stride), 16];
  const shown = Array.from({ length: Math.min(count, most) }, (_, index) => textOf(new Value(type.of, words.subarray(index * type.stride, index * type.stride + type.of.words))));
  return `[${shown.join(", ")}${count > most ? `, … ${count - most} more` : ""}]`;
}

/** @param {number} number @param {Scalar} type */
function scalarText(number, type) {
  if (Object.is(number, -0)) return "-0";
  if (type !== F32 || !Number.isFinite(number)) return String(number);
  const digits = [6, 7, 8, 9].find((count) => Math.fround(Number(number.toPrecision(count))) === number) ?? 9;
  return String(Number(number.toPrecision(digits)));
}
