/** Starts kcheck and collects what it prints. Knows nothing of VS Code. */

import {spawn} from "node:child_process";

export interface Output {
  readonly exit: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

/** What `start` needs of VS Code's CancellationToken. */
export interface Cancellation {
  readonly isCancellationRequested: boolean;
  onCancellationRequested(listener: () => void): {dispose(): unknown};
}

export type Start = (
  program: string,
  args: readonly string[],
  folder: string,
  cancellation?: Cancellation,
  onStderr?: (text: string) => void,
) => Promise<Output>;

/**
 * Runs a program to its end, and tells `onStderr` what it writes there meanwhile; on cancellation it gets SIGINT, on which kcheck writes what it has.
 *
 * @throws Error if it cannot be started, with the fix
 */
export const start: Start = async (program, args, folder, cancellation, onStderr) => {
  const child = spawn(program, [...args], {cwd: folder, env: {...process.env, NO_COLOR: "1"}, windowsHide: true});
  const collected = {stdout: "", stderr: ""};
  child.stdout.setEncoding("utf8").on("data", (text: string) => (collected.stdout += text));
  child.stderr.setEncoding("utf8").on("data", (text: string) => {
    collected.stderr += text;
    onStderr?.(text);
  });
  const stop = cancellation?.onCancellationRequested(() => child.kill("SIGINT"));
  if (cancellation?.isCancellationRequested === true) {
    child.kill("SIGINT");
  }
  try {
    const exit = await new Promise<number | null>((resolve, reject) => {
      child.on("error", (error: NodeJS.ErrnoException) => {
        const why = error.code === "ENOENT" ? "there is no such program" : error.message;
        reject(new Error(`cannot start '${program}': ${why}; set kcheck.path in the settings`));
      });
      child.on("close", resolve);
    });
    return {exit, ...collected};
  } finally {
    stop?.dispose();
  }
};
