/** What VS Code calls. */

import type * as vscode from "vscode";
import {startClient} from "./client";
import {Extension} from "./wiring";

let extension: Extension | undefined;

export async function activate(context: vscode.ExtensionContext): Promise<void> {
  extension = new Extension(context, startClient);
  await extension.activate();
}

export async function deactivate(): Promise<void> {
  await extension?.deactivate();
  extension = undefined;
}
