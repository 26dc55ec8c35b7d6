/** The modules that know nothing of VS Code. */

import assert from "node:assert/strict";
import {describe, test} from "node:test";
import {debugging, listing, ofCommand, running, runningCase} from "../src/commandline";
import {start} from "../src/process";
import {caseTitle, messages, parseListing, parseReport, specMessages, summary, type RunSpec} from "../src/report";
import {DEFAULTS, program, serverSettings} from "../src/settings";
import {declaredOps, isSpec, projectRoot} from "../src/specs";
import {manifest, recorded} from "./recorded";

const SETTINGS = {...DEFAULTS, profile: "ci", cases: 5, device: "cpu"};
const nowhere = (): boolean => false;

function ranSpec(name: string): RunSpec {
  const spec = parseReport(recorded(name)).specs[0];
  assert.ok(spec !== undefined && spec.status !== "refused");
  return spec;
}

describe("command lines", () => {
  test("settings become options, and settings that are empty do not", () => {
    assert.deepEqual(
      running(SETTINGS, "s.yaml", "json"),
      ["run", "s.yaml", "--profile", "ci", "--cases", "5", "--device", "cpu", "--format", "json"],
    );
    assert.deepEqual(running({...DEFAULTS, profile: ""}, "s.yaml", "json"), ["run", "s.yaml", "--format", "json"]);
    assert.deepEqual(listing(SETTINGS, "s.yaml"), ["cases", "s.yaml", "--profile", "ci", "--cases", "5", "--format", "json"]);
  });

  test("a generated case is run by its seed, an example by its label", () => {
    const generated = runningCase(DEFAULTS, "s.yaml", {label: "iter_41", seed: "17822653779393854319"}, "json");
    assert.deepEqual(generated.slice(4, 6), ["--case-seed", "17822653779393854319"]);
    const example = runningCase(DEFAULTS, "s.yaml", {label: "example_0", seed: "3"}, "json");
    assert.deepEqual(example.slice(4, 8), ["--cases", "0", "-k", "example_0"]);
  });

  test("the commands of the server name the op and the seed; without a seed, the failure seen last", () => {
    const given = {file: "/p/specs/a.yaml", op: "a", seed: "17822653779393854319"};
    assert.deepEqual(ofCommand(DEFAULTS, "minimize", given), ["minimize", "--op", "a", "17822653779393854319"]);
    assert.deepEqual(ofCommand(DEFAULTS, "reproduce", {file: "/p/a.yaml", op: "a"}), ["reproduce", "--op", "a", "last"]);
    assert.deepEqual(ofCommand(SETTINGS, "show", undefined), ["show", "last"]);
    assert.deepEqual(debugging(DEFAULTS, "a", "7"), ["reproduce", "--op", "a", "7", "--debug"]);
  });

  test("a declared spec is named by file and op", () => {
    assert.deepEqual(ofCommand(DEFAULTS, "run", {file: "/p/k.py", op: "scale"}).slice(0, 2), ["run", "/p/k.py::scale"]);
    assert.deepEqual(ofCommand(DEFAULTS, "run", {file: "/p/k.py"}).slice(0, 2), ["run", "/p/k.py"]);
  });
});

describe("settings", () => {
  test("kcheck is the one of the setting, of the project's environment, or of the PATH", () => {
    assert.equal(program({...DEFAULTS, path: "${workspaceFolder}/env/kcheck"}, "/p", nowhere), "/p/env/kcheck");
    assert.equal(program(DEFAULTS, "/p", (path) => path === "/p/venv/bin/kcheck"), "/p/venv/bin/kcheck");
    assert.equal(program(DEFAULTS, "/p", nowhere), "kcheck");
  });

  test("the server leaves the commands to the client", () => {
    assert.deepEqual(serverSettings(DEFAULTS), {runOnSave: true, profile: "quick", commands: "client"});
    assert.deepEqual(serverSettings(SETTINGS), {runOnSave: true, profile: "ci", cases: 5, device: "cpu", commands: "client"});
  });

  test("each setting in package.json is read, with the same default", () => {
    const {properties} = manifest().contributes["configuration"] as {properties: Record<string, {default: unknown}>};
    const listed = Object.entries(properties).map(([name, {default: value}]) => [name.replace("kcheck.", ""), value]);
    assert.deepEqual(Object.fromEntries(listed), DEFAULTS);
  });
});

describe("which files are specs", () => {
  test("a YAML file with the key kcheck is a spec", () => {
    assert.ok(isSpec("# a comment\nkcheck: 1\nop: softmax\n"));
    assert.ok(!isSpec("jobs:\n  kcheck: 1\n"));
  });

  test("declared ops have the name of the argument, or of the function", () => {
    const text = 'import kcheck\n\n@kcheck.op(\n    inputs={"x": ["N"]},\n)\n@cuda.jit\ndef scale(x): pass\n\n@kcheck.op("other", cases=3)\ndef f(x): pass\n';
    assert.deepEqual(declaredOps(text), [{op: "scale", line: 2}, {op: "other", line: 8}]);
    assert.deepEqual(declaredOps("@operator(1)\ndef f(): pass\n"), []);
  });

  test("the project is the nearest folder with a mark", () => {
    const marks = new Set(["/a/.git", "/a/b/pyproject.toml"]);
    const exists = (path: string): boolean => marks.has(path);
    assert.equal(projectRoot("/a/b/specs/s.yaml", exists, "/"), "/a/b");
    assert.equal(projectRoot("/a/c/s.yaml", exists, "/"), "/a");
    assert.equal(projectRoot("/x/s.yaml", exists, "/folder"), "/folder");
  });
});

