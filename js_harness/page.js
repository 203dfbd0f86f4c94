// @ts-check
/** The page's session with the server: it says hello, then does what it is told, one message after the other. */

import { Devices } from "./devices.js";
import { Display } from "./display.js";
import { Fault, Watch, describe, message } from "./errors.js";
import { execute } from "./execute.js";
import { probe } from "./facts.js";
import { connect } from "./session.js";
import { noTime } from "./timing.js";
import { decode, encode } from "./wire.js";

/** @import {Message, PageMessage, PrepareMessage, RunMessage, RunResult} from "./wire.js" */
/** @import {Source} from "./uploads.js" */

const RUN_DEADLINE_MS = 30_000;
const PREPARE_DEADLINE_MS = 120_000;

const display = new Display(document);
const devices = new Devices();
/** @type {Map<string, string>}  every WGSL text this page was sent, by digest */
const texts = new Map();
globalThis.lab = { runs: 0, lastResult: null, devices };

/** @typedef {{message: PageMessage, blobs?: Uint8Array<ArrayBuffer>[], release?: () => void}} Answer
 *   release: called once the message is made */

/** @param {RunMessage} run @param {Uint8Array<ArrayBuffer>[]} blobs @returns {Promise<Answer>} */
async function run(run, blobs) {
  const inputs = run.inputs ?? [];
  /** @type {Map<string, Source>} */
  const sources = new Map(inputs.map((input) => [input.buffer, "url" in input ? input : blobs[input.blob]]));
  const job = {
    plan: run.plan,
    sources,
    expected: run.expected ?? {},
    read: run.read ?? [],
    deadlineMs: run.deadline_ms ?? RUN_DEADLINE_MS,
    timing: run.timing ?? false,
    keep: false,
  };
  display.running(run.plan.label);
  const execution = await execute(job, devices, texts);
  lab.runs += 1;
  lab.lastResult = execution.outcome;
  display.ran(run.plan.label, execution.outcome, job.expected);
  const { outcome, blobs: views, release } = execution;
  return { message: { type: "result", id: run.id, ...outcome }, blobs: views, release };
}

/** @param {PrepareMessage} prepare @returns {Promise<Answer>} */
async function prepare(prepare) {
  const start = performance.now();
  const watch = new Watch(prepare.deadline_ms ?? PREPARE_DEADLINE_MS, "prepare");
  /** @type {Message[]} */
  const messages = [];
  /** @type {string[]} */
  const failed = [];
  await Promise.all(
    prepare.passes.map(async (pass) => {
      try {
        const device = await watch.wait(devices.acquire(pass.device), "a device");
        const compiled = await watch.wait(device.pipelines.get(pass, texts), "pipelines");
        messages.push(...compiled.messages);
      } catch (error) {
        failed.push(pass.label);
        const said = error instanceof Fault ? error.messages : [message(pass.label, "harness", describe(error))];
        messages.push(...said.map((one) => ({ ...one, pass: one.pass || pass.label })));
      }
    }),
  );
  watch.close();
  return { message: { type: "prepared", id: prepare.id, messages, failed, ms: performance.now() - start } };
}

/** @param {ArrayBuffer} data @returns {Promise<Answer>}  never rejects */
async function answer(data) {
  let id = null;
  try {
    const { header, blobs } = decode(data);
    id = header.id;
    for (const [digest, text] of Object.entries(header.wgsl ?? {})) texts.set(digest, text);
    if (header.type === "run") return await run(header, blobs);
    if (header.type === "prepare") return await prepare(header);
    if (header.type === "ping") return { message: { type: "pong", id } };
    throw new Error(`unknown message type ${JSON.stringify(header.type)} (known: run, prepare, ping)`);
  } catch (error) {
    const stack = error instanceof Error && error.stack ? error.stack : describe(error);
    /** @type {RunResult} */
    const result = {
      type: "result",
      id,
      status: "harness_error",
      outputs: [],
      read: [],
      damaged: [],
      messages: [message("", "harness", stack)],
      timings: noTime(),
      lost: null,
    };
    return { message: result };
  }
}

async function main() {
  const facts = await probe();
  display.adapter(facts);
  const name = new URLSearchParams(location.search).get("page");
  if (name === null) {
    display.connection("none: opened by hand, for getKernel");
    return;
  }
  /** @param {Answer} answer */
  const send = ({ message, blobs, release }) => {
    post(encode(message, blobs));
    release?.();
  };
  let last = Promise.resolve();
  const post = connect(name, {
    open: () => {
      display.connection("connected");
      send({ message: { type: "hello", facts } });
    },
    message: (data) => {
      last = last.then(() => answer(data)).then(send, (error) => display.connection(`broken: ${describe(error)}`));
    },
    close: (code, reason) => display.connection(`closed (${code} ${reason})`),
  });
}

main().catch((error) => display.connection(`broken: ${describe(error)}`));
