/** The status bar: the device and the last result. */

import * as vscode from "vscode";
import {summary, type Report} from "./report";

/** The parameter of `kcheck/status` (docs/editor.md). */
export interface ServerStatus {
  readonly file: string;
  readonly state: string;
  readonly text: string;
}

const ICONS: Readonly<Record<string, string>> = {
  running: "$(sync~spin)",
  passed: "$(pass)",
  failed: "$(error)",
  refused: "$(warning)",
  error: "$(warning)",
};

export class StatusBar implements vscode.Disposable {
  readonly item: vscode.StatusBarItem;
  #device = "";

  constructor() {
    this.item = vscode.window.createStatusBarItem("kcheck", vscode.StatusBarAlignment.Left, 0);
    this.item.name = "kcheck";
    this.item.command = "kcheck.showOutput";
    this.show("", "kcheck", "no run yet");
    this.item.show();
  }

  /** A run of the Test Explorer has begun. */
  running(what: string): void {
    this.show("running", "running", what);
  }

  /** A run of the Test Explorer has ended. */
  finished(report: Report): void {
    this.#device = report.device?.kind ?? "";
    const {failed, errors, refused} = report.summary;
    const state = failed > 0 ? "failed" : errors + refused > 0 ? "error" : "passed";
    this.show(state, summary(report), report.device?.name ?? "");
  }

  /** A run could not be started, or did not write a report. */
  broken(why: string): void {
    this.show("error", "error", why);
  }

  /** What the language server says about its runs. */
  server(status: ServerStatus): void {
    this.show(status.state, status.text || status.state, status.file);
  }

  private show(state: string, text: string, tip: string): void {
    const words = text === "kcheck" ? text : `kcheck${this.#device === "" ? "" : ` (${this.#device})`}: ${text}`;
    this.item.text = `${ICONS[state] ?? "$(beaker)"} ${words}`;
    this.item.tooltip = tip;
    this.item.backgroundColor =
      state === "failed" ? new vscode.ThemeColor("statusBarItem.errorBackground") : undefined;
  }

  dispose(): void {
    this.item.dispose();
  }
}
