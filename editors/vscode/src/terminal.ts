/** Runs kcheck in a terminal, as a task: no shell quotes the arguments, and `--debug` can read from the keyboard. */

import * as vscode from "vscode";
import {running} from "./commandline";
import {projectOf, type Project} from "./project";

/** A task that runs `kcheck ARGS` in the project. */
export function task(project: Project, args: readonly string[], name: string, matchers: string[] = []): vscode.Task {
  const execution = new vscode.ProcessExecution(project.program, [...args], {cwd: project.root});
  const made = new vscode.Task({type: "kcheck", args}, vscode.TaskScope.Workspace, name, "kcheck", execution, matchers);
  made.presentationOptions = {reveal: vscode.TaskRevealKind.Always, clear: true, focus: args.includes("--debug")};
  return made;
}

export async function inTerminal(project: Project, args: readonly string[]): Promise<void> {
  await vscode.tasks.executeTask(task(project, args, args.slice(0, 2).join(" ")));
}

/** Offers "kcheck: run all specs", and completes tasks of tasks.json that have the type `kcheck`. */
export class Tasks implements vscode.TaskProvider {
  provideTasks(): vscode.Task[] {
    const project = projectOf(undefined);
    if (project === undefined) {
      return [];
    }
    // Without a path, kcheck runs all specs of the project.
    const all = running(project.settings, "", "concise").filter((word) => word !== "");
    return [
      task(project, all, "run all specs", ["$kcheck"]),
      task(project, ["validate"], "validate all specs", ["$kcheck"]),
    ];
  }

  resolveTask(given: vscode.Task): vscode.Task | undefined {
    const project = projectOf(undefined);
    const args: unknown = given.definition["args"];
    if (project === undefined || !Array.isArray(args) || !args.every((word) => typeof word === "string")) {
      return undefined;
    }
    const made = task(project, args, given.name, ["$kcheck"]);
    // VS Code only accepts a task with the very definition that it asked for.
    made.definition = given.definition;
    return made;
  }
}
