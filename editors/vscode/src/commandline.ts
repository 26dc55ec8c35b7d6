/** The command lines of kcheck, as lists of arguments. Knows nothing of VS Code. */

import type {Settings} from "./settings";

/** The argument of the commands in code lenses and code actions (docs/editor.md). */
export interface CaseArgument {
  /** Absolute path of the spec, or of the Python file that declares it. */
  readonly file: string;
  readonly op?: string;
  /** 64 bits, so digits in a string. */
  readonly seed?: string;
}

/** A case of a spec by what identifies it. */
export interface CaseKey {
  readonly label: string;
  readonly seed: string;
}

export const VERBS = ["run", "reproduce", "minimize", "show"] as const;
export type Verb = (typeof VERBS)[number];

/** The name of a spec on the command line: `softmax.yaml`, or `softmax.py::softmax` for a declared one. */
export function specName(file: string, op: string | undefined): string {
  return file.endsWith(".py") && op !== undefined ? `${file}::${op}` : file;
}

/** `kcheck cases` of a spec, as JSON. */
export function listing(settings: Settings, spec: string): string[] {
  return ["cases", spec, ...profile(settings), ...cases(settings), "--format", "json"];
}

/** `kcheck run` of a whole spec. */
export function running(settings: Settings, spec: string, format: string): string[] {
  return ["run", spec, ...profile(settings), ...cases(settings), ...device(settings), "--format", format];
}

/** `kcheck run` of one case. An example depends on its label and the master seed, other cases on their seed alone. */
export function runningCase(settings: Settings, spec: string, key: CaseKey, format: string): string[] {
  const selected = key.label.startsWith("example_") ? ["--cases", "0", "-k", key.label] : ["--case-seed", key.seed];
  return ["run", spec, ...profile(settings), ...selected, ...device(settings), "--format", format];
}

/** The command of a code lens, a code action or the palette; without a seed, that of the failure seen last. */
export function ofCommand(settings: Settings, verb: Verb, given: CaseArgument | undefined): string[] {
  if (verb === "run") {
    const files = given === undefined ? [] : [specName(given.file, given.op)];
    return ["run", ...files, ...profile(settings), ...cases(settings), ...device(settings)];
  }
  const where = verb === "show" ? [] : device(settings);
  return [verb, ...(given?.op === undefined ? [] : ["--op", given.op]), given?.seed ?? "last", ...where];
}

/** `kcheck reproduce` with a Python prompt at the end. */
export function debugging(settings: Settings, op: string, seed: string): string[] {
  return ["reproduce", "--op", op, seed, "--debug", ...device(settings)];
}

function profile(settings: Settings): string[] {
  return settings.profile === "" ? [] : ["--profile", settings.profile];
}

function cases(settings: Settings): string[] {
  return settings.cases === null ? [] : ["--cases", String(settings.cases)];
}

function device(settings: Settings): string[] {
  return settings.device === "" ? [] : ["--device", settings.device];
}
