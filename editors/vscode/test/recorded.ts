/** What kcheck printed, as scripts/record.sh recorded it, and a project on disk to go with it. */

import {mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync} from "node:fs";
import {tmpdir} from "node:os";
import {dirname, join} from "node:path";

/** The tests are bundled into out/test. */
const EXTENSION = join(__dirname, "..", "..");

export function recorded(name: string): string {
  return readFileSync(join(EXTENSION, "test", "recorded", name), "utf8");
}

export function manifest(): {contributes: Record<string, unknown>} {
  return JSON.parse(readFileSync(join(EXTENSION, "package.json"), "utf8")) as {contributes: Record<string, unknown>};
}

/** Writes files below a new folder, calls `use`, and removes the folder. */
export async function inProject(files: Record<string, string>, use: (folder: string) => Promise<void>): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), "kcheck-"));
  try {
    for (const [path, text] of Object.entries({"kcheck.yaml": "", ...files})) {
      mkdirSync(dirname(join(folder, path)), {recursive: true});
      writeFileSync(join(folder, path), text);
    }
    await use(folder);
  } finally {
    rmSync(folder, {recursive: true});
  }
}
