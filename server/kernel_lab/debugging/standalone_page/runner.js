// --- The runner: one plan on one new device. All that WebGPU is asked for is asked for here.

const wordsOf = (text) => new Uint32Array(Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0)).buffer);

/** Garbage behind the data of each buffer, another word at every place: a store past the end shows. */
function guardWords(index, bytes) {
  return Uint32Array.from({ length: bytes / 4 }, (_, word) => Math.imul(index * 64 + word + 1, 0x9e3779b1) >>> 0);
}

/** Why there are no outputs: a status, and a sentence. */
class Fault extends Error {
  constructor(status, text) {
    super(text);
    this.status = status;
  }
}

/** An adapter's own words; what a browser does not tell is left out. */
function adapterInfo(adapter) {
  const told = {};
  const info = adapter.info ?? {}; // an attribute since Chromium 127
  for (const name of ["vendor", "architecture", "device", "description", "driver", "backend", "type"]) {
    if (info[name]) told[name] = String(info[name]);
  }
  if (info.subgroupMinSize) told.subgroups = `${info.subgroupMinSize} to ${info.subgroupMaxSize}`;
  told.fallback = (info.isFallbackAdapter ?? adapter.isFallbackAdapter) ? "yes: software, not a GPU" : "no";
  return told;
}

/** A device with the plan's features, and its limits as far as the adapter has them. `here` learns who it is. */
async function deviceFor({ features, limits }, texts, here) {
  if (!navigator.gpu) {
    const secure = isSecureContext ? "" : " The page is no secure context: open it from disk, localhost or https.";
    throw new Fault("no_webgpu", `This browser has no WebGPU: navigator.gpu is missing.${secure}`);
  }
  const adapter = await navigator.gpu.requestAdapter({ powerPreference: "high-performance" });
  if (!adapter) {
    const hint = "Chromium on a machine without a GPU gives one when started with --enable-unsafe-webgpu " +
      "--use-webgpu-adapter=swiftshader.";
    throw new Fault("no_adapter", `This browser has no WebGPU adapter: requestAdapter() gave null. ${hint}`);
  }
  here.adapter = adapterInfo(adapter);
  here.features = [...adapter.features].sort();
  const language = navigator.gpu.wgslLanguageFeatures ?? new Set();
  const required = texts.flatMap((text) => [...text.matchAll(/^\s*requires\s+([^;]+);/gm)]);
  const asked = required.flatMap((found) => found[1].split(",").map((name) => name.trim())).filter(Boolean);
  here.missing = [
    ...features.filter((name) => !adapter.features.has(name)).map((name) => `the feature ${name}`),
    ...asked.filter((name) => !language.has(name)).map((name) => `the WGSL language feature ${name}`),
  ];
  if (here.missing.length > 0) {
    throw new Fault("missing", `This adapter lacks what the kernel needs: ${here.missing.join(", ")}.`);
  }
  const requiredLimits = {};
  for (const [name, value] of Object.entries(limits)) {
    const has = adapter.limits[name];
    if (has === undefined) continue;
    requiredLimits[name] = Math.min(value, has);
    if (has < value) here.notes.push(`${name} is ${has} here; the plan was made for ${value}`);
  }
  return adapter.requestDevice({ requiredFeatures: features, requiredLimits });
}

/** The pipeline of one pass. The layout is explicit: an automatic one drops bindings that the shader does not use. */
async function pipelineOf(device, pass, code, said) {
  const module = device.createShaderModule({ label: pass.label, code });
  const { messages } = await module.getCompilationInfo();
  for (const { type, message, lineNum, linePos, length } of messages) {
    said.push({ kind: type, pass: pass.label, text: message, line: lineNum, column: linePos, length });
  }
  const error = messages.find(({ type }) => type === "error");
  if (error) {
    throw new Fault("compile_error", `${pass.label} does not compile. Line ${error.lineNum}: ${error.message}`);
  }
  const entries = pass.bindings.map(({ binding, type }) => {
    return { binding, visibility: GPUShaderStage.COMPUTE, buffer: { type } };
  });
  const layout = device.createBindGroupLayout({ label: pass.label, entries });
  const whole = device.createPipelineLayout({ label: pass.label, bindGroupLayouts: [layout] });
  const compute = { module, entryPoint: pass.entry_point };
  const pipeline = await device.createComputePipelineAsync({ label: pass.label, layout: whole, compute });
  return { pipeline, layout };
}

