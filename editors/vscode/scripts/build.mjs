// Bundles the extension into out/extension.js; with --tests, each test file into out/test/, with the double of `vscode`.
import {copyFileSync, mkdirSync, readdirSync} from "node:fs";
import {fileURLToPath} from "node:url";
import {build} from "esbuild";

const here = (path) => fileURLToPath(new URL(`../${path}`, import.meta.url));
const common = {bundle: true, platform: "node", format: "cjs", target: "node20", logLevel: "warning"};

// One source for the schemas: the folder that the Python package ships.
mkdirSync(here("out/schema"), {recursive: true});
for (const name of ["op-spec", "config", "report"]) {
  copyFileSync(here(`../../schema/${name}.schema.json`), here(`out/schema/${name}.schema.json`));
}
copyFileSync(here("../../LICENSE"), here("LICENSE")); // which the package must have
await build({
  ...common,
  entryPoints: [here("src/extension.ts")],
  outfile: here("out/extension.js"),
  external: ["vscode"],
  minify: true,
});
if (process.argv.includes("--tests")) {
  await build({
    ...common,
    entryPoints: readdirSync(here("test")).filter((name) => name.endsWith(".test.ts")).map((name) => here(`test/${name}`)),
    outdir: here("out/test"),
    alias: {vscode: here("test/double.ts")},
    sourcemap: "inline",
  });
}
