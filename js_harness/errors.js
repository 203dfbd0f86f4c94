// @ts-check
/**
 * What can go wrong, as data: faults with a status from the closed set, error scopes with a label, waits that end.
 * Nothing here decides what to do about a fault.
 */

/** @import {Message, Status} from "./wire.js" */

/** A run's end other than "ok": a status and the messages that say why. */
export class Fault extends Error {
  /** @param {Status} status @param {Message[]} messages */
  constructor(status, messages) {
    super(messages.map((message) => message.text).join("\n"));
    this.status = status;
    this.messages = messages;
  }
}

/**
 * @param {string} pass  label of the pass, or of the plan
 * @param {string} scope  the call that spoke
 * @param {string} text
 * @param {Partial<Message>} [rest]
 * @returns {Message}
 */
export function message(pass, scope, text, rest = {}) {
  return { kind: "error", pass, line: 0, column: 0, offset: 0, length: 0, text, scope, ...rest };
}

/** @param {unknown} error @returns {string} */
export function describe(error) {
  return error instanceof Error || error instanceof DOMException ? `${error.name}: ${error.message}` : String(error);
}

/** @typedef {{message: Message, status: Status}} ScopedError */

/** @param {GPUError} error @param {string} pass @param {string} scope @returns {ScopedError} */
export function scopedError(error, pass, scope) {
  /** @type {Status} */
  let status = "harness_error"; // an internal error outside compilation: nobody foresaw it
  if (error instanceof GPUOutOfMemoryError) status = "out_of_memory";
  else if (error instanceof GPUValidationError) status = "validation_error";
  return { message: message(pass, scope, error.message), status };
}

/** The worst of several errors names the status; lack of memory comes first, for it makes everything after it invalid.
 * @param {ScopedError[]} errors */
export function faultOf(errors) {
  const found = errors.map((error) => error.status);
  /** @type {Status[]} */
  const order = ["out_of_memory", "validation_error"];
  const status = order.find((candidate) => found.includes(candidate)) ?? "harness_error";
  return new Fault(status, errors.map((error) => error.message));
}

/**
 * Calls `body`, which must not wait, inside error scopes of its own. The scopes are closed before anyone else's code
 * runs, also when `body` throws, so that they stay balanced whatever happens.
 * @template T
 * @param {GPUDevice} device
 * @param {string} pass
 * @param {string} scope
 * @param {GPUErrorFilter[]} filters
 * @param {() => T} body
 * @returns {{value: T, errors: Promise<ScopedError[]>}}
 */
export function scoped(device, pass, scope, filters, body) {
  for (const filter of filters) device.pushErrorScope(filter);
  let value;
  /** @type {Promise<GPUError | null>[]} */
  const popped = [];
  try {
    value = body();
  } finally {
    for (const _ of filters) popped.push(device.popErrorScope());
    for (const pop of popped) pop.catch(() => {}); // whoever waits for `errors` gets it; after a throw nobody does
  }
  const errors = Promise.all(popped).then((found) =>
    found.filter((error) => error !== null).map((error) => scopedError(error, pass, scope)),
  );
  errors.catch(() => {});
  return { value, errors };
}

/** The end of everybody's patience: one deadline for all waits of a run, brought forward when the device is lost. */
export class Watch {
  #waitingFor = "the start";
  /** @type {(fault: Fault) => void} */
  #reject = () => {};
  #controller = new AbortController();

  /** @param {number} ms @param {string} label */
  constructor(ms, label) {
    /** @type {Promise<never>} */
    this.end = new Promise((_, reject) => (this.#reject = reject));
    this.end.catch(() => {});
    this.timer = setTimeout(() => {
      const text = `no answer within ${ms} ms while waiting for ${this.#waitingFor}`;
      this.fail(new Fault("timeout", [message(label, this.#waitingFor, text)]));
    }, ms);
  }

  /** Ends fetches with the watch. */
  get signal() {
    return this.#controller.signal;
  }

  /** @param {Fault} fault */
  fail(fault) {
    this.#reject(fault);
    this.#controller.abort();
  }

  /** @template T @param {Promise<T>} promise @param {string} what @returns {Promise<T>} */
  wait(promise, what) {
    this.#waitingFor = what;
    return Promise.race([promise, this.end]);
  }

  close() {
    clearTimeout(this.timer);
  }
}
