"""The language server, as an editor sees it: a real client of a real process, over stdin and stdout."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from forked_python import run_module

pytest_lsp = pytest.importorskip("pytest_lsp")  # of the extra dev

from lsprotocol import types  # noqa: E402
from pytest_lsp import ClientServerConfig, LanguageClient  # noqa: E402

SPEC = """\
kcheck: 1
op: double
dims:
  N: {range: 1..1000, tile: 64}
inputs:
  x: [N]
outputs:
  y: [N]
kernel: kernels/double.py:double
launch:
  args: [x, y]
  grid: ["ceildiv(N, 64)"]
  block: [64]
reference: kernels/double.py:reference
cases: {count: 3}
"""
KERNEL = """\
from numba import cuda


@cuda.jit
def double(x, y):
    i = cuda.grid(1)
    y[i] = x[i] + x[i]


def reference(x):
    return x + x
"""
DECLARED = """\
import kcheck
from numba import cuda


@kcheck.op(dims={"N": "1..8"}, inputs={"x": ["N"]}, outputs={"y": ["n"]}, reference="kernels/double.py:reference")
def twice(x):
    return x + x
"""
TIMEOUT = 60

pytestmark = pytest.mark.asyncio(loop_scope="module")


class Editor:
    """A client, and the project that it has open."""

    def __init__(self, client: LanguageClient, root: Path) -> None:
        self.client = client
        self.root = root
        self.states: list[str] = []
        client.feature("kcheck/status")(lambda status: self.states.append(status.state))
        self._versions: dict[str, int] = {}

    async def reach(self, state: str) -> None:
        """Wait until the server has told a state; it tells the one at the end of a run after the diagnostics."""
        while state not in self.states:
            await asyncio.wait_for(self.client.wait_for_notification("kcheck/status"), TIMEOUT)

    def uri(self, path: str) -> str:
        return (self.root / path).as_uri()

    async def type_into(self, path: str, text: str) -> list[types.Diagnostic]:
        """Open a document, or replace its text; what is wrong with it."""
        uri = self.uri(path)
        version = self._versions[path] = self._versions.get(path, -1) + 1
        self.client.diagnostics.pop(uri, None)
        if version == 0:
            item = types.TextDocumentItem(uri, "yaml", version, text)
            self.client.text_document_did_open(types.DidOpenTextDocumentParams(item))
        else:
            document = types.VersionedTextDocumentIdentifier(version, uri)
            change = types.TextDocumentContentChangeWholeDocument(text)
            self.client.text_document_did_change(types.DidChangeTextDocumentParams(document, [change]))
        return await self.published(path)

    async def save(self, path: str, text: str) -> None:
        (self.root / path).write_text(text)
        document = types.TextDocumentIdentifier(self.uri(path))
        self.client.text_document_did_save(types.DidSaveTextDocumentParams(document))

    async def published(self, path: str, rule: str = "") -> list[types.Diagnostic]:
        """The diagnostics of a document when they have come, with one of a rule among them."""
        uri = self.uri(path)

        async def wait() -> list[types.Diagnostic]:
            while True:
                found = list(self.client.diagnostics.get(uri, ()))
                if uri in self.client.diagnostics and (not rule or rule in {one.code for one in found}):
                    return found
                await self.client.wait_for_notification(types.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS)

        return await asyncio.wait_for(wait(), TIMEOUT)

    def at(self, path: str, text: str, wanted: str, after: int = 0) -> dict[str, object]:
        """The parameters of a request about a place: so many characters after the start of a piece of text."""
        offset = text.index(wanted) + after
        line = text.count("\n", 0, offset)
        place = types.Position(line, offset - (text.rfind("\n", 0, offset) + 1))
        return {"text_document": types.TextDocumentIdentifier(self.uri(path)), "position": place}

    async def actions(self, path: str, diagnostic: types.Diagnostic) -> list[types.CodeAction]:
        document, context = types.TextDocumentIdentifier(self.uri(path)), types.CodeActionContext([diagnostic])
        params = types.CodeActionParams(document, diagnostic.range, context)
        return list(await self.client.text_document_code_action_async(params) or ())


_environment = {name: value for name, value in os.environ.items() if name != "NUMBA_ENABLE_CUDASIM"}
_server = [sys.executable, "-m", "kcheck", "lsp"]
_config = ClientServerConfig(_server, server_env={**_environment, "KCHECK_DEVICE": "cpu"})


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project with one kernel, which lacks the guard of its tail."""
    root = tmp_path_factory.mktemp("project")
    files = {"kcheck.yaml": "", "kernels/double.py": KERNEL, "specs/double.yaml": SPEC, "twice.py": DECLARED}
    for name, text in files.items():
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).write_text(text)
    return root


@pytest_lsp.fixture(config=_config, scope="module")
async def client(lsp_client: LanguageClient, root: Path) -> AsyncIterator[None]:
    folder = types.WorkspaceFolder(root.as_uri(), "project")
    params = types.InitializeParams(types.ClientCapabilities(), workspace_folders=[folder], process_id=os.getpid())
    await lsp_client.initialize_session(params)
    yield
    await lsp_client.shutdown_session()


