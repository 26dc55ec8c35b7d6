// Asks a real `kcheck lsp` what the extension relies on (docs/editor.md), over the protocol, without VS Code.
import {spawn} from "node:child_process";
import {mkdtempSync, readFileSync, rmSync, writeFileSync} from "node:fs";
import {tmpdir} from "node:os";
import {join} from "node:path";
import {fileURLToPath, pathToFileURL} from "node:url";
import protocol from "vscode-languageserver-protocol/node";

const manifest = JSON.parse(readFileSync(fileURLToPath(new URL("../package.json", import.meta.url)), "utf8"));
const SPEC = "kcheck: 1\nop: broken\nkernal: kernels/k.py:k\n";
const PATIENCE = 60_000; // milliseconds; Python and Numba start slowly on a busy machine

/** @returns rows of {what, found, right} */
export async function askServer(kcheck) {
  const folder = mkdtempSync(join(tmpdir(), "kcheck-"));
  const child = spawn(kcheck, ["lsp"], {cwd: folder});
  let stderr = "";
  child.stderr.setEncoding("utf8").on("data", (text) => (stderr += text));
  const gone = new Promise((_, reject) => {
    child.on("error", reject);
    child.on("exit", () => reject(new Error(stderr.trim() || "the server ended")));
    setTimeout(() => reject(new Error(`no answer within ${PATIENCE / 1000} s`)), PATIENCE).unref();
  });
  gone.catch(() => undefined); // where the race below is over already
  try {
    return await Promise.race([gone, talk(child, folder)]);
  } catch (error) {
    return [{what: "language server", found: String(error.message).split("\n").at(-1), right: false}];
  } finally {
    child.kill();
    rmSync(folder, {recursive: true});
  }
}

async function talk(child, folder) {
  const connection = protocol.createProtocolConnection(child.stdout, child.stdin);
  // A notification without a listener is an error of the library; this one is only for the status bar.
  connection.onNotification("kcheck/status", () => undefined);
  connection.onUnhandledNotification(() => undefined);
  const diagnostics = new Promise((resolve) => {
    connection.onNotification("textDocument/publishDiagnostics", (given) => given.diagnostics.length > 0 && resolve(given.diagnostics));
  });
  connection.listen();

  const file = join(folder, "broken.yaml");
  writeFileSync(join(folder, "kcheck.yaml"), "");
  writeFileSync(file, SPEC);
  const {capabilities} = await connection.sendRequest("initialize", {
    processId: process.pid,
    rootUri: pathToFileURL(folder).href,
    workspaceFolders: [{uri: pathToFileURL(folder).href, name: "project"}],
    capabilities: {},
    initializationOptions: {runOnSave: false, profile: "quick", commands: "client"},
  });
  await connection.sendNotification("initialized", {});
  const uri = pathToFileURL(file).href;
  await connection.sendNotification("textDocument/didOpen", {textDocument: {uri, languageId: "yaml", version: 1, text: SPEC}});
  const unknown = (await diagnostics).find((one) => one.message.includes("kernal"));
  const lenses = (await connection.sendRequest("textDocument/codeLens", {textDocument: {uri}})) ?? [];
  const known = manifest.contributes.commands.map(({command}) => command);
  const named = lenses.map(({command}) => command?.command);
  const announced = capabilities.executeCommandProvider?.commands ?? [];
  return [
    {what: "`kcheck lsp`: a misspelled key of an open spec", found: unknown ? `line ${unknown.range.start.line + 1}, ${unknown.source}` : "no diagnostic", right: unknown?.range.start.line === 2 && unknown.source === "kcheck"},
    {what: "`kcheck lsp`: commands that it runs itself instead of the extension", found: announced.length === 0 ? "none" : announced.join(" "), right: announced.length === 0},
    {what: "`kcheck lsp`: commands of code lenses, each registered by the extension", found: named.join(" ") || "none", right: named.length > 0 && named.every((one) => known.includes(one))},
  ];
}
