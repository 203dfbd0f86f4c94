// @ts-check
/** The shared worker that holds one page's WebSocket: see session.js. Its address says which page's. */

import { socketOf } from "./session.js";

/** @import {Told} from "./session.js" */

/** @type {any} */ (globalThis).onconnect = (/** @type {MessageEvent} */ { ports: [port] }) => {
  const socket = socketOf(location.search);
  /** @param {Told} told @param {Transferable[]} given */
  const tell = (told, ...given) => port.postMessage(told, given);
  socket.onopen = () => tell("open");
  socket.onmessage = ({ data }) => tell(data, data);
  socket.onclose = ({ code, reason }) => tell({ code, reason });
  port.onmessage = ({ data }) => {
    if (socket.readyState === WebSocket.OPEN) socket.send(data);
  };
};
