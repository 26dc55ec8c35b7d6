/** The Test Explorer: specs, and below each its cases. Runs them by `kcheck run --format json`. */

import {isAbsolute, join} from "node:path";
import * as vscode from "vscode";
import {debugging, listing, running, runningCase, specName} from "./commandline";
import type {Output, Start} from "./process";
import {projectOf, type Project} from "./project";
import {
  caseTitle,
  messages,
  parseListing,
  parseReport,
  specMessages,
  type Message,
  type PlannedCase,
  type Report,
  type RunSpec,
} from "./report";
import {declaredOps, isSpec} from "./specs";
import type {StatusBar} from "./status";
import {inTerminal} from "./terminal";

const SPEC_FILES = "**/*.{yaml,yml,py}";
const EXCLUDED = "**/{node_modules,.venv,venv,.git,.kcheck,site-packages}/**";

interface SpecNode {
  readonly file: vscode.Uri;
  /** Of a spec that a Python file declares. */
  readonly op: string | undefined;
}

interface CaseNode {
  readonly spec: vscode.TestItem;
  readonly key: PlannedCase;
  readonly op: string;
}

export class Explorer implements vscode.Disposable {
  readonly controller: vscode.TestController = vscode.tests.createTestController("kcheck", "kcheck");
  readonly #specs = new WeakMap<vscode.TestItem, SpecNode>();
  readonly #cases = new WeakMap<vscode.TestItem, CaseNode>();
  readonly #owned: {dispose(): unknown}[] = [];

  constructor(
    private readonly start: Start,
    private readonly log: (text: string) => void,
    private readonly status: StatusBar,
  ) {
    this.controller.resolveHandler = async (item) => {
      await (item === undefined ? this.discover() : this.list(item));
    };
    this.controller.refreshHandler = () => this.discover();
    const kinds = vscode.TestRunProfileKind;
    this.controller.createRunProfile("Run", kinds.Run, (request, token) => this.run(request, token), true);
    this.controller.createRunProfile("Reproduce and Debug", kinds.Debug, (request) => this.debug(request), true);
    const watcher = vscode.workspace.createFileSystemWatcher(SPEC_FILES);
    watcher.onDidCreate((file) => this.read(file));
    watcher.onDidChange((file) => this.read(file));
    watcher.onDidDelete((file) => { this.replace(file, []); });
    this.#owned.push(this.controller, watcher);
  }

  /** Reads the files of the workspace, and shows the specs among them. */
  async discover(): Promise<void> {
    const files = await vscode.workspace.findFiles(SPEC_FILES, EXCLUDED);
    this.controller.items.replace([]);
    for (const file of files) {
      await this.read(file);
    }
  }

  /** Shows the specs of one file, as it is now. */
  private async read(file: vscode.Uri): Promise<void> {
    let text: string;
    try {
      text = new TextDecoder().decode(await vscode.workspace.fs.readFile(file));
    } catch (error) {
      this.log(`cannot read ${file.fsPath}: ${String(error)}`);
      this.replace(file, []);
      return;
    }
    if (file.fsPath.endsWith(".py")) {
      this.replace(file, declaredOps(text));
    } else {
      this.replace(file, isSpec(text) ? [{op: undefined, line: 0}] : []);
    }
  }

  /** The specs of a file are these and no others; a spec that was there keeps its results. */
  private replace(file: vscode.Uri, found: readonly {op: string | undefined; line: number}[]): void {
    const ids = new Set(found.map(({op}) => specName(file.toString(), op)));
    for (const [id, item] of this.controller.items) {
      if (item.uri?.toString() === file.toString() && !ids.has(id)) {
        this.controller.items.delete(id);
      }
    }
    for (const {op, line} of found) {
      const id = specName(file.toString(), op);
      const item = this.controller.items.get(id) ?? this.newSpec(id, {file, op});
      item.range = new vscode.Range(line, 0, line, 0);
    }
  }

  private newSpec(id: string, node: SpecNode): vscode.TestItem {
    const item = this.controller.createTestItem(id, specName(vscode.workspace.asRelativePath(node.file), node.op), node.file);
    item.canResolveChildren = true;
    this.#specs.set(item, node);
    this.controller.items.add(item);
    return item;
  }

  /** Shows the cases of a spec, without running them. */
  private async list(item: vscode.TestItem): Promise<void> {
    const node = this.#specs.get(item);
    const project = projectOf(node?.file);
    if (node === undefined || project === undefined) {
      return;
    }
    item.busy = true;
    try {
      const args = listing(project.settings, specName(node.file.fsPath, node.op));
      const done = await this.kcheck(project, args);
      if (done.exit !== 0) {
        item.error = done.stderr.trim() || done.stdout.trim();
        return;
      }
      const cases = parseListing(done.stdout);
      item.error = undefined;
      item.children.replace([]);
      for (const planned of cases.cases) {
        this.caseItem(item, cases.op, planned);
      }
    } catch (error) {
      item.error = text(error);
    } finally {
      item.busy = false;
    }
  }

