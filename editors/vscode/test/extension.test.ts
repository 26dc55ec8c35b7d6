/** The extension in the double of VS Code: what it registers, starts and shows. kcheck's output is recorded. */

import assert from "node:assert/strict";
import {writeFileSync} from "node:fs";
import {join} from "node:path";
import {describe, test} from "node:test";
import type * as vscode from "vscode";
import type {Client} from "../src/client";
import type {Output, Start} from "../src/process";
import type {Settings} from "../src/settings";
import type {ServerStatus} from "../src/status";
import {Tasks} from "../src/terminal";
import {Extension} from "../src/wiring";
import {Task, TestItem, TestRunRequest, Uri, reset, seen, workspace} from "./double";
import {inProject, manifest, recorded} from "./recorded";

const SPEC = "kcheck: 1\nop: gemv_tail\n";
const FILES = {"specs/gemv_tail.yaml": SPEC, "specs/other.yaml": "jobs: 1\n", "kernels/k.py": '@kcheck.op("scale")\ndef f(): pass\n'};
const TOKEN = {isCancellationRequested: false};

/** The language server as the tests see it: what it was started with, and what it was told. */
class Server {
  starts: string[] = [];
  changes: Settings[] = [];
  stops = 0;
  status: ((status: ServerStatus) => void) | undefined;
  refuses = "";
}

interface World {
  readonly extension: Extension;
  readonly server: Server;
  readonly folder: string;
  /** Each command line that the Test Explorer started. */
  readonly started: string[][];
}

/** Activates the extension in a project; `outputs` are what kcheck prints, by its first argument. */
async function inEditor(outputs: Record<string, Partial<Output>>, use: (world: World) => Promise<void>, server = new Server()): Promise<void> {
  await inProject(FILES, async (folder) => {
    reset(folder);
    seen.files = Object.keys(FILES).map((path) => join(folder, path));
    const started: string[][] = [];
    const kcheck: Start = (_program, args) => {
      started.push([...args]);
      return Promise.resolve({exit: 0, stdout: "", stderr: "", ...outputs[args[0] ?? ""]});
    };
    const startClient = (project: {root: string; settings: Settings}, _output: unknown, status: (status: ServerStatus) => void): Promise<Client> => {
      server.starts.push(project.root);
      server.status = status;
      if (server.refuses !== "") {
        return Promise.reject(new Error(server.refuses));
      }
      return Promise.resolve({
        change: (settings) => Promise.resolve(void server.changes.push(settings)),
        stop: () => Promise.resolve(void (server.stops += 1)),
      });
    };
    const context = {subscriptions: [], extensionUri: Uri.file("/extension")} as unknown as vscode.ExtensionContext;
    const extension = new Extension(context, startClient, kcheck);
    await extension.activate();
    await use({extension, server, folder, started});
  });
}

function controller() {
  return seen.controllers[0] ?? assert.fail("no test controller");
}

async function discovered(): Promise<TestItem[]> {
  await controller().resolveHandler?.(undefined);
  return [...controller().items].map(([, item]) => item);
}

async function runTests(profile: string, items: TestItem[]): Promise<void> {
  await controller().profiles.get(profile)?.(new TestRunRequest(items), TOKEN);
}

async function spec(): Promise<TestItem> {
  return (await discovered()).find((item) => item.label.endsWith(".yaml")) ?? assert.fail("no spec");
}

function commandLine(task: Task | undefined): string[] {
  return task?.execution.args ?? assert.fail("no task was started");
}

