/**
 * A double of the part of `vscode` that the extension uses, without an editor. Tests read what the extension has
 * registered and shown from `seen`. The double is checked against the real types where the extension is compiled; what
 * is missing here fails in a test as `undefined`.
 */

import {readFile} from "node:fs/promises";

type Listener = (...given: never[]) => unknown;

export class Uri {
  private constructor(readonly fsPath: string) {}
  readonly scheme = "file";
  static file(path: string): Uri {
    return new Uri(path);
  }
  static joinPath(base: Uri, ...parts: string[]): Uri {
    return new Uri([base.fsPath, ...parts].join("/"));
  }
  toString(): string {
    return `file://${this.fsPath}`;
  }
}

export class Position {
  constructor(readonly line: number, readonly character: number) {}
}

export class Range {
  readonly start: Position;
  constructor(line: number, character: number, readonly endLine: number, readonly endCharacter: number) {
    this.start = new Position(line, character);
  }
}

export class Location {
  constructor(readonly uri: Uri, readonly range: Position) {}
}

export class TestMessage {
  location: Location | undefined;
  expectedOutput: string | undefined;
  actualOutput: string | undefined;
  constructor(readonly message: string) {}
  static diff(message: string, expected: string, actual: string): TestMessage {
    const made = new TestMessage(message);
    made.expectedOutput = expected;
    made.actualOutput = actual;
    return made;
  }
}

export class TestRunRequest {
  constructor(readonly include?: TestItem[], readonly exclude?: TestItem[]) {}
}

export class ThemeColor {
  constructor(readonly id: string) {}
}

export class ProcessExecution {
  constructor(readonly process: string, readonly args: string[], readonly options: {cwd?: string}) {}
}

export class Task {
  presentationOptions: {focus?: boolean} = {};
  constructor(
    public definition: Record<string, unknown>,
    readonly scope: number,
    readonly name: string,
    readonly source: string,
    readonly execution: ProcessExecution,
    readonly problemMatchers: string[],
  ) {}
}

export const StatusBarAlignment = {Left: 1, Right: 2};
export const TaskScope = {Global: 1, Workspace: 2};
export const TaskRevealKind = {Always: 1, Silent: 2, Never: 3};
export const TestRunProfileKind = {Run: 1, Debug: 2, Coverage: 3};

export class TestItems {
  readonly #items = new Map<string, TestItem>();
  get size(): number {
    return this.#items.size;
  }
  add(item: TestItem): void {
    this.#items.set(item.id, item);
  }
  get(id: string): TestItem | undefined {
    return this.#items.get(id);
  }
  delete(id: string): void {
    this.#items.delete(id);
  }
  replace(items: TestItem[]): void {
    this.#items.clear();
    items.forEach((item) => { this.add(item); });
  }
  [Symbol.iterator](): Iterator<[string, TestItem]> {
    return this.#items.entries();
  }
}

export class TestItem {
  readonly children = new TestItems();
  canResolveChildren = false;
  busy = false;
  error: string | undefined;
  range: Range | undefined;
  constructor(readonly id: string, readonly label: string, readonly uri: Uri | undefined) {}
}

/** A result that the extension gave to an item. */
export interface Result {
  readonly state: string;
  readonly label: string;
  readonly messages: readonly TestMessage[];
}

class TestRun {
  readonly results: Result[] = [];
  output = "";
  ended = false;
  enqueued(): void { /* only shown while a run goes on */ }
  started(): void { /* the same */ }
  passed(item: TestItem): void { this.add("passed", item); }
  skipped(item: TestItem): void { this.add("skipped", item); }
  failed(item: TestItem, messages: TestMessage | TestMessage[]): void { this.add("failed", item, messages); }
  errored(item: TestItem, messages: TestMessage | TestMessage[]): void { this.add("errored", item, messages); }
  appendOutput(text: string): void { this.output += text; }
  end(): void { this.ended = true; }
  private add(state: string, item: TestItem, messages: TestMessage | TestMessage[] = []): void {
    this.results.push({state, label: item.label, messages: [messages].flat()});
  }
}

