/** The commands of code lenses, code actions and the palette: each runs `kcheck` in a terminal. */

import * as vscode from "vscode";
import {VERBS, ofCommand, type CaseArgument, type Verb} from "./commandline";
import {projectOf} from "./project";
import {declaredOps, isSpec} from "./specs";
import {inTerminal} from "./terminal";

export function registerCommands(): vscode.Disposable[] {
  return VERBS.map((verb) => vscode.commands.registerCommand(`kcheck.${verb}`, (given: unknown) => execute(verb, given)));
}

async function execute(verb: Verb, given: unknown): Promise<void> {
  const argument = isCaseArgument(given) ? given : verb === "run" ? activeSpec() : undefined;
  const project = projectOf(argument === undefined ? vscode.window.activeTextEditor?.document.uri : vscode.Uri.file(argument.file));
  if (project === undefined) {
    void vscode.window.showErrorMessage("kcheck: no folder is open; open the folder of the project");
    return;
  }
  await inTerminal(project, ofCommand(project.settings, verb, argument));
}

/** The spec in the active editor: a YAML spec, or a Python file that declares ops. Otherwise all specs run. */
function activeSpec(): CaseArgument | undefined {
  const document = vscode.window.activeTextEditor?.document;
  if (document === undefined) {
    return undefined;
  }
  const text = document.getText();
  const is = document.languageId === "python" ? declaredOps(text).length > 0 : document.languageId === "yaml" && isSpec(text);
  return is ? {file: document.uri.fsPath} : undefined;
}

function isCaseArgument(given: unknown): given is CaseArgument {
  return typeof given === "object" && given !== null && "file" in given && typeof given.file === "string";
}