describe("the language server", () => {
  test("starts in the folder, and is told of changed settings", () =>
    inEditor({}, async ({server, folder}) => {
      assert.deepEqual(server.starts, [folder]);
      seen.settings["cases"] = 7;
      await seen.configurationChanged?.({affectsConfiguration: (section) => section === "kcheck" || section === "kcheck.cases"});
      assert.deepEqual(server.changes.map((settings) => settings.cases), [7]);
    }));

  test("starts again when the path of kcheck changes, and stops with the extension", () =>
    inEditor({}, async ({server, extension}) => {
      seen.settings["path"] = "/opt/kcheck";
      await seen.configurationChanged?.({affectsConfiguration: (section) => section === "kcheck.path"});
      assert.deepEqual([server.starts.length, server.stops], [2, 1]);
      await extension.deactivate();
      assert.equal(server.stops, 2);
    }));

  test("keeps running if the setting that changed is what it was", () =>
    inEditor({}, async ({server}) => {
      await seen.configurationChanged?.({affectsConfiguration: (section) => section === "kcheck.path"});
      assert.deepEqual([server.starts.length, server.stops], [1, 0]);
    }));

  test("is one, however many changes come at once", () =>
    inEditor({}, async ({server, extension}) => {
      const event = {affectsConfiguration: (section: string) => section === "kcheck.path"};
      seen.settings["path"] = "/opt/kcheck";
      const changed = [1, 2, 3].map(() => seen.configurationChanged?.(event));
      for (const each of changed) {
        await each;
      }
      await extension.deactivate();
      assert.equal(server.starts.length, server.stops);
    }));

  test("is not started if it is turned off", () =>
    inEditor({}, async ({server, extension}) => {
      seen.settings["languageServer"] = false;
      await extension.activate();
      assert.deepEqual([server.starts.length, server.stops], [1, 1]);
    }));

  test("that does not start is a warning with the fix, and the rest works", async () => {
    const server = new Server();
    server.refuses = "no module named pygls";
    await inEditor({}, async () => {
      assert.match(seen.warnings[0] ?? "", /does not start \(no module named pygls\).*pip install 'kcheck\[lsp\]'/);
      assert.equal((await discovered()).length, 2);
    }, server);
  });

  test("its status is in the status bar", () =>
    inEditor({}, ({server}) => {
      server.status?.({file: "/p/specs/a.yaml", state: "failed", text: "2 of 30 cases failed"});
      assert.equal(seen.statusBar.text, "$(error) kcheck: 2 of 30 cases failed");
      assert.equal(seen.statusBar.backgroundColor?.id, "statusBarItem.errorBackground");
      server.status?.({file: "/p/specs/a.yaml", state: "running", text: ""});
      assert.equal(seen.statusBar.text, "$(sync~spin) kcheck: running");
      assert.equal(seen.statusBar.backgroundColor, undefined);
      return Promise.resolve();
    }));

  test("where it does not run, the YAML extension gets the schema, for specs only", async () => {
    const server = new Server();
    server.refuses = "not installed";
    await inEditor({}, async ({extension}) => {
      let requested: ((resource: string) => string | undefined) | undefined;
      const registerContributor = (_schema: string, request: typeof requested): boolean => {
        requested = request;
        return true;
      };
      seen.yaml = {activate: () => Promise.resolve({registerContributor})};
      await extension.activate();
      workspace.textDocuments = [
        {uri: Uri.file("/p/a.yaml"), getText: () => SPEC},
        {uri: Uri.file("/p/b.yaml"), getText: () => "jobs: 1\n"},
      ];
      assert.equal(requested?.("file:///p/a.yaml"), "kcheck-schema://schema/op-spec");
      assert.equal(requested("file:///p/b.yaml"), undefined);
      server.refuses = "";
      await extension.activate();
      assert.equal(requested("file:///p/a.yaml"), undefined);
    }, server);
  });
});

describe("the Test Explorer", () => {
  test("shows specs and declared ops, and no other YAML file", () =>
    inEditor({}, async () => {
      assert.deepEqual((await discovered()).map((item) => item.label), ["specs/gemv_tail.yaml", "kernels/k.py::scale"]);
    }));

  test("a spec that opens shows its cases, without running them", () =>
    inEditor({cases: {stdout: recorded("cases.json")}}, async ({started, folder}) => {
      const item = await spec();
      await controller().resolveHandler?.(item);
      assert.deepEqual(started, [["cases", join(folder, "specs/gemv_tail.yaml"), "--profile", "quick", "--format", "json"]]);
      assert.equal([...item.children][1]?.[1].label, "example_1  M=5 N=33 T=float16");
    }));

  test("a spec whose cases cannot be listed shows why", () =>
    inEditor({cases: {exit: 2, stderr: "specs/broken.yaml:3:1: unknown key 'kernal'\n"}}, async () => {
      const item = await spec();
      await controller().resolveHandler?.(item);
      assert.equal(item.error, "specs/broken.yaml:3:1: unknown key 'kernal'");
    }));

  test("a run gives each case its result, with the values that differ", () =>
    inEditor({run: {exit: 1, stdout: recorded("wrong_values.json"), stderr: "a warning\n"}}, async ({folder}) => {
      await runTests("Run", [await spec()]);
      const run = controller().runs[0] ?? assert.fail("no run");
      assert.deepEqual(run.results.map(({state}) => state), ["failed", "failed", "passed", "passed", "failed", "passed", "failed"]);
      const message = run.results[0]?.messages[0];
      assert.equal(message?.expectedOutput, "updated[0] = 3632.754506169178");
      assert.equal(message.location?.uri.fsPath, join(folder, "specs/buggy/gemv_tail.yaml"));
      assert.equal(message.location.range.line, 6);
      assert.ok(run.ended);
      assert.equal(seen.statusBar.text, "$(error) kcheck (cpu): 3 of 6 cases failed");
    }));

  test("a race is at the line of the kernel", () =>
    inEditor({run: {exit: 1, stdout: recorded("race.json")}}, async ({folder}) => {
      await runTests("Run", [await spec()]);
      const message = controller().runs[0]?.results[0]?.messages[0];
      assert.equal(message?.location?.uri.fsPath, join(folder, "kernels/buggy/matmul_missing_barrier.py"));
      assert.equal(message.location.range.line, 27);
    }));

  test("a spec that passes has passed, and so have its cases", () =>
    inEditor({run: {stdout: recorded("passed.json")}}, async () => {
      await runTests("Run", [await spec()]);
      assert.deepEqual(controller().runs[0]?.results.map(({state}) => state), ["passed", "passed", "passed", "passed"]);
      assert.equal(seen.statusBar.text, "$(pass) kcheck (cpu): 3 cases passed");
    }));

  test("a refused spec has its errors at their lines", () =>
    inEditor({run: {exit: 2, stdout: recorded("refused.json")}}, async () => {
      await runTests("Run", [await spec()]);
      const [result] = controller().runs[0]?.results ?? [];
      assert.equal(result?.state, "errored");
      assert.deepEqual(result.messages.map((message) => (message.location?.range.line ?? 0) + 1), [1, 1, 1, 3, 3]);
    }));

  test("a run without a report is an error with what kcheck said", () =>
    inEditor({run: {exit: 3, stderr: "kcheck: internal error\n"}}, async () => {
      await runTests("Run", [await spec()]);
      const [result] = controller().runs[0]?.results ?? [];
      assert.deepEqual([result?.state, result?.messages[0]?.message], ["errored", "kcheck: internal error"]);
      assert.equal(seen.statusBar.tooltip, "kcheck: internal error");
    }));

  test("a case runs alone, and is debugged in a terminal with a prompt", () =>
    inEditor({cases: {stdout: recorded("cases.json")}, run: {exit: 1, stdout: recorded("wrong_values.json")}}, async ({started, folder}) => {
      const item = await spec();
      await controller().resolveHandler?.(item);
      const drawn = [...item.children].map(([, one]) => one).find((one) => one.label.startsWith("iter_29")) ?? assert.fail();
      await runTests("Run", [drawn]);
      assert.deepEqual(started[1]?.slice(4, 6), ["--case-seed", "12090140197629313407"]);
      await runTests("Reproduce and Debug", [drawn]);
      assert.deepEqual(commandLine(seen.tasks[0]), ["reproduce", "--op", "gemv_tail", "12090140197629313407", "--debug"]);
      assert.equal(seen.tasks[0]?.execution.options.cwd, folder);
      assert.equal(seen.tasks[0].presentationOptions.focus, true);
    }));

  test("follows files that change and go", () =>
    inEditor({}, async ({folder}) => {
      await discovered();
      const file = Uri.file(join(folder, "specs/other.yaml"));
      writeFileSync(file.fsPath, SPEC);
      await seen.watcher.changed(file);
      assert.equal(controller().items.size, 3);
      await seen.watcher.deleted(file);
      assert.equal(controller().items.size, 2);
    }));
});

