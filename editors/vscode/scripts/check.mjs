// Builds, lints, tests and packages the extension; `--write` writes the results to docs/editor_check.md.
// KCHECK is the kcheck whose language server is asked (default: the one of .venv of the checkout).
import {spawnSync} from "node:child_process";
import {existsSync, readFileSync, statSync, writeFileSync} from "node:fs";
import {createRequire} from "node:module";
import {fileURLToPath} from "node:url";
import {askServer} from "./server.mjs";

const root = fileURLToPath(new URL("../", import.meta.url));
const page = fileURLToPath(new URL("../../../docs/editor_check.md", import.meta.url));
const kcheck = process.env.KCHECK ?? fileURLToPath(new URL("../../../.venv/bin/kcheck", import.meta.url));
const versionOf = (name) => JSON.parse(readFileSync(`${root}node_modules/${name}/package.json`, "utf8")).version;
const rows = [];

function record(what, found, right) {
  rows.push({what, found, right});
  console.log(`${right ? "ok  " : "FAIL"}  ${what}: ${found}`);
}

/** Runs a tool; what it prints is shown if it fails. */
function run(command, ...args) {
  const done = spawnSync(command, args, {cwd: root, encoding: "utf8", env: {...process.env, NO_COLOR: "1", FORCE_COLOR: "0"}});
  const output = `${done.stdout ?? ""}${done.stderr ?? ""}${done.error?.message ?? ""}`;
  if (done.status !== 0) {
    console.log(output);
  }
  return {passed: done.status === 0, output};
}

const tool = (name, ...args) => run(`node_modules/.bin/${name}`, ...args);

const types = tool("tsc", "--noEmit");
record(`types: TypeScript ${versionOf("typescript")}, strict, against VS Code ${versionOf("@types/vscode")}`, types.passed ? "no error" : "errors", types.passed);

const lint = tool("eslint", ".", "--max-warnings", "0");
record(`lint: ESLint ${versionOf("eslint")}, typescript-eslint ${versionOf("typescript-eslint")}, strictTypeChecked`, lint.passed ? "no finding" : "findings", lint.passed);

const built = run(process.execPath, "scripts/build.mjs", "--tests");
record(`build: esbuild ${versionOf("esbuild")}`, built.passed ? "out/extension.js" : "failed", built.passed);

const tested = run(process.execPath, "--test", "--test-reporter", "tap", "out/test/");
const count = (kind) => /^\d+$/m.exec(new RegExp(`^# ${kind} (\\d+)$`, "m").exec(tested.output)?.[1] ?? "")?.[0] ?? "0";
record("unit tests: node:test, a mock of vscode, recorded output of kcheck", `${count("pass")} of ${count("tests")} pass`, tested.passed && count("tests") !== "0");

for (const {what, found, right} of await askServer(kcheck)) {
  record(what, found, right);
}

const packed = tool("vsce", "package", "--no-dependencies", "--allow-missing-repository", "--out", "out/kcheck.vsix");
const size = packed.passed ? Math.ceil(statSync(`${root}out/kcheck.vsix`).size / 1000 / 50) * 50 : 0;
record(`package: vsce ${versionOf("@vscode/vsce")}`, packed.passed ? `kcheck.vsix, under ${size} kB` : "failed", packed.passed && size < 500);

const text = `# Checks of the extension for VS Code

Written by \`make editor-check\`. The language server itself is tested by \`make test\` (tests/lsp).

| check | result | |
|---|---|---|
${rows.map(({what, found, right}) => `| ${what} | ${found} | ${right ? "ok" : "**wrong**"} |`).join("\n")}
`;
if (process.argv.includes("--write")) {
  writeFileSync(page, text);
}
process.exitCode = rows.every(({right}) => right) ? 0 : 1;