  /** The item of a case; made if the tree does not have it. By seed: a case that runs alone has another label. */
  private caseItem(spec: vscode.TestItem, op: string, planned: PlannedCase): vscode.TestItem {
    const id = `${spec.id}#${planned.seed}`;
    const known = spec.children.get(id);
    if (known !== undefined) {
      return known;
    }
    const item = this.controller.createTestItem(id, caseTitle(planned), spec.uri);
    item.range = spec.range;
    this.#cases.set(item, {spec, key: planned, op});
    spec.children.add(item);
    return item;
  }

  private async run(request: vscode.TestRunRequest, token: vscode.CancellationToken): Promise<void> {
    const run = this.controller.createTestRun(request);
    const left = this.selected(request);
    for (const item of left) {
      run.enqueued(item);
    }
    for (const item of left) {
      if (token.isCancellationRequested) {
        run.skipped(item);
      } else {
        await this.runItem(run, item, token);
      }
    }
    run.end();
  }

  private selected(request: vscode.TestRunRequest): vscode.TestItem[] {
    const wanted = request.include ?? [...this.controller.items].map(([, item]) => item);
    const excluded = new Set(request.exclude ?? []);
    return wanted.filter((item) => !excluded.has(item));
  }

  private async runItem(run: vscode.TestRun, item: vscode.TestItem, token: vscode.CancellationToken): Promise<void> {
    const one = this.#cases.get(item);
    const spec = one?.spec ?? item;
    const node = this.#specs.get(spec);
    const project = projectOf(node?.file);
    if (node === undefined || project === undefined) {
      run.skipped(item);
      return;
    }
    const name = specName(node.file.fsPath, node.op);
    const args = one
      ? runningCase(project.settings, name, one.key, "json")
      : running(project.settings, name, "json");
    run.started(item);
    this.status.running(item.label);
    try {
      // The Test Explorer shows output in a terminal, which wants carriage returns.
      const done = await this.kcheck(project, args, token, (written) => {
        run.appendOutput(written.replaceAll(/\r?\n/g, "\r\n"));
      });
      if (done.stdout.trim() === "") {
        throw new Error(done.stderr.trim() || `kcheck wrote nothing and exited with ${String(done.exit)}`);
      }
      const report = parseReport(done.stdout);
      this.show(run, item, spec, report, project);
      this.status.finished(report);
    } catch (error) {
      run.errored(item, new vscode.TestMessage(text(error)));
      this.status.broken(text(error));
    }
  }

  /** Shows what a report says about a spec and its cases. */
  private show(run: vscode.TestRun, item: vscode.TestItem, spec: vscode.TestItem, report: Report, project: Project): void {
    for (const result of report.specs) {
      const whole = specMessages(result).map((message) => testMessage(message, project));
      if (result.status === "refused") {
        run.errored(item, whole);
        return;
      }
      this.showCases(run, spec, result, project);
      if (item !== spec) {
        continue;
      }
      if (result.status === "passed") {
        run.passed(spec);
      } else if (result.status === "skipped") {
        run.skipped(spec);
      } else {
        run.failed(spec, whole); // the cases have their own messages
      }
    }
  }

  private showCases(run: vscode.TestRun, spec: vscode.TestItem, result: RunSpec, project: Project): void {
    for (const done of result.cases) {
      const item = this.caseItem(spec, result.op, done);
      const milliseconds = (done.time.seconds ?? 0) * 1000;
      const wrong = messages(result, done).map((message) => testMessage(message, project));
      if (done.status === "passed") {
        run.passed(item, milliseconds);
      } else if (done.status === "failed") {
        run.failed(item, wrong, milliseconds);
      } else {
        run.errored(item, wrong, milliseconds);
      }
    }
  }

  /** Runs each selected case again in a terminal, with a Python prompt that has its inputs and outputs. */
  private async debug(request: vscode.TestRunRequest): Promise<void> {
    for (const item of this.selected(request)) {
      const one = this.#cases.get(item);
      const project = projectOf(item.uri);
      if (one === undefined || project === undefined) {
        void vscode.window.showInformationMessage("kcheck debugs one case at a time: choose a case of the spec");
        return;
      }
      await inTerminal(project, debugging(project.settings, one.op, one.key.seed));
    }
  }

  private async kcheck(
    project: Project,
    args: readonly string[],
    token?: vscode.CancellationToken,
    onStderr?: (text: string) => void,
  ): Promise<Output> {
    this.log(`${project.program} ${args.join(" ")}`);
    const done = await this.start(project.program, args, project.root, token, onStderr);
    if (done.stderr !== "") {
      this.log(done.stderr.trimEnd());
    }
    return done;
  }

  dispose(): void {
    for (const one of this.#owned) {
      one.dispose();
    }
  }
}

function testMessage(message: Message, project: Project): vscode.TestMessage {
  const made =
    message.expected === undefined || message.actual === undefined
      ? new vscode.TestMessage(message.text)
      : vscode.TestMessage.diff(message.text, message.expected, message.actual);
  const {file, line, column} = message.place;
  const path = isAbsolute(file) ? file : join(project.root, file);
  made.location = new vscode.Location(vscode.Uri.file(path), new vscode.Position(line - 1, column - 1));
  return made;
}

function text(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
