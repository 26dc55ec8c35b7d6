"""The language server: answers an editor's requests with this package. Only this module imports pygls."""

from __future__ import annotations

import asyncio
import inspect
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from lsprotocol import types
from pygls import uris
from pygls.lsp.server import LanguageServer

from kcheck.errors import UserError
from kcheck.lsp import actions, child, completion, document, hover
from kcheck.lsp.document import Checked, MarkedRange
from kcheck.lsp.results import Mark
from kcheck.lsp.runs import Runs
from kcheck.model import Fault, OpSpec, Span
from kcheck.version import __version__

_SOURCE = "kcheck"
_KINDS = {"key": "Property", "value": "EnumMember", "name": "Variable", "file": "File", "function": "Function"}
_NOTHING = Checked((), ())


class EditorSession:
    """One editor: its open documents, their errors, and its runs."""

    def __init__(self) -> None:
        self.server = LanguageServer("kcheck", __version__)
        self._runs = Runs(self._marks_changed, self._status)
        self._checked: dict[str, Checked] = {}  # by URI of an open document
        self._good: dict[str, OpSpec] = {}  # the last version without errors
        self._newest: dict[str, int] = {}  # by URI, the number of the newest check of a document
        self._shown: dict[str, set[str]] = {}  # by URI of a document, the URIs that its errors are in
        # One thread: specs are checked outside the event loop, and in order.
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="check")
        for name, function in self._features().items():
            self.server.feature(name)(_function(function))
        code_actions = types.CodeActionOptions(code_action_kinds=[types.CodeActionKind.QuickFix])
        self.server.feature(types.TEXT_DOCUMENT_CODE_ACTION, code_actions)(_function(self.code_action))
        triggers = types.CompletionOptions(trigger_characters=[":", " ", "[", "{", ",", "/"])
        self.server.feature(types.TEXT_DOCUMENT_COMPLETION, triggers)(_function(self.completion))

    def _features(self) -> dict[str, Any]:
        return {
            types.INITIALIZE: self.initialize,
            types.SHUTDOWN: self.shutdown,
            types.WORKSPACE_DID_CHANGE_CONFIGURATION: self.configured,
            types.TEXT_DOCUMENT_DID_OPEN: self.opened,
            types.TEXT_DOCUMENT_DID_CHANGE: self.changed,
            types.TEXT_DOCUMENT_DID_SAVE: self.saved,
            types.TEXT_DOCUMENT_DID_CLOSE: self.closed,
            types.TEXT_DOCUMENT_HOVER: self.hover,
            types.TEXT_DOCUMENT_DEFINITION: self.definition,
            types.TEXT_DOCUMENT_CODE_LENS: self.code_lens,
        }

    # -- the session

    def initialize(self, params: Any) -> None:
        """Stores the settings; registers the commands unless the client runs them."""
        self._runs.settings = child.ServerSettings.of(params.initialization_options)
        if not self._runs.settings.client_runs_commands:
            for name in actions.COMMANDS:
                self.server.command(name)(self._command(name))

    def configured(self, params: Any) -> None:
        """Stores new settings for the next run."""
        if params.settings:
            self._runs.settings = child.ServerSettings.of(params.settings)

    async def shutdown(self, _: Any) -> None:
        """Ends all runs and checks."""
        await self._runs.close()
        self._thread.shutdown(wait=False, cancel_futures=True)

    # -- documents

    async def opened(self, params: Any) -> None:
        """Checks a document."""
        await self._check(params.text_document.uri)

    async def changed(self, params: Any) -> None:
        """Checks a document again; a Python file only after it is saved."""
        self._runs.edited(str(_path(params.text_document.uri)))
        if not params.text_document.uri.endswith(".py"):
            await self._check(params.text_document.uri)

    async def saved(self, params: Any) -> None:
        """Checks all open documents, and runs the specs that use the saved file."""
        uri = params.text_document.uri
        for other in sorted(self.server.workspace.text_documents):  # a spec may extend or name the saved file
            await self._check(other)
        if self._runs.settings.run_on_save:
            file = _path(uri)
            self._runs.start(str(file), ["--touched", os.path.relpath(file, document.root_of(file))])

    def closed(self, params: Any) -> None:
        """Forgets a document and its errors; failures of runs remain."""
        uri = params.text_document.uri
        for table in (self._checked, self._good, self._newest):
            table.pop(uri, None)
        for shown in {uri, *self._shown.pop(uri, ())}:
            self._publish(shown)

    async def _check(self, uri: str) -> None:
        newest = self._newest[uri] = self._newest.get(uri, 0) + 1
        path, text = _path(uri), self.server.workspace.get_text_document(uri).source
        checked = await asyncio.get_running_loop().run_in_executor(
            self._thread, self._judge, uri, newest, path, text
        )
        if checked is None or self._newest.get(uri) != newest:
            return  # there is a newer version, or the document was closed
        self._checked[uri] = checked
        if checked.specs:
            self._good[uri] = checked.specs[0]
        before = self._shown.get(uri, set())
        self._shown[uri] = {self._uri(fault.span.file) for fault in checked.faults}
        for shown in {uri} | before | self._shown[uri]:
            self._publish(shown)

    def _judge(self, uri: str, newest: int, path: Path, text: str) -> Checked | None:
        """The result of a check, in the thread; None if the document has changed since."""
        if self._newest.get(uri) != newest:
            return None
        try:
            return document.check(path, text)
        except UserError as error:  # the settings of the project are wrong
            return Checked((Fault(Span(str(path)), str(error)),), ())

    # -- diagnostics

    def _publish(self, uri: str) -> None:
        path = _path(uri)
        text = self.server.workspace.get_text_document(uri)
        try:
            lines = text.lines
        except OSError:  # deleted
            lines = []
        faults = dict.fromkeys(
            fault for checked in self._checked.values() for fault in document.spans_in(checked.faults, path)
        )
        found = [self._of_fault(fault, document.place(fault, lines), text) for fault in faults]
        for mark in self._runs.marks(str(path)):
            if mark.rule != "spec" or not faults:  # a run repeats the errors that the check of the text has found
                found.append(self._of_mark(mark, document.whole_line(mark.span, lines), text))
        self.server.text_document_publish_diagnostics(
            types.PublishDiagnosticsParams(uri, found, version=text.version if uri in self._newest else None)
        )

    def _of_fault(self, fault: Fault, place: MarkedRange, text: Any) -> Any:
        data = {"fix": fault.fix} | ({} if place.replace is None else {"replace": place.replace})
        return types.Diagnostic(
            range=_range(text, place),
            message=f"{fault.what}; {fault.fix}" if fault.fix else fault.what,
            severity=types.DiagnosticSeverity.Error,
            code="spec",
            source=_SOURCE,
            data=data,
        )

    def _of_mark(self, mark: Mark, place: MarkedRange, text: Any) -> Any:
        related = [
            types.DiagnosticRelatedInformation(types.Location(self._uri(span.file), _line(span.line - 1)), what)
            for span, what in mark.other
        ]
        severity = types.DiagnosticSeverity
        return types.Diagnostic(
            range=_range(text, place),
            message=mark.message,
            severity=severity.Error if mark.is_error else severity.Warning,
            code=mark.rule,
            source=_SOURCE,
            related_information=related or None,
            data={"fix": mark.fix, "file": mark.file, "op": mark.op, "seed": mark.seed},
        )

    def _marks_changed(self, files: set[str]) -> None:
        for file in sorted(files):
            self._publish(self._uri(file))

    def _uri(self, file: str) -> str:
        """The URI of a file: the editor's if the file is open."""
        real = os.path.realpath(file)
        for uri in self._newest:
            if os.path.realpath(_path(uri)) == real:
                return uri
        return str(uris.from_fs_path(os.path.abspath(file)))

    def _status(self, file: str, state: str, text: str) -> None:
        self.server.protocol.notify(
            "kcheck/status", {"file": file, "state": state, "text": text.rpartition("\n")[2]}
        )
        if state == "error":
            self._log(f"{file}: {text}", types.MessageType.Error)

    def _log(self, text: str, kind: Any) -> None:
        self.server.window_log_message(types.LogMessageParams(kind, text))

    # -- requests

    def completion(self, params: Any) -> list[Any]:
        """Keys, values, names and files."""
        uri = params.text_document.uri
        text, line, column = self._at(params)
        if not document.is_spec(_path(uri), text.source):
            return []
        root = document.root_of(_path(uri))
        found = []
        for number, offer in enumerate(completion.offers(text.lines, line, column, root)):
            edit = types.TextEdit(_range(text, MarkedRange(line, offer.start, column)), offer.text)
            found.append(
                types.CompletionItem(
                    label=offer.text.removesuffix(": "),
                    kind=getattr(types.CompletionItemKind, _KINDS[offer.kind]),
                    detail=offer.detail or None,
                    documentation=offer.about or None,
                    sort_text=f"{number:04}",
                    filter_text=offer.text,
                    text_edit=edit,
                )
            )
        return found

    def hover(self, params: Any) -> Any:
        """What a key or a name means."""
        uri = params.text_document.uri
        text, line, column = self._at(params)
        if line >= len(text.lines) or not document.is_spec(_path(uri), text.source):
            return None
        found = hover.hover(text.lines, line, column, self._good.get(uri))
        return types.Hover(types.MarkupContent(types.MarkupKind.Markdown, found)) if found else None

    def definition(self, params: Any) -> Any:
        """Where a kernel, a function, a spec or a name is defined."""
        path = _path(params.text_document.uri)
        text, line, column = self._at(params)
        if line >= len(text.lines) or not document.is_spec(path, text.source):
            return None
        target = hover.definition(path, text.lines, line, column, document.root_of(path))
        return types.Location(self._uri(str(target.file)), _line(target.line)) if target else None

    def code_lens(self, params: Any) -> list[Any]:
        """``run | minimize`` above each op."""
        path = _path(params.text_document.uri)
        text = self.server.workspace.get_text_document(params.text_document.uri)
        found = []
        for declared in document.declarations(path, text.source):
            given = {"file": str(path), "op": declared.op}
            for title, name in (("run", "kcheck.run"), ("minimize", "kcheck.minimize")):
                found.append(types.CodeLens(_line(declared.line), types.Command(title, name, arguments=[given])))
        return found

    def code_action(self, params: Any) -> list[Any]:
        """``Change to 'N'`` for a misspelled name; the commands for a failure."""
        found = []
        for diagnostic in params.context.diagnostics:
            data = _plain(diagnostic.data)
            if diagnostic.source != _SOURCE:
                continue
            if (right := data.get("replace")) is not None:
                edit = types.WorkspaceEdit({params.text_document.uri: [types.TextEdit(diagnostic.range, right)]})
                found.append(
                    types.CodeAction(
                        f"Change to '{right}'",
                        kind=types.CodeActionKind.QuickFix,
                        diagnostics=[diagnostic],
                        is_preferred=True,
                        edit=edit,
                    )
                )
            if data.get("seed"):
                given = {key: data[key] for key in ("file", "op", "seed")}
                for name, title in actions.TITLES.items():
                    command = types.Command(title, name, arguments=[given])
                    kind = types.CodeActionKind.QuickFix
                    found.append(types.CodeAction(title, kind=kind, diagnostics=[diagnostic], command=command))
        return found

    def _command(self, name: str) -> Any:
        async def execute(given: Any = None) -> Any:
            try:
                arguments, root = actions.arguments(name, _plain(given))
            except actions.BadArgument as error:
                self._message(str(error), types.MessageType.Error)
                return None
            if name == "kcheck.run":
                self._runs.start(str(_plain(given)["file"]), arguments)
                return None
            ended = await child.command(arguments, root)
            self._log(f"$ {ended.command}\n{ended.output}", types.MessageType.Info)
            self._message(
                f"{ended.command}: exit code {ended.exit}; the log has its output", types.MessageType.Info
            )
            return {"command": ended.command, "exit": ended.exit, "output": ended.output}

        return execute

    def _message(self, text: str, kind: Any) -> None:
        self.server.window_show_message(types.ShowMessageParams(kind, text))

    def _at(self, params: Any) -> tuple[Any, int, int]:
        """The document of a request, and its position from 0 in code points, at most at the end of its line.

        The line after the last line break, which ``lines`` does not have, is empty.
        """
        text = self.server.workspace.get_text_document(params.text_document.uri)
        lines = text.lines
        if params.position.line >= len(lines):
            return text, len(lines), 0
        place = text.position_codec.position_from_client_units(lines, params.position)
        return text, int(place.line), min(int(place.character), len(lines[place.line].rstrip("\r\n")))


