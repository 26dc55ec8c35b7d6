/** The extension's settings, and what they mean for command lines. Knows nothing of VS Code. */

export interface Settings {
  readonly path: string;
  readonly profile: string;
  readonly cases: number | null;
  readonly device: string;
  readonly runOnSave: boolean;
  readonly languageServer: boolean;
}

export const DEFAULTS: Settings = {
  path: "",
  profile: "quick",
  cases: null,
  device: "",
  runOnSave: true,
  languageServer: true,
};

/** Where the `kcheck` of a folder may be, before the one on the PATH. */
const ENVIRONMENTS = [".venv/bin/kcheck", "venv/bin/kcheck", ".venv/Scripts/kcheck.exe", "venv/Scripts/kcheck.exe"];

/**
 * The program to start.
 *
 * @param folder absolute path of the workspace folder
 * @param exists whether there is a file of this path
 */
export function program(settings: Settings, folder: string, exists: (path: string) => boolean): string {
  if (settings.path !== "") {
    return settings.path.replaceAll("${workspaceFolder}", folder);
  }
  return ENVIRONMENTS.map((path) => `${folder}/${path}`).find(exists) ?? "kcheck";
}

/** What `kcheck lsp` takes as `initializationOptions` (docs/editor.md). */
export function serverSettings(settings: Settings): Record<string, unknown> {
  return {
    runOnSave: settings.runOnSave,
    profile: settings.profile,
    ...(settings.cases === null ? {} : {cases: settings.cases}),
    ...(settings.device === "" ? {} : {device: settings.device}),
    commands: "client",
  };
}
