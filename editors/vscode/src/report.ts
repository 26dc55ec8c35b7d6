/**
 * What `kcheck run --format json` and `kcheck cases --format json` write, by schema/report.schema.json: the part that
 * the editor shows. Knows nothing of VS Code.
 */

export interface Place {
  readonly file: string;
  readonly line: number;
  readonly column: number;
}

export interface Finding {
  readonly rule: string;
  readonly severity: "error" | "warn";
  readonly message: string;
  readonly fix: string;
  readonly place: Place | null;
  readonly other_place: Place | null;
}

export interface Comparison {
  readonly output: string;
  readonly passed: boolean;
  readonly elements: number;
  readonly beyond: number;
  readonly worst: readonly number[] | null;
  readonly actual: unknown;
  readonly expected: unknown;
  readonly why: string;
}

export interface PlannedCase {
  readonly id: string;
  readonly label: string;
  readonly seed: string;
  readonly dims: Readonly<Record<string, number>>;
  readonly dtypes: Readonly<Record<string, string>>;
}

export interface FinishedCase extends PlannedCase {
  readonly status: "passed" | "failed" | "error";
  readonly comparisons: readonly Comparison[];
  readonly findings: readonly Finding[];
  readonly notes: readonly string[];
  readonly replay: string;
  readonly time: {readonly seconds?: number};
}

export interface RunSpec {
  readonly path: string;
  readonly line: number;
  readonly op: string;
  readonly status: "passed" | "failed" | "error" | "skipped";
  readonly cases: readonly FinishedCase[];
  readonly findings: readonly Finding[];
}

export interface RefusedSpec {
  readonly path: string;
  readonly status: "refused";
  readonly faults: readonly (Place & {readonly what: string; readonly fix: string})[];
}

export interface Report {
  readonly device?: {readonly kind: string; readonly name: string};
  readonly specs: readonly (RunSpec | RefusedSpec)[];
  readonly summary: Readonly<Record<"specs" | "refused" | "passed" | "failed" | "errors" | "skipped", number>>;
}

export interface Listing {
  readonly path: string;
  readonly op: string;
  readonly cases: readonly PlannedCase[];
}

/** One thing that went wrong, with its place. */
export interface Message {
  readonly text: string;
  readonly place: Place;
  readonly expected?: string;
  readonly actual?: string;
}

/** The version of the report format that this extension reads. */
const VERSION = 2;

/**
 * @throws Error if the text is not a report, or one of another version
 */
export function parseReport(text: string): Report {
  const document = parsed(text);
  if (document["report"] !== "kcheck" || !Array.isArray(document["specs"])) {
    throw new Error("kcheck run did not write a report; see the output of kcheck");
  }
  if (document["version"] !== VERSION) {
    throw new Error(
      `this kcheck writes reports of version ${String(document["version"])}, but the extension reads ${VERSION}; ` +
        "update the older of the two",
    );
  }
  return document as unknown as Report;
}

/**
 * @throws Error if the text is not a listing of cases
 */
export function parseListing(text: string): Listing {
  const document = parsed(text);
  if (typeof document["op"] !== "string" || !Array.isArray(document["cases"])) {
    throw new Error("kcheck cases did not write a list of cases; see the output of kcheck");
  }
  return document as unknown as Listing;
}

function parsed(text: string): Record<string, unknown> {
  let document: unknown;
  try {
    document = JSON.parse(text);
  } catch {
    throw new Error("kcheck did not write JSON; see the output of kcheck");
  }
  if (typeof document !== "object" || document === null) {
    throw new Error("kcheck did not write a JSON object; see the output of kcheck");
  }
  return document as Record<string, unknown>;
}

/** What is wrong in a case: its findings of severity error, then its outputs with wrong values. */
export function messages(spec: RunSpec, done: FinishedCase): Message[] {
  const home = {file: spec.path.split("::")[0] ?? spec.path, line: spec.line, column: 1};
  const found = done.findings.filter((finding) => finding.severity === "error").map((finding) => ofFinding(finding, home));
  const wrong = done.comparisons.filter((comparison) => !comparison.passed).map((comparison) => ofComparison(comparison, home));
  const all = [...found, ...wrong];
  if (all.length === 0 && done.status !== "passed") {
    return [{text: done.notes.join("\n") || "the case could not be checked", place: home}];
  }
  return all;
}

/** What is wrong in a spec as a whole: why it was refused, or findings that belong to no case. */
export function specMessages(spec: RunSpec | RefusedSpec): Message[] {
  if (spec.status === "refused") {
    return spec.faults.map((fault) => ({
      text: withFix(fault.what, fault.fix),
      place: {file: fault.file, line: fault.line, column: fault.column},
    }));
  }
  const home = {file: spec.path.split("::")[0] ?? spec.path, line: spec.line, column: 1};
  return spec.findings.filter((finding) => finding.severity === "error").map((finding) => ofFinding(finding, home));
}

/** `iter_41  M=9 N=32 T=float16` */
export function caseTitle(planned: PlannedCase): string {
  const facts = [...Object.entries(planned.dims), ...Object.entries(planned.dtypes)];
  return [planned.label, ...(facts.length === 0 ? [] : [facts.map(([name, value]) => `${name}=${value}`).join(" ")])].join("  ");
}

/** `3 of 7 cases failed`: the result of a run in a few words. */
export function summary(report: Report): string {
  const {passed, failed, errors, refused} = report.summary;
  const ran = passed + failed + errors;
  const cases = (count: number): string => (count === 1 ? "1 case" : `${count} cases`);
  const parts = [
    ...(failed > 0 ? [`${failed} of ${cases(ran)} failed`] : []),
    ...(errors > 0 ? [`${cases(errors)} not judged`] : []),
    ...(refused > 0 ? [refused === 1 ? "1 spec refused" : `${refused} specs refused`] : []),
  ];
  return parts.length > 0 ? parts.join(", ") : `${cases(passed)} passed`;
}

function ofFinding(finding: Finding, home: Place): Message {
  const other = finding.other_place;
  const also = other === null ? "" : `\nThe other access: ${other.file}:${other.line}`;
  return {text: withFix(`${finding.rule}: ${finding.message}`, finding.fix) + also, place: finding.place ?? home};
}

function ofComparison(comparison: Comparison, home: Place): Message {
  if (comparison.why !== "") {
    return {text: `mismatch: ${comparison.output}: ${comparison.why}`, place: home};
  }
  const where = comparison.worst === null ? comparison.output : `${comparison.output}[${comparison.worst.join(", ")}]`;
  const count = comparison.elements === 1 ? "1 element" : `${comparison.elements} elements`;
  return {
    text: `mismatch: ${where}: ${comparison.beyond} of ${count} beyond tolerance`,
    place: home,
    ...(comparison.worst === null
      ? {}
      : {expected: `${where} = ${shown(comparison.expected)}`, actual: `${where} = ${shown(comparison.actual)}`}),
  };
}

function withFix(what: string, fix: string): string {
  return fix === "" ? what : `${what}\nfix: ${fix}`;
}

function shown(value: unknown): string {
  if (Object.is(value, -0)) {
    return "-0"; // which JSON.stringify writes as 0
  }
  return typeof value === "string" ? value : JSON.stringify(value);
}