def serve() -> None:
    """Serve one editor over stdin and stdout, until it sends ``exit`` or closes stdin.

    pygls gets copies of both, which it closes. Anything else that is printed goes to stderr, outside the protocol.
    """
    with os.fdopen(os.dup(0), "rb") as stdin, os.fdopen(os.dup(1), "wb") as stdout:
        os.dup2(2, 1)
        EditorSession().server.start_io(stdin, stdout)


def _function(method: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """A method as a function, because pygls sets attributes on the functions that it registers."""
    if inspect.iscoroutinefunction(method):

        async def later(params: Any) -> Any:
            return await method(params)

        return later
    return lambda params: method(params)


def _path(uri: str) -> Path:
    return Path(uris.to_fs_path(uri) or "")


def _plain(value: Any) -> dict[str, Any]:
    """An object from the client as a dict, however it was decoded."""
    if isinstance(value, dict):
        return value
    return dict(getattr(value, "_asdict", dict)()) if value is not None else {}


def _line(line: int) -> Any:
    return types.Range(types.Position(line, 0), types.Position(line, 0))


def _range(text: Any, place: MarkedRange) -> Any:
    """A range of a file in the units of the client."""
    both = types.Range(types.Position(place.line, place.start), types.Position(place.line, place.end))
    return text.position_codec.range_to_client_units(text.lines, both) if place.line < len(text.lines) else both
