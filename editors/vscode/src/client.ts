/** The client of `kcheck lsp`. All that the server offers comes through vscode-languageclient. */

import type * as vscode from "vscode";
import {LanguageClient, type LanguageClientOptions} from "vscode-languageclient/node";
import type {Project} from "./project";
import {serverSettings, type Settings} from "./settings";
import type {ServerStatus} from "./status";

/** A running language server. */
export interface Client {
  change(settings: Settings): Promise<void>;
  stop(): Promise<void>;
}

export type StartClient = (
  project: Project,
  output: vscode.LogOutputChannel,
  status: (status: ServerStatus) => void,
) => Promise<Client>;

/** @throws Error if the server does not start, such as without the extra `lsp` */
export const startClient: StartClient = async (project, output, status) => {
  const options: LanguageClientOptions = {
    documentSelector: [
      {scheme: "file", language: "yaml"},
      {scheme: "file", language: "python"},
    ],
    initializationOptions: serverSettings(project.settings),
    outputChannel: output,
    // The caller shows the error, with the fix.
    initializationFailedHandler: () => false,
  };
  const server = {command: project.program, args: ["lsp"], options: {cwd: project.root}};
  const client = new LanguageClient("kcheck", "kcheck", server, options);
  client.onNotification("kcheck/status", status);
  await client.start();
  return {
    change: (settings) => client.sendNotification("workspace/didChangeConfiguration", {settings: serverSettings(settings)}),
    stop: () => client.stop(),
  };
};
