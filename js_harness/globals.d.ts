// What TypeScript's own DOM library leaves out of WebGPU (it has the rest), and the page's one global.

declare const GPUBufferUsage: Readonly<
  Record<"MAP_READ" | "COPY_SRC" | "COPY_DST" | "UNIFORM" | "STORAGE" | "QUERY_RESOLVE", number>
>;
declare const GPUMapMode: Readonly<Record<"READ", number>>;
declare const GPUShaderStage: Readonly<Record<"COMPUTE", number>>;

/** For people at the console and for tests: what this page has done, and its devices. */
declare var lab: {
  runs: number;
  lastResult: import("./execute.js").Outcome | null;
  devices: import("./devices.js").Devices;
};