/** A buffer with its data (inputs, uniforms) or fill (poison, so that a word never written shows), then its guards. */
function bufferOf(device, spec, index, data) {
  const usage = spec.kind === "uniform" ? GPUBufferUsage.UNIFORM : GPUBufferUsage.STORAGE;
  const size = spec.bytes + spec.guard_bytes;
  const buffer = device.createBuffer({
    label: spec.name, size, usage: usage | GPUBufferUsage.COPY_SRC | GPUBufferUsage.COPY_DST, mappedAtCreation: true,
  });
  const words = new Uint32Array(buffer.getMappedRange());
  words.fill(spec.fill ?? 0, 0, spec.bytes / 4);
  words.set(spec.words ?? data ?? []);
  words.set(guardWords(index, spec.guard_bytes), spec.bytes / 4);
  buffer.unmap();
  return buffer;
}

/** Every pass in one submit, then all that may have been written, data and guards, as words by buffer. */
async function execute(device, plan, texts, inputs, said) {
  const passes = plan.passes.filter(({ workgroups }) => !workgroups.includes(0));
  const made = [];
  for (const pass of passes) made.push(await pipelineOf(device, pass, texts[pass.label], said));
  const buffers = {};
  plan.buffers.forEach((spec, index) => (buffers[spec.name] = bufferOf(device, spec, index, inputs[spec.name])));
  const encoder = device.createCommandEncoder({ label: plan.label });
  passes.forEach((pass, index) => {
    const entries = pass.bindings.map(({ binding, buffer }) => ({ binding, resource: { buffer: buffers[buffer] } }));
    const encoding = encoder.beginComputePass({ label: pass.label });
    encoding.setPipeline(made[index].pipeline);
    encoding.setBindGroup(0, device.createBindGroup({ label: pass.label, layout: made[index].layout, entries }));
    encoding.dispatchWorkgroups(...pass.workgroups);
    encoding.end();
  });
  const bound = passes.flatMap(({ bindings }) => bindings).filter(({ type }) => type === "storage");
  const wanted = new Set([...bound, ...plan.outputs].map(({ buffer }) => buffer));
  const read = {};
  for (const { name, bytes, guard_bytes } of plan.buffers.filter((spec) => wanted.has(spec.name))) {
    const usage = GPUBufferUsage.MAP_READ | GPUBufferUsage.COPY_DST;
    read[name] = device.createBuffer({ label: `readback of ${name}`, size: bytes + guard_bytes, usage });
    encoder.copyBufferToBuffer(buffers[name], 0, read[name], 0, bytes + guard_bytes);
  }
  device.queue.submit([encoder.finish()]);
  await Promise.all(Object.values(read).map((buffer) => buffer.mapAsync(GPUMapMode.READ)));
  const words = (buffer) => new Uint32Array(buffer.getMappedRange()).slice();
  return Object.fromEntries(Object.entries(read).map(([name, buffer]) => [name, words(buffer)]));
}

/** Runs the plan with these texts by pass. Never rejects: `status` is "ok" once there are outputs, right or wrong. */
async function runPlan({ plan, inputs, expected }, texts) {
  const here = { adapter: null, features: [], missing: [], notes: [] };
  const outcome = { status: "ok", reason: "", said: [], outputs: [], damaged: [], here };
  let device = null;
  let lost = null;
  try {
    device = await deviceFor(plan.device, Object.values(texts), here);
    device.lost.then((info) => (lost = info));
    const filters = ["validation", "out-of-memory", "internal"];
    for (const filter of filters) device.pushErrorScope(filter);
    const running = execute(device, plan, texts, inputs, outcome.said);
    const words = await running.catch((error) => error);
    const caught = await Promise.all(filters.map(() => device.popErrorScope()));
    if (words instanceof Fault) throw words;
    const errors = caught.filter(Boolean).map(({ message }) => message);
    if (errors.length > 0) throw new Fault("validation_error", errors.join("\n"));
    if (words instanceof Error) throw words;
    plan.buffers.forEach((spec, index) => {
      const guards = guardWords(index, spec.guard_bytes);
      const behind = words[spec.name]?.subarray(spec.bytes / 4);
      if (behind && guards.some((word, at) => behind[at] !== word)) outcome.damaged.push(spec.name);
    });
    outcome.outputs = plan.outputs.map((output) => {
      const actual = words[output.buffer].subarray(0, output.bytes / 4);
      return { ...output, actual, found: compare(actual, expected[output.name], output) };
    });
  } catch (error) {
    await new Promise((resolve) => setTimeout(resolve, lost || !device ? 0 : 200)); // a loss tells itself a little late
    outcome.status = lost ? "device_lost" : (error.status ?? "validation_error");
    outcome.reason = lost ? `The device was lost (${lost.reason}): ${lost.message}` : error.message;
  }
  device?.destroy();
  return outcome;
}
