// Renders what stdin holds, [{template, names}, ...], with @huggingface/jinja as Hub packages are rendered.
// Out: [{text}, or {error}, ...] on stdout. The package is found where this script's caller runs node.
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";
import { join } from "node:path";

const require = createRequire(pathToFileURL(join(process.cwd(), "package.json")));
const { Template } = await import(pathToFileURL(require.resolve("@huggingface/jinja")));

const chunks = [];
for await (const chunk of process.stdin) chunks.push(chunk);
const parsed = new Map();

function rendered({ template, names }) {
  try {
    if (!parsed.has(template)) parsed.set(template, new Template(template));
    return { text: parsed.get(template).render(names) };
  } catch (error) {
    return { error: String(error.message ?? error) };
  }
}

process.stdout.write(JSON.stringify(JSON.parse(Buffer.concat(chunks).toString("utf8")).map(rendered)));
