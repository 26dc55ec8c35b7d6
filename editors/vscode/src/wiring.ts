/** Puts the parts together. The client of the language server is given, so that tests can do without one. */

import * as vscode from "vscode";
import type {Client, StartClient} from "./client";
import {registerCommands} from "./commands";
import {Explorer} from "./explorer";
import {start, type Start} from "./process";
import {projectOf, type Project} from "./project";
import {contributeSchema} from "./schema";
import {StatusBar} from "./status";
import {Tasks} from "./terminal";

export class Extension {
  readonly output = vscode.window.createOutputChannel("kcheck", {log: true});
  readonly status = new StatusBar();
  readonly explorer: Explorer;
  #client: Client | undefined;
  /** Which server was started last. */
  #started = "";
  #restarts: Promise<void> = Promise.resolve();

  constructor(
    private readonly context: vscode.ExtensionContext,
    private readonly startClient: StartClient,
    startProcess: Start = start,
  ) {
    this.explorer = new Explorer(startProcess, (text) => { this.output.info(text); }, this.status);
    context.subscriptions.push(
      this.output,
      this.status,
      this.explorer,
      ...registerCommands(),
      vscode.commands.registerCommand("kcheck.restart", () => this.restart()),
      vscode.commands.registerCommand("kcheck.showOutput", () => { this.output.show(); }),
      vscode.tasks.registerTaskProvider("kcheck", new Tasks()),
      vscode.workspace.onDidChangeConfiguration((event) => this.changed(event)),
    );
  }

  async activate(): Promise<void> {
    await this.restart();
    await contributeSchema(this.context.extensionUri, () => this.#client !== undefined);
  }

  async deactivate(): Promise<void> {
    const client = this.#client;
    this.#client = undefined;
    await client?.stop();
  }

  /** Restarts the server after any restart in progress: there is never more than one. */
  private restart(isNeeded: () => boolean = () => true): Promise<void> {
    const done = this.#restarts.then(() => (isNeeded() ? this.startAnew() : undefined));
    this.#restarts = done;
    return done;
  }

  private async startAnew(): Promise<void> {
    await this.deactivate();
    const project = projectOf(undefined);
    this.#started = serverOf(project);
    if (project?.settings.languageServer !== true) {
      return;
    }
    try {
      this.#client = await this.startClient(project, this.output, (status) => { this.status.server(status); });
    } catch (error) {
      const why = error instanceof Error ? error.message : String(error);
      this.output.error(why);
      void this.warn(
        `kcheck: the language server does not start (${why}). Install it with pip install 'kcheck[lsp]', ` +
          "set kcheck.path, or turn off kcheck.languageServer. Tests and commands work without it.",
      );
    }
  }

  private async warn(text: string): Promise<void> {
    if ((await vscode.window.showWarningMessage(text, "Show Output")) === "Show Output") {
      this.output.show();
    }
  }

  private async changed(event: vscode.ConfigurationChangeEvent): Promise<void> {
    if (event.affectsConfiguration("kcheck.path") || event.affectsConfiguration("kcheck.languageServer")) {
      // What counts is what the settings are after a restart in progress.
      await this.restart(() => serverOf(projectOf(undefined)) !== this.#started);
    } else if (event.affectsConfiguration("kcheck")) {
      const project = projectOf(undefined);
      if (project !== undefined) {
        await this.#client?.change(project.settings);
      }
    }
  }
}

/** What decides which server runs, as text. */
function serverOf(project: Project | undefined): string {
  return project?.settings.languageServer === true ? `${project.program} in ${project.root}` : "";
}