describe("commands and tasks", () => {
  test("each command of package.json and of the server is registered", () =>
    inEditor({}, () => {
      const listed = (manifest().contributes["commands"] as {command: string}[]).map(({command}) => command);
      assert.deepEqual([...seen.commands.keys()].sort(), listed.sort());
      return Promise.resolve();
    }));

  test("a code action runs its case in a terminal, in the root of the project", () =>
    inEditor({}, async ({folder}) => {
      const argument = {file: join(folder, "specs/gemv_tail.yaml"), op: "gemv_tail", seed: "7"};
      await seen.commands.get("kcheck.reproduce")?.(argument as never);
      assert.deepEqual(commandLine(seen.tasks[0]), ["reproduce", "--op", "gemv_tail", "7"]);
      assert.equal(seen.tasks[0]?.execution.options.cwd, folder);
    }));

  test("Run Spec in the palette takes the active editor", () =>
    inEditor({}, async ({folder}) => {
      const uri = Uri.file(join(folder, "specs/gemv_tail.yaml"));
      seen.activeTextEditor = {document: {uri, languageId: "yaml", getText: () => SPEC}};
      await seen.commands.get("kcheck.run")?.();
      assert.deepEqual(commandLine(seen.tasks[0]), ["run", uri.fsPath, "--profile", "quick"]);
    }));

  test("without a folder, a command says what to open", () =>
    inEditor({}, async () => {
      seen.folder = "";
      await seen.commands.get("kcheck.minimize")?.();
      assert.deepEqual(seen.warnings, ["kcheck: no folder is open; open the folder of the project"]);
    }));

  test("tasks print one line for each place, which the problem matcher takes", () =>
    inEditor({}, () => {
      const [all] = new Tasks().provideTasks() as unknown as Task[];
      assert.deepEqual(commandLine(all), ["run", "--profile", "quick", "--format", "concise"]);
      assert.deepEqual(all?.problemMatchers, ["$kcheck"]);
      return Promise.resolve();
    }));

  test("a task of tasks.json keeps its definition, and one without arguments is refused", () =>
    inEditor({}, () => {
      const resolve = (definition: Record<string, unknown>): Task | undefined =>
        new Tasks().resolveTask({name: "quick", definition} as unknown as vscode.Task) as unknown as Task | undefined;
      const definition = {type: "kcheck", args: ["run", "specs/a.yaml"]};
      const made = resolve(definition);
      assert.equal(made?.definition, definition);
      assert.deepEqual(commandLine(made), ["run", "specs/a.yaml"]);
      assert.equal(resolve({type: "kcheck", args: [1]}), undefined);
      return Promise.resolve();
    }));
});
