/**
 * The schema of op specs for Red Hat's YAML extension, where `kcheck lsp` does not run. A file is a spec by its text: a
 * pattern such as `specs/**` would take the YAML files of other tools.
 */

import * as vscode from "vscode";
import {isSpec} from "./specs";

const SCHEME = "kcheck-schema";
const ADDRESS = `${SCHEME}://schema/op-spec`;

/** The part of the YAML extension's API that is used here. */
interface YamlExtension {
  registerContributor(
    schema: string,
    requestSchema: (resource: string) => string | undefined,
    requestContent: (uri: string) => Promise<string> | string,
  ): boolean;
}

/** @returns whether the YAML extension is installed and took the schema */
export async function contributeSchema(extension: vscode.Uri, serverRuns: () => boolean): Promise<boolean> {
  const yaml = vscode.extensions.getExtension<YamlExtension>("redhat.vscode-yaml");
  if (yaml === undefined) {
    return false;
  }
  const api = await yaml.activate();
  return api.registerContributor(
    SCHEME,
    (resource) => (!serverRuns() && isSpecDocument(resource) ? ADDRESS : undefined),
    async () => {
      const file = vscode.Uri.joinPath(extension, "out", "schema", "op-spec.schema.json");
      return new TextDecoder().decode(await vscode.workspace.fs.readFile(file));
    },
  );
}

function isSpecDocument(resource: string): boolean {
  const document = vscode.workspace.textDocuments.find((one) => one.uri.toString() === resource);
  return document !== undefined && isSpec(document.getText());
}
