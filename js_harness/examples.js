// @ts-check
/** The examples of the kernels' cards, run through getKernel; prints what comes out, and "done" or "failed". */

import { getKernel } from "./kernels.js";

/** @param {number} value */
const float = (value) => ({ data: new Float32Array([value]), shape: [1] });

async function convInteger() {
  const kernel = await getKernel("webgpu-kernels/ai.onnx.ConvInteger", { version: 1 });
  const { y } = await kernel({
    x: { data: new Uint8Array([2, 250]), shape: [1, 1, 2, 1, 1] },
    w: { data: new Int8Array([-3]), shape: [1, 1, 1, 1, 1] },
  });
  return { ConvInteger: y };
}

/** The card's example, and its output, left on the GPU, as the input of a second layer. */
async function qlinearConv() {
  const kernel = await getKernel("webgpu-kernels/com.microsoft.QLinearConv", { version: 1 });
  const layer = {
    x_scale: float(0.5),
    x_zero_point: { data: new Uint8Array([128]), shape: [1] },
    w: { data: new Int8Array([3, -5]), shape: [2, 1, 1, 1] },
    w_scale: float(0.25),
    w_zero_point: { data: new Int8Array([1]), shape: [1] },
    y_scale: float(0.125),
    y_zero_point: { data: new Uint8Array([10]), shape: [1] },
  };
  const x = { data: new Uint8Array([131]), shape: [1, 1, 1, 1] };
  const { y } = await kernel({ x, ...layer });
  const { y: onGpu } = await kernel({ x, ...layer }, { output: "gpu" });
  const w = { data: new Int8Array([3, -5]), shape: [1, 2, 1, 1] };
  const { y: chained } = await kernel({ ...layer, x: onGpu, w });
  onGpu.destroy();
  return { QLinearConv: y, "QLinearConv after QLinearConv": chained };
}

/** @param {string} id @param {string} text */
function show(id, text) {
  const element = document.getElementById(id);
  if (element) element.textContent = text;
}

async function main() {
  const results = { ...(await convInteger()), ...(await qlinearConv()) };
  const lines = Object.entries(results).map(([name, { data, shape, dtype }]) => {
    return `${name}: ${dtype}[${shape}] = ${JSON.stringify(Array.from(data))}`;
  });
  show("results", lines.join("\n"));
  show("state", "done");
}

main().catch((error) => {
  show("results", String(error));
  show("state", "failed");
});