@pytest.fixture(scope="module")
def editor(client: LanguageClient, root: Path) -> Editor:
    return Editor(client, root)


async def test_a_misspelled_name_is_marked_while_typing_and_one_action_corrects_it(editor: Editor) -> None:
    wrong = SPEC.replace("  y: [N]", "  y: [n]  # \N{MATHEMATICAL BOLD SMALL X}")
    assert await editor.type_into("specs/double.yaml", SPEC) == []
    (error,) = await editor.type_into("specs/double.yaml", wrong)
    assert (error.code, error.source) == ("spec", "kcheck")
    assert error.message == "unknown dim or param 'n' in shape [n]; did you mean 'N'?"
    assert error.range == types.Range(types.Position(7, 6), types.Position(7, 7))
    (action,) = await editor.actions("specs/double.yaml", error)
    assert action.title == "Change to 'N'"
    ((edit,),) = (action.edit.changes or {}).values() if action.edit else ()
    assert (edit.range, edit.new_text) == (error.range, "N")
    assert await editor.type_into("specs/double.yaml", SPEC) == []


async def test_columns_are_in_the_units_of_the_client(editor: Editor) -> None:
    wrong = SPEC.replace("  x: [N]", "  x: {values: [zeros, \N{MATHEMATICAL BOLD SMALL X}x], shape: [n]}")
    errors = await editor.type_into("specs/double.yaml", wrong)
    places = {error.message.partition(";")[0]: error.range.start for error in errors}
    line = wrong.splitlines()[5]
    column = len(line[: line.index("n]")].encode("utf-16-le")) // 2
    assert types.Position(5, column) in places.values()
    await editor.type_into("specs/double.yaml", SPEC)


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("tol", {"tolerance", "compare"}),
        ("cases: {count: 3}\n", {"tolerance", "compare"}),
        ("cases: {count: 3}\r\n", {"tolerance", "compare"}),
        ("sanitize:\r\n  ", {"racecheck", "overflow"}),
        ("tolerance: ", {"conditioned", "calibrated"}),
        ("examples:\n  - dims: {", {"N"}),
        ("mutates: [", {"x"}),
        ("variables: {table: ", {"x", "y", "N"}),
        ("launch:\n  args: [{accessor: ", {"x", "y"}),
        ("launch:\n  args: [{struct: {a: ", {"x", "y", "N"}),
        ("launch:\n  args: [{struct: {a: [x, ", {"x", "y", "N"}),
        ("launch:\n  args: [{struct: {a: x, b: {struct: {n: ", {"x", "y", "N"}),
        ("sanitize:\n  ", {"racecheck", "overflow"}),
        ("kernel: kernels/", {"kernels/double.py:"}),
        ("kernel: kernels/double.py:", {"kernels/double.py:double"}),
        ("extends: ", {"specs/double.yaml"}),
    ],
)
async def test_completion_offers_what_fits_at_the_cursor(editor: Editor, typed: str, offered: set[str]) -> None:
    text = SPEC.replace("cases: {count: 3}\n", typed)
    await editor.type_into("specs/double.yaml", text)
    params = types.CompletionParams(**editor.at("specs/double.yaml", text, typed, len(typed)))
    found = await editor.client.text_document_completion_async(params)
    labels = {item.label for item in found or ()}
    assert offered <= labels
    assert "kcheck" not in labels  # it is there already, or does not belong there
    edits = [item.text_edit for item in found or ()]
    assert all(isinstance(edit, types.TextEdit) and edit.range.end == params.position for edit in edits)


@pytest.mark.parametrize("text", ["", "kcheck: 1", "kcheck: 1\n", "kcheck: 1\r\n", "kcheck: 1\nop: a\r"])
async def test_a_place_past_the_end_of_a_line_is_its_end(editor: Editor, text: str) -> None:
    """An editor may ask before the server has the newest text."""
    await editor.type_into("specs/double.yaml", text)
    document = types.TextDocumentIdentifier(editor.uri("specs/double.yaml"))
    for line in (0, 1, 2, 9):
        for column in (0, 5, 9, 10, 99):
            place = types.Position(line, column)
            await editor.client.text_document_completion_async(types.CompletionParams(document, place))
            await editor.client.text_document_hover_async(types.HoverParams(document, place))
            await editor.client.text_document_definition_async(types.DefinitionParams(document, place))


async def test_hover_on_a_dim_lists_its_boundary_sizes(editor: Editor) -> None:
    await editor.type_into("specs/double.yaml", SPEC)
    for wanted in ("N: {", "N, 64)"):
        params = types.HoverParams(**editor.at("specs/double.yaml", SPEC, wanted))
        found = await editor.client.text_document_hover_async(params)
        assert found is not None
        assert "Boundary sizes: 1, 2, 31, 32, 33, 63, 64, 65, 127, 128, 129, 1000" in str(found.contents)


