// @ts-check
/**
 * The page's connection with the server, as messages of bytes in both directions.
 *
 * It is a shared worker's where there are such: whoever drives a browser through DevTools, as Playwright does, is told
 * of every message of a page's or a dedicated worker's own WebSocket, in base64 and through three processes. That takes
 * longer than the message. Of a shared worker's he is told nothing.
 */

/**
 * @typedef {object} Heard
 * @property {() => void} open
 * @property {(data: ArrayBuffer) => void} message
 * @property {(code: number, reason: string) => void} close
 */
/** @typedef {"open"|ArrayBuffer|{code: number, reason: string}} Told  what the shared worker posts */

/**
 * Connects as the page of that name. Gives what sends a message; it is given away.
 * @param {string} name @param {Heard} heard @returns {(message: ArrayBuffer) => void}
 */
export function connect(name, heard) {
  const asked = `?page=${encodeURIComponent(name)}`;
  return typeof SharedWorker === "undefined" ? directly(asked, heard) : throughWorker(asked, heard);
}

/** @param {string} asked @param {Heard} heard */
function throughWorker(asked, heard) {
  const { port } = new SharedWorker(`/harness/session_worker.js${asked}`, { type: "module" });
  port.onmessage = (/** @type {MessageEvent<Told>} */ { data }) => {
    if (data === "open") heard.open();
    else if (data instanceof ArrayBuffer) heard.message(data);
    else heard.close(data.code, data.reason);
  };
  /** @param {ArrayBuffer} message */
  return (message) => port.postMessage(message, [message]);
}

/** @param {string} asked @param {Heard} heard */
function directly(asked, heard) {
  const socket = socketOf(asked);
  socket.onopen = heard.open;
  socket.onmessage = ({ data }) => heard.message(data);
  socket.onclose = ({ code, reason }) => heard.close(code, reason);
  /** @param {ArrayBuffer} message */
  return (message) => {
    if (socket.readyState === WebSocket.OPEN) socket.send(message);
  };
}

/** @param {string} asked */
export function socketOf(asked) {
  const socket = new WebSocket(`${location.protocol === "https:" ? "wss:" : "ws:"}//${location.host}/session${asked}`);
  socket.binaryType = "arraybuffer";
  return socket;
}
