/** The settings, the program and the root of the project for a file of the workspace. */

import {existsSync} from "node:fs";
import * as vscode from "vscode";
import {DEFAULTS, program, type Settings} from "./settings";
import {projectRoot} from "./specs";

export interface Project {
  readonly settings: Settings;
  readonly program: string;
  /** Absolute path of the folder to start kcheck in. */
  readonly root: string;
}

/** The project of a file; without one, that of the first workspace folder. Undefined without any folder. */
export function projectOf(file: vscode.Uri | undefined): Project | undefined {
  const folders = vscode.workspace.workspaceFolders ?? [];
  const folder = ((file && vscode.workspace.getWorkspaceFolder(file)) ?? folders[0])?.uri.fsPath;
  if (folder === undefined) {
    return undefined;
  }
  const settings = settingsOf(file);
  const root = file === undefined ? folder : projectRoot(file.fsPath, existsSync, folder);
  return {settings, program: program(settings, folder, existsSync), root};
}

function settingsOf(file: vscode.Uri | undefined): Settings {
  const given = vscode.workspace.getConfiguration("kcheck", file);
  return {
    path: given.get("path", DEFAULTS.path),
    profile: given.get("profile", DEFAULTS.profile),
    cases: given.get("cases", DEFAULTS.cases),
    device: given.get("device", DEFAULTS.device),
    runOnSave: given.get("runOnSave", DEFAULTS.runOnSave),
    languageServer: given.get("languageServer", DEFAULTS.languageServer),
  };
}