describe("reports of kcheck", () => {
  test("a race is at the kernel's line, with the fix and the other line", () => {
    const spec = ranSpec("race.json");
    const failed = spec.cases.find((one) => one.status === "failed");
    assert.ok(failed);
    const race = messages(spec, failed)[0];
    assert.deepEqual(race?.place, {file: "kernels/buggy/matmul_missing_barrier.py", line: 28, column: 1});
    assert.match(race.text, /^racecheck: .*\nfix: .*cuda\.syncthreads.*\nThe other access: .*matmul_missing_barrier\.py:31$/);
  });

  test("wrong values are at the spec's line, with the expected and the actual value", () => {
    const spec = ranSpec("wrong_values.json");
    const failed = spec.cases[0];
    assert.ok(failed);
    const [message] = messages(spec, failed);
    assert.deepEqual(message, {
      text: "mismatch: updated[0]: 1 of 1 element beyond tolerance",
      place: {file: "specs/buggy/gemv_tail.yaml", line: 7, column: 1},
      expected: "updated[0] = 3632.754506169178",
      actual: "updated[0] = -0",
    });
  });

  test("a case that passed has no message", () => {
    const spec = ranSpec("passed.json");
    assert.deepEqual(spec.cases.flatMap((one) => messages(spec, one)), []);
  });

  test("a refused spec has its errors, each with place and fix", () => {
    const refused = parseReport(recorded("refused.json")).specs[0];
    assert.ok(refused);
    const unknown = specMessages(refused).find((message) => message.text.includes("kernal"));
    assert.deepEqual(unknown, {
      text: "unknown key 'kernal'\nfix: did you mean 'kernel'?",
      place: {file: "specs/broken.yaml", line: 3, column: 1},
    });
  });

  test("the result of a run is a few words", () => {
    assert.equal(summary(parseReport(recorded("wrong_values.json"))), "3 of 6 cases failed");
    assert.equal(summary(parseReport(recorded("passed.json"))), "3 cases passed");
    assert.equal(summary(parseReport(recorded("refused.json"))), "1 spec refused");
  });

  test("cases that are listed are those that run, with the same titles", () => {
    const listed = parseListing(recorded("cases.json")).cases;
    assert.deepEqual(listed.map(caseTitle), ranSpec("wrong_values.json").cases.map(caseTitle));
    assert.equal(caseTitle(listed[1] ?? assert.fail()), "example_1  M=5 N=33 T=float16");
  });

  test("what is no report, or one of another version, is an error that says so", () => {
    assert.throws(() => parseReport("Traceback"), /did not write JSON/);
    assert.throws(() => parseReport("[]"), /did not write a report/);
    assert.throws(() => parseReport('{"report": "kcheck", "version": 3, "specs": []}'), /version 3, but the extension reads 2/);
    assert.throws(() => parseListing(recorded("passed.json")), /did not write a list of cases/);
  });
});

describe("the problem matcher", () => {
  const [pattern] = manifest().contributes["problemPatterns"] as [Record<string, string | number>];
  const matched = (name: string): (string | undefined)[][] =>
    recorded(name).trim().split("\n").flatMap((line) => {
      const found = new RegExp(String(pattern["regexp"])).exec(line);
      return found === null ? [] : [["file", "line", "column", "severity", "message"].map((key) => found[Number(pattern[key])])];
    });

  test("takes each line of `run --format concise`", () => {
    const found = matched("race.txt");
    assert.equal(found.length, recorded("race.txt").trim().split("\n").length);
    assert.deepEqual(found[0]?.slice(0, 4), ["kernels/buggy/matmul_missing_barrier.py", "28", "1", undefined]);
    assert.match(found[0][4] ?? "", /^racecheck: /);
  });

  test("takes each error of `validate`, and not the line that counts them", () => {
    const found = matched("refused.txt");
    assert.equal(found.length, 5);
    assert.deepEqual(found[3], ["specs/broken.yaml", "3", "1", undefined, "unknown key 'kernal'; did you mean 'kernel'?"]);
  });

  test("knows a warning, with its rule", () => {
    const [race] = matched("warning.txt");
    assert.equal(race?.[3], "warning");
    assert.match(race[4] ?? "", /^writes a_tile/);
    assert.match(recorded("warning.txt"), /^\S+: racecheck: warning: writes a_tile/);
  });
});

describe("processes", () => {
  test("both streams and the exit code come back", async () => {
    const script = "process.stdout.write('out'); process.stderr.write('err'); process.exit(1)";
    assert.deepEqual(await start(process.execPath, ["-e", script], "."), {exit: 1, stdout: "out", stderr: "err"});
  });

  test("a program that is not there is an error that names the setting", async () => {
    await assert.rejects(start("no-such-kcheck", [], "."), /cannot start 'no-such-kcheck': there is no such program; set kcheck\.path/);
  });

  test("cancellation interrupts the program, and what it printed comes back", async () => {
    const script = "process.on('SIGINT', () => { process.stdout.write('partial'); process.exit(130); }); process.stderr.write('.'); setInterval(() => {}, 1000)";
    let cancel = (): void => assert.fail("nothing listens");
    const cancellation = {
      isCancellationRequested: false,
      onCancellationRequested: (listener: () => void) => {
        cancel = listener;
        return {dispose: () => undefined};
      },
    };
    const waiting = start(process.execPath, ["-e", script], ".", cancellation, () => { cancel(); });
    assert.deepEqual(await waiting, {exit: 130, stdout: "partial", stderr: "."});
  });
});
