// @ts-check
/**
 * The wire format between this page and the server, one message at a time: values in, one ArrayBuffer out, and back.
 * It never interprets a message. The types below are the format's documentation.
 *
 * A message is a little-endian u32 H, then H bytes of JSON in UTF-8 (the header, padded with spaces so that 4 + H is a
 * multiple of 4), then the blobs back to back, each padded with zero bytes to a multiple of 4. `header.blobs` gives
 * their byte lengths before padding; everywhere else in a header a blob is named by its index.
 */

/** @typedef {"ok"|"compile_error"|"validation_error"|"out_of_memory"|"device_lost"|"timeout"|"harness_error"} Status */
/** @typedef {{features: string[], limits: Record<string, number>}} DeviceSpec  requested with exactly these */
/**
 * `bytes` counts the data, a multiple of 4; `guard_bytes` more lie behind it in the same binding. `fill` is a u32
 * written over the data of a buffer that has no other source; null leaves it undefined.
 * @typedef {object} BufferSpec
 * @property {string} name
 * @property {"input"|"output"|"intermediate"|"uniform"} kind
 * @property {number} bytes
 * @property {number} guard_bytes
 * @property {number|null} fill
 * @property {number[]} [words]  a uniform's u32 words
 */
/** @typedef {{binding: number, buffer: string, type: "read-only-storage"|"storage"|"uniform"}} BindingSpec */
/** @typedef {{label: string, wgsl: string, entry_point?: string, bindings: BindingSpec[]}} PipelineSpec
 *   wgsl: the text's digest; entry_point: default "main" */
/** @typedef {PipelineSpec & {workgroups: [number, number, number]}} PassSpec */
/** @typedef {{name: string, buffer: string, dtype: string, shape: number[], bytes: number}} OutputSpec */
/**
 * @typedef {object} Plan
 * @property {string} label
 * @property {DeviceSpec} device
 * @property {BufferSpec[]} buffers
 * @property {PassSpec[]} passes  one after the other; a pass with 0 among its workgroups is skipped
 * @property {OutputSpec[]} outputs
 */

/** @typedef {{buffer: string, bytes: number, blob: number} | {buffer: string, bytes: number, url: string}} InputSpec */
/**
 * Server to page. `wgsl` holds only the texts this page has not had yet; `expected` the SHA-256 (hex) of an output
 * buffer's data; `read` the buffers whose bytes are wanted in any case; `timing` asks for time stamps of each pass.
 * @typedef {object} RunMessage
 * @property {"run"} type
 * @property {number|string} id
 * @property {Plan} plan
 * @property {Record<string, string>} [wgsl]
 * @property {InputSpec[]} [inputs]
 * @property {Record<string, string>} [expected]
 * @property {string[]} [read]
 * @property {number} [deadline_ms]  default 30,000
 * @property {boolean} [timing]
 */
/**
 * Server to page: compile these, all at once.
 * @typedef {object} PrepareMessage
 * @property {"prepare"} type
 * @property {number|string} id
 * @property {(PipelineSpec & {device: DeviceSpec})[]} passes
 * @property {Record<string, string>} [wgsl]
 * @property {number} [deadline_ms]  default 120,000
 */
/** @typedef {{type: "ping", id: number|string}} PingMessage  answered by "pong" after all that came before it */
/** @typedef {RunMessage | PrepareMessage | PingMessage} ServerMessage */

/**
 * `line` and `column` count from 1, `offset` and `length` are UTF-16 units; all are 0 where there is no place in a
 * text. `scope` says which call spoke, `pass` the label of the pass, or of the plan.
 * @typedef {object} Message
 * @property {"error"|"warning"|"info"} kind
 * @property {string} pass
 * @property {number} line
 * @property {number} column
 * @property {number} offset
 * @property {number} length
 * @property {string} text
 * @property {string} scope
 */
/**
 * Milliseconds. `gpu_ms` runs from submit until the queue is done, `readback_ms` from then until the bytes are mapped
 * and looked at. `pass_ns` has one entry a pass (null: skipped), as the adapter gave them: 0 and negative ones occur.
 * @typedef {{compile_ms: number, upload_ms: number, gpu_ms: number, readback_ms: number, digest_ms: number,
 *   total_ms: number, pass_ns: (number|null)[] | null}} Timings
 */
/** @typedef {{name: string, equal: boolean, digest: string|null, blob: number|null}} OutputResult
 *   digest is null where nothing was expected; blob is null where equal */
/**
 * Page to server. "ok" says that bytes came back, no more. Any other status comes without outputs.
 * @typedef {object} RunResult
 * @property {"result"} type
 * @property {number|string|null} id
 * @property {Status} status
 * @property {OutputResult[]} outputs
 * @property {{buffer: string, blob: number}[]} read
 * @property {string[]} damaged  buffers whose guard words were overwritten
 * @property {Message[]} messages
 * @property {Timings} timings
 * @property {string|null} lost  why the device was lost, as the browser put it
 */
/** @typedef {{type: "prepared", id: number|string, messages: Message[], failed: string[], ms: number}} PreparedMessage
 *   failed: labels of the passes that have no pipeline */
/** @typedef {{type: "hello", facts: import("./facts.js").Facts}} HelloMessage  first, once */
/** @typedef {{type: "pong", id: number|string}} PongMessage */
/** @typedef {HelloMessage | RunResult | PreparedMessage | PongMessage} PageMessage */

/** @param {number} bytes */
const padded = (bytes) => Math.ceil(bytes / 4) * 4;

/**
 * @param {object} header  without `blobs`
 * @param {Uint8Array[]} [blobs]
 * @returns {ArrayBuffer}
 */
export function encode(header, blobs = []) {
  const text = new TextEncoder().encode(JSON.stringify({ ...header, blobs: blobs.map((blob) => blob.byteLength) }));
  const start = 4 + padded(text.byteLength);
  const message = new Uint8Array(start + blobs.reduce((sum, blob) => sum + padded(blob.byteLength), 0));
  new DataView(message.buffer).setUint32(0, start - 4, true);
  message.fill(0x20, 4, start);
  message.set(text, 4);
  let offset = start;
  for (const blob of blobs) {
    message.set(blob, offset);
    offset += padded(blob.byteLength);
  }
  return message.buffer;
}

/**
 * @param {ArrayBuffer} message
 * @returns {{header: any, blobs: Uint8Array<ArrayBuffer>[]}}  the blobs are views into the message
 */
export function decode(message) {
  const start = 4 + new DataView(message).getUint32(0, true);
  const header = JSON.parse(new TextDecoder().decode(new Uint8Array(message, 4, start - 4)));
  let offset = start;
  const blobs = (header.blobs ?? []).map((/** @type {number} */ bytes) => {
    const blob = new Uint8Array(message, offset, bytes);
    offset += padded(bytes);
    return blob;
  });
  return { header, blobs };
}
