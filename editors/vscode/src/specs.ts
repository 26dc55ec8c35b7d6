/** Which files are specs, by their text. Knows nothing of VS Code. */

import {dirname, join} from "node:path";

/** Whether a YAML text is an op spec: the key `kcheck:` at the start of a line. */
export function isSpec(text: string): boolean {
  return /^kcheck\s*:/m.test(text);
}

export interface Declared {
  readonly op: string;
  /** Of the decorator, from 0. */
  readonly line: number;
}

/**
 * The ops that a Python file declares with `@kcheck.op` or `@op`: named by the first argument, or by the function.
 *
 * Only a listing: `kcheck` itself reads the file, and says what is wrong with it.
 */
export function declaredOps(text: string): Declared[] {
  const found: Declared[] = [];
  const decorator = /^@(?:kcheck\.)?op\(\s*(?:(["'])([^"'\\\n]+)\1)?/gm;
  for (const match of text.matchAll(decorator)) {
    const after = text.slice(match.index);
    const op = match[2] ?? /^(?:async\s+)?def\s+(\w+)/m.exec(after)?.[1];
    if (op !== undefined) {
      found.push({op, line: text.slice(0, match.index).split("\n").length - 1});
    }
  }
  return found;
}

/** What marks the root of a project, as for kcheck itself. */
const MARKS = ["kcheck.yaml", "pyproject.toml", ".git"];

/**
 * The root of the project that a file is in: the nearest folder with one of the marks.
 *
 * @param exists whether there is a file or folder of this path
 * @param otherwise the root if no folder has a mark
 */
export function projectRoot(file: string, exists: (path: string) => boolean, otherwise: string): string {
  for (let folder = dirname(file); ; folder = dirname(folder)) {
    if (MARKS.some((mark) => exists(join(folder, mark)))) {
      return folder;
    }
    if (dirname(folder) === folder) {
      return otherwise;
    }
  }
}