export class TestController {
  readonly items = new TestItems();
  readonly runs: TestRun[] = [];
  readonly profiles = new Map<string, (request: TestRunRequest, token: unknown) => Promise<void>>();
  resolveHandler: ((item: TestItem | undefined) => Promise<void>) | undefined;
  createTestItem(id: string, label: string, uri?: Uri): TestItem {
    return new TestItem(id, label, uri);
  }
  createRunProfile(label: string, _kind: number, handler: (request: TestRunRequest, token: unknown) => Promise<void>): void {
    this.profiles.set(label, handler);
  }
  createTestRun(): TestRun {
    const run = new TestRun();
    this.runs.push(run);
    return run;
  }
  dispose(): void { /* nothing is held */ }
}

/** What the extension did, and what the test gives it. `reset` before each test. */
export const seen = {
  folder: "",
  files: [] as string[],
  settings: {} as Record<string, unknown>,
  commands: new Map<string, Listener>(),
  tasks: [] as Task[],
  warnings: [] as string[],
  log: [] as string[],
  controllers: [] as TestController[],
  statusBar: {text: "", tooltip: "", backgroundColor: undefined as ThemeColor | undefined},
  watcher: {} as Record<"created" | "changed" | "deleted", (file: Uri) => Promise<void>>,
  configurationChanged: undefined as ((event: {affectsConfiguration(section: string): boolean}) => Promise<void>) | undefined,
  activeTextEditor: undefined as unknown,
  yaml: undefined as unknown,
};

export function reset(folder: string): void {
  seen.folder = folder;
  seen.files = [];
  seen.settings = {};
  seen.commands.clear();
  for (const list of [seen.tasks, seen.warnings, seen.log, seen.controllers]) {
    list.length = 0;
  }
  seen.activeTextEditor = undefined;
  seen.yaml = undefined;
}

const disposable = {dispose: (): void => { /* nothing is held */ }};

export const window = {
  get activeTextEditor(): unknown {
    return seen.activeTextEditor;
  },
  createOutputChannel: () => ({
    info: (text: string) => seen.log.push(text),
    error: (text: string) => seen.log.push(text),
    show: () => undefined,
    ...disposable,
  }),
  createStatusBarItem: () => Object.assign(seen.statusBar, {show: () => undefined, ...disposable}),
  showWarningMessage: (text: string) => Promise.resolve(void seen.warnings.push(text)),
  showErrorMessage: (text: string) => Promise.resolve(void seen.warnings.push(text)),
  showInformationMessage: (text: string) => Promise.resolve(void seen.warnings.push(text)),
};

export const commands = {
  registerCommand: (name: string, run: Listener) => {
    if (seen.commands.has(name)) {
      throw new Error(`command '${name}' already exists`);
    }
    seen.commands.set(name, run);
    return disposable;
  },
};

export const tasks = {
  registerTaskProvider: () => disposable,
  executeTask: (task: Task) => Promise.resolve(void seen.tasks.push(task)),
};

export const tests = {
  createTestController: () => {
    const made = new TestController();
    seen.controllers.push(made);
    return made;
  },
};

export const extensions = {getExtension: () => seen.yaml};

export const workspace = {
  textDocuments: [] as {uri: Uri; getText(): string}[],
  get workspaceFolders(): {uri: Uri}[] {
    return seen.folder === "" ? [] : [{uri: Uri.file(seen.folder)}];
  },
  getWorkspaceFolder: (file: Uri) => (file.fsPath.startsWith(`${seen.folder}/`) ? {uri: Uri.file(seen.folder)} : undefined),
  getConfiguration: () => ({get: (name: string, otherwise: unknown) => (name in seen.settings ? seen.settings[name] : otherwise)}),
  asRelativePath: (file: Uri) => file.fsPath.slice(seen.folder.length + 1),
  findFiles: () => Promise.resolve(seen.files.map((path) => Uri.file(path))),
  fs: {readFile: (file: Uri) => readFile(file.fsPath)},
  createFileSystemWatcher: () => ({
    onDidCreate: (listener: (file: Uri) => Promise<void>) => (seen.watcher.created = listener),
    onDidChange: (listener: (file: Uri) => Promise<void>) => (seen.watcher.changed = listener),
    onDidDelete: (listener: (file: Uri) => Promise<void>) => (seen.watcher.deleted = listener),
    ...disposable,
  }),
  onDidChangeConfiguration: (listener: typeof seen.configurationChanged) => {
    seen.configurationChanged = listener;
    return disposable;
  },
};
