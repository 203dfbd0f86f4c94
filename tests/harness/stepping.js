// Put into the debug page by test_stepping.py: steps through invocations without the page's panel.

(async () => {
  const names = ["debug/session.js", "facts.js", "stepping/stepper.js", "debug/dispatch.js"];
  const [{ Session }, { probe }, { Stepper, compared }, { dispatchOf }] = await Promise.all(names.map((name) => import(`/harness/${name}`)));
  const session = new Session(await probe());
  const MAIN = "@compute";

  async function toEnd(shader, invocation) {
    const stepper = await Stepper.of(shader, invocation);
    let how = await stepper.toEnd();
    while (how === "bound") how = await stepper.toEnd();
    return stepper;
  }

  /** Copy's text with other declarations and another main. */
  function changed([declarations, body]) {
    const [head] = session.textOf(0).split(MAIN);
    const waits = body.includes("workgroupBarrier");
    const given = "let index = id.x; let v = (x[min(index, params.count - 1u)] + index) * 2654435769u;";
    const main = waits ? `${given}\n${body}` : `if (id.x < params.count) { ${given}\n${body}\n}`;
    return `${head}\n${declarations}\n@compute @workgroup_size(64)\nfn main(@builtin(global_invocation_id) id: vec3<u32>) {\n${main}\n}\n`;
  }

  async function program(given) {
    await session.open("Copy:seven:copy", {});
    session.edits.set(0, changed(given));
    const outcome = await session.run(false);
    if (outcome.status !== "ok") return { status: outcome.status, messages: outcome.messages.map(({ text }) => text) };
    const { shader, gpu } = await dispatchOf(session, 0);
    const sum = { status: "ok", same: 0, different: 0 };
    for (let localIndex = 0; localIndex < 7; localIndex += 1) {
      const { stores, stopped } = await toEnd(shader, { workgroup: [0, 0, 0], localIndex });
      if (stopped) return { status: `${stopped.message}, line ${stopped.line}` };
      const { same, different } = compared(stores, gpu);
      sum.same += same;
      sum.different += different;
    }
    return sum;
  }

  /** What invocation 3 says of a statement that is not run on the GPU. */
  async function refusal(code, head) {
    await session.open("Copy:seven:copy", {});
    await session.run(false);
    const { shader } = await dispatchOf(session, 0);
    const [declarations] = shader.text.split(MAIN);
    const text = `${head}\n${declarations}\n@compute @workgroup_size(64)\nfn main(@builtin(global_invocation_id) id: vec3<u32>) {\nlet index = id.x;\n${code}\n}\n`;
    try {
      const { stopped } = await toEnd({ ...shader, text }, { workgroup: [0, 0, 0], localIndex: 3 });
      return stopped ? { message: stopped.message, line: stopped.line, text: text.split("\n")[stopped.line - 1] } : { message: "nothing" };
    } catch (error) {
      return { message: error.message, line: error.line, text: text.split("\n")[error.line - 1] ?? "" };
    }
  }

  /** The first invocation of the first workgroup and the middle one of the last, or every one of the last: of each pass. */
  async function survey(query, every = false) {
    await session.open(query, {});
    const { passes } = session.specimen.plan;
    const sum = { status: "nothing", why: "", same: 0, different: 0 };
    for (let index = 0; index < passes.length; index += 1) {
      const [x, y, z] = passes[index].workgroups;
      if (x * y * z === 0) continue;
      try {
        const { shader, gpu } = await dispatchOf(session, index);
        const { machine } = await Stepper.of(shader, { workgroup: [0, 0, 0], localIndex: 0 });
        const all = Array.from({ length: machine.lanes }, (_, localIndex) => ({ workgroup: [x - 1, y - 1, z - 1], localIndex }));
        const last = { workgroup: [x - 1, y - 1, z - 1], localIndex: machine.waits ? 0 : machine.lanes >> 1 };
        const few = machine.waits && x * y * z === 1 ? [last] : [{ workgroup: [0, 0, 0], localIndex: 0 }, last];
        for (const invocation of every && !machine.waits ? all : few) {
          const { stores, stopped } = await toEnd(shader, invocation);
          if (stopped) throw stopped;
          const { same, different } = compared(stores, gpu);
          sum.same += same;
          sum.different += different;
          if (sum.status === "nothing") sum.status = "same";
        }
      } catch (error) {
        if (!("line" in error)) throw error;
        return { ...sum, status: "named", why: `${error.message}, line ${error.line}` };
      }
    }
    return sum;
  }

  globalThis.stepping = { program, refusal, survey };
})();