async def test_hover_on_a_key_says_what_the_schema_says(editor: Editor) -> None:
    params = types.HoverParams(**editor.at("specs/double.yaml", SPEC, "grid"))
    found = await editor.client.text_document_hover_async(params)
    assert found is not None
    assert "Number of blocks: 1 to 3 expressions." in str(found.contents)


async def test_hover_on_the_kernel_has_the_verdicts_of_kcheck_prove(editor: Editor) -> None:
    """Of the spec and the kernel as they are."""
    (editor.root / "specs/double.yaml").write_text(SPEC)
    (editor.root / "kernels/double.py").write_text(KERNEL)
    run_module(["kcheck", "prove", "specs/double.yaml"], editor.root, os.environ, 300)
    for text, is_same in ((SPEC, True), (SPEC.replace("1..1000", "1..999"), False), (SPEC, True)):
        await editor.type_into("specs/double.yaml", text)
        params = types.HoverParams(**editor.at("specs/double.yaml", text, "kernel:"))
        found = await editor.client.text_document_hover_async(params)
        assert found is not None
        assert ("- memcheck: refuted (" in str(found.contents)) == is_same
        assert ("- racecheck: " in str(found.contents)) == is_same


@pytest.mark.parametrize(
    ("wanted", "file", "line"),
    [("kernels/double.py:double", "kernels/double.py", 4), ("reference:", "kernels/double.py", 9),
     ("y]\n  grid", "specs/double.yaml", 7)],
)  # fmt: skip
async def test_definition_leads_to_functions_and_names(editor: Editor, wanted: str, file: str, line: int) -> None:
    params = types.DefinitionParams(**editor.at("specs/double.yaml", SPEC, wanted))
    found = await editor.client.text_document_definition_async(params)
    assert isinstance(found, types.Location)
    assert (found.uri, found.range.start.line) == (editor.uri(file), line)


async def test_an_op_that_a_python_file_declares_has_errors_and_lenses(editor: Editor) -> None:
    errors = await editor.type_into("twice.py", DECLARED)
    assert [(error.message.partition(";")[0], error.range.start.line) for error in errors] == [
        ("unknown dim or param 'n' in shape [n]", 4)
    ]
    params = types.CodeLensParams(types.TextDocumentIdentifier(editor.uri("twice.py")))
    lenses = await editor.client.text_document_code_lens_async(params) or ()
    assert [(lens.range.start.line, lens.command.title) for lens in lenses if lens.command] == [
        (4, "run"),
        (4, "minimize"),
    ]


async def test_a_failure_is_marked_in_the_kernel_on_save_and_gone_when_it_is_fixed(editor: Editor) -> None:
    await editor.save("specs/double.yaml", SPEC)
    found = await editor.published("kernels/double.py", "memcheck")
    failure = next(one for one in found if one.code == "memcheck")
    assert failure.range.start == types.Position(6, 4)
    actions = await editor.actions("kernels/double.py", failure)
    assert [action.title for action in actions] == ["Reproduce", "Minimize", "Show inputs"]
    assert failure.data["seed"] in str(actions[0].command)  # lsprotocol reads such an action as a Command
    given = {name: failure.data[name] for name in ("file", "op", "seed")}
    params = types.ExecuteCommandParams("kcheck.reproduce", [given])
    result = await asyncio.wait_for(editor.client.workspace_execute_command_async(params), TIMEOUT)
    assert result["exit"] == 1
    assert "FAILS" in result["output"]

    editor.client.diagnostics.pop(editor.uri("kernels/double.py"))
    fixed = KERNEL.replace("    y[i] =", "    if i < y.size:\n        y[i] =")
    await editor.save("kernels/double.py", fixed)
    await editor.save("kernels/double.py", fixed)  # cancels the run that has begun, and runs again
    await editor.reach("passed")
    assert await editor.published("kernels/double.py") == []
    assert editor.states.index("running") < editor.states.index("failed") < editor.states.index("passed")


async def test_a_kernel_that_does_not_import_is_marked_at_its_line_on_save(editor: Editor) -> None:
    (editor.root / "specs/broken.yaml").write_text(SPEC.replace("double", "broken"))
    await editor.save("kernels/broken.py", KERNEL.replace("double", "broken") + "\n\nbroken.missing\n")
    (error,) = await editor.published("kernels/broken.py", "spec")
    assert error.range.start.line == 13
    assert "importing this file raised AttributeError" in error.message
    await editor.reach("refused")


async def test_a_command_with_a_wrong_argument_says_what_is_wrong(editor: Editor) -> None:
    params = types.ExecuteCommandParams("kcheck.reproduce", [{"file": "double.yaml", "seed": "--help"}])
    assert await editor.client.workspace_execute_command_async(params) is None
    assert editor.client.messages[-1].message == "kcheck.reproduce needs file, an absolute path"
