"""Build an op spec from its file, or report all of its faults at once.

::

    bytes -> YAML tree -> joined with the spec it extends -> JSON Schema -> names -> declarations
    -> kernel, launch, reference -> tolerance, invariants, sanitizers, artifact -> OpSpec

Each step examines the parts that earlier steps found valid, and skips the others without a message.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from kcheck.dataclass import dataclass
from kcheck.errors import InternalError, SpecError
from kcheck.model import (
    Compare,
    Fault,
    FunctionRef,
    Invariant,
    KernelRef,
    Level,
    OpSpec,
    Param,
    Span,
    Tolerance,
    TritonOptions,
)
from kcheck.model.paths import source_file
from kcheck.specfile.arguments import read_variables_of_module
from kcheck.specfile.arrays import (
    declare_names,
    read_dims,
    read_inputs,
    read_outputs,
    read_params,
    read_variables,
    used_variables,
)
from kcheck.specfile.calls import (
    NO_REFERENCE,
    read_compile,
    read_framework,
    read_function,
    read_kernel,
    read_launch,
    read_launcher,
    read_reference,
)
from kcheck.specfile.constexprs import declare_quietly, read_constexprs
from kcheck.specfile.declared import read_spec
from kcheck.specfile.examples import read_examples
from kcheck.specfile.extends import extended, joined
from kcheck.specfile.given import as_tree
from kcheck.specfile.kinds import Parameters
from kcheck.specfile.layouts import check_far
from kcheck.specfile.memory import read_memory
from kcheck.specfile.paths import find_root, shown
from kcheck.specfile.project import PROFILE_SOURCE, Settings, read_project
from kcheck.specfile.reader import Reader
from kcheck.specfile.regression import read_regression
from kcheck.specfile.rules import (
    condition_list,
    read_artifact,
    read_compare,
    read_invariants,
    read_names,
    read_sanitize,
    read_tolerance,
)
from kcheck.specfile.schema import schema_faults
from kcheck.specfile.solving import solver_of
from kcheck.specfile.yamltree import YamlEntry, YamlMap, parse_unsaved
from kcheck.specfile.yamltree import parse as parse_yaml


def load_spec(path: Path, profile: str = "", *, text: str | None = None) -> OpSpec:
    """Read and check an op spec. User code is not imported: the Python files are only parsed.

    Keys that the spec omits come from the project's settings.

    Args:
        path: the spec, absolute or from the current folder: a YAML file, or ``file.py::op`` for one that
            ``@kcheck.op`` declares.
        profile: name of a profile of the project; empty: no profile.
        text: the unsaved text of a YAML file that is open in an editor; None: the text of the file.

    Raises:
        SpecError: with every :class:`~kcheck.model.Fault` found, in the order of the files.
        UserError: the project has no such profile.
    """
    own, faults = read_spec(path) if text is None else parse_unsaved(text, shown(path))
    return _built(path, find_root(path), profile, own, faults)


def given_spec(
    path: Path, root: Path, keys: Mapping[str, Any], line: int, *, places: Mapping[str, Span] | None = None
) -> OpSpec:
    """A spec from Python values in the structure of a YAML file. Functions may be given as objects.

    Args:
        path: the file of the caller, which is the spec's path in reports.
        root: the project root, absolute.
        line: the line of the call in that file, where faults are reported.
        places: more exact places of top-level keys, if they are known.

    Raises:
        SpecError: with every fault.
    """
    tree, given = as_tree({"kcheck": 1, **keys}, Span(shown(path), line), places)
    return _built(path, root, "", tree, [], given=given)


def changed_spec(
    path: Path, profile: str, keys: Mapping[str, Any], place: Span, outside: Sequence[Path] = ()
) -> OpSpec:
    """A spec file with some of its top-level keys replaced by Python values, as ``extends`` replaces keys.

    Args:
        place: where faults in the new values are reported.
        outside: absolute paths of files that the new values may name although they are not in the project.

    Raises:
        SpecError, UserError: as :func:`load_spec`.
    """
    own, faults = read_spec(path)
    tree, functions = as_tree(keys, place)
    given: dict[str, Callable[..., Any] | Path] = {**functions, **{file.as_posix(): file for file in outside}}
    kept = {key: entry for key, entry in own.entries.items() if key == "op"} | dict(tree.entries)
    return _built(path, find_root(path), profile, joined(YamlMap(own.span, kept), own), faults, given=given)


def spec_without_reference(text: str, path: Path, root: Path) -> OpSpec:
    """A spec from a text, for ``kcheck try``: its outputs are not compared with anything.

    Args:
        text: YAML, as in a spec file; its ``reference`` is ignored.
        path: the path of the spec in reports, which is the kernel's file.
        root: the project root, absolute.

    Raises:
        SpecError: with every fault; the places are those of the text.
    """
    own, faults = parse_yaml(text, shown(path))
    return _built(path, root, "", own, faults, judged=False)


def _built(
    path: Path,
    root: Path,
    profile: str,
    own: YamlMap,
    faults: list[Fault],
    *,
    judged: bool = True,
    given: Mapping[str, Callable[..., Any] | Path] | None = None,
) -> OpSpec:
    file = shown(source_file(path)[0])
    settings = read_project(root).settings(profile)
    top, others = extended(path, own, root)
    refused, respelled = schema_faults(top)
    reader = Reader(root, file, respelled, given)
    reader.faults.extend((*faults, *others, *refused))
    spec = _Build(reader, path, settings, judged).spec()
    if reader.faults:
        raise SpecError(_presentable(reader.faults))
    if spec is None:
        raise InternalError(f"{file} was refused without an error")
    return spec


_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029]+")


def _presentable(faults: list[Fault]) -> list[Fault]:
    """Each fault once, in the order of the files, with spaces instead of control characters: a message may quote a
    newline that an escape in the YAML text produced."""
    return sorted({Fault(fault.span, _printable(fault.what), _printable(fault.fix)) for fault in faults})


def _printable(text: str) -> str:
    return _CONTROL.sub(" ", text) if _CONTROL.search(text) else text


def duplicate_ops(specs: Sequence[OpSpec]) -> tuple[Fault, ...]:
    """A fault for each spec with the same ``op`` as an earlier spec of the same project."""
    first: dict[tuple[str, str], OpSpec] = {}
    faults: list[Fault] = []
    for spec in specs:
        earlier = first.setdefault((spec.root, spec.op), spec)
        if earlier is not spec and earlier.path != spec.path:
            what = f"the op {spec.op!r} is already defined in {earlier.span.file}:{earlier.span.line}"
            faults.append(Fault(spec.span, what, "op names must be unique in a project; rename one of them"))
    return tuple(faults)


@dataclass(frozen=True, slots=True)
class _Rules:
    """The fields of an OpSpec that define how outputs and launches are judged."""

    reference: FunctionRef
    tolerance: Tolerance
    compare: Compare
    sanitize: Mapping[str, Level]
    invariants: tuple[Invariant, ...]
    allow_races: tuple[str, ...]


class _Build:
    def __init__(self, reader: Reader, path: Path, settings: Settings, judged: bool) -> None:
        self.reader = reader
        self.path = path
        self.settings = settings
        self.judged = judged and reader.text(reader.get(reader.top, "reference")) != NO_REFERENCE

    def spec(self) -> OpSpec | None:
        """The spec; None if there are faults."""
        made = self._declared()
        memory, huge = read_memory(self.reader)
        if made is None:
            return None
        check_far(self.reader, made)
        return replace(made, memory=memory, huge=huge)

    def _declared(self) -> OpSpec | None:
        reader, get, top = self.reader, self.reader.get, self.reader.top
        read_variables(reader)
        sections = declare_names(reader)
        arrays = {entry.key: entry for entry in (*sections["inputs"], *sections["outputs"])}
        aliases = self._aliases(sections["outputs"])
        dims = read_dims(reader, sections["dims"])
        kernel = read_kernel(reader)
        constants, constexprs = self._constexprs(kernel)
        params = read_params(reader, sections["params"], constants)
        mutates = read_names(reader, "mutates", ("input",), "input")
        written = dict.fromkeys(mutates or (), "the kernel may write to it")
        written |= {name: f"{output!r} is computed in place in it" for output, name in aliases.items()}
        inputs = read_inputs(reader, sections["inputs"], written)
        outputs = read_outputs(reader, sections["outputs"], inputs)
        constraints = condition_list(reader)
        shapes = [given.shape for given in inputs.values()] + [made.shape for made in outputs.values()]
        solver = solver_of(reader, dims, constraints, shapes)
        compiling = constexprs or read_compile(reader, kernel)
        launch = read_launch(reader, arrays, aliases, kernel)
        variables = read_variables_of_module(reader, arrays, kernel)
        launcher, function = read_launcher(reader), read_function(reader, aliases)
        framework, gradients = read_framework(reader, inputs)
        rules = self._rules(arrays, kernel)
        artifact = read_artifact(reader, self.settings.targets)
        examples = read_examples(reader, dims, solver, sections, inputs, written)
        count, seed = (reader.integer(get(get(top, "cases"), key)) for key in ("count", "seed"))
        op = reader.text(get(top, "op"))
        if (
            reader.faults
            or op is None
            or rules is None
            or mutates is None
            or examples is None
            or constraints is None
            or sum(way is not None for way in (launch, launcher, function)) != 1
            or not self._has_all(sections, {"dims": len(dims), "params": len(params) - len(constants)})
            or not self._has_all(sections, {"inputs": len(inputs), "outputs": len(outputs)})
        ):
            return None
        return OpSpec(
            path=Path(os.path.relpath(os.path.abspath(self.path), reader.root)).as_posix(),
            root=str(reader.root),
            op=op,
            span=top.entries["op"].value.span,
            description=reader.text(get(top, "description")) or "",
            tags=self._texts("tags"),
            dims=dims,
            constraints=tuple(constraints),
            dtypes=used_variables(reader, kernel, launch, (inputs, params, outputs), examples),
            compute=reader.text(get(top, "compute")),
            inputs=inputs,
            params=params,
            outputs=outputs,
            kernel=kernel[0] if kernel else None,
            launch=launch,
            launcher=launcher,
            reference=rules.reference,
            tolerance=rules.tolerance,
            compare=rules.compare,
            invariants=rules.invariants,
            sanitize=rules.sanitize,
            allow_races=rules.allow_races,
            mutates=mutates,
            deterministic=reader.flag(get(top, "deterministic")),
            artifact=artifact,
            count=self.settings.cases if count is None else count,
            seed=0 if seed is None else seed,
            examples=examples,
            regression=read_regression(reader, get(top, "regression")),
            targets=self.settings.targets if artifact is None else artifact.targets,
            judged=self.judged,
            compile=compiling,
            debug_code=reader.flag(get(get(top, "compile"), "debug")) or False,
            profile_count=self._profile_count(count),
            function=function,
            framework=framework,
            gradients=gradients,
            variables=variables,
        )

    def _has_all(self, sections: Mapping[str, Sequence[object]], counts: Mapping[str, int]) -> bool:
        """Whether all entries of these sections, and all type variables, are valid."""
        is_whole = all(len(sections[name]) == count for name, count in counts.items())
        return is_whole and None not in self.reader.variables.values()

    def _profile_count(self, own: int | None) -> int | None:
        """The number of cases in the profile, if the spec overrides it with a different one; otherwise None."""
        is_of_profile = self.settings.source_of("cases").startswith(PROFILE_SOURCE)
        return self.settings.cases if is_of_profile and own not in (None, self.settings.cases) else None

    def _constexprs(
        self, kernel: tuple[KernelRef, Parameters | None] | None
    ) -> tuple[dict[str, Param], TritonOptions | None]:
        """The constants of a Triton kernel as params, and the options with which it is compiled."""
        if kernel is None or kernel[0].kind != "triton" or self.reader.get(self.reader.top, "launch") is None:
            return {}, None
        if read_compile(self.reader, kernel) is None and self.reader.get(self.reader.top, "compile") is not None:
            declare_quietly(self.reader, kernel[0])
            return {}, None
        return read_constexprs(self.reader, kernel[0])

    def _texts(self, section: str) -> tuple[str, ...]:
        items = self.reader.items(self.reader.get(self.reader.top, section))
        return tuple(text for item in items if (text := self.reader.text(item)) is not None)

    def _aliases(self, outputs: Sequence[object]) -> dict[str, str]:
        """The input that each aliased output overwrites."""
        aliases: dict[str, str] = {}
        for entry in self.reader.entries(self.reader.get(self.reader.top, "outputs")):
            alias = self.reader.text(self.reader.get(entry.value, "alias"))
            if entry in outputs and alias is not None:
                aliases[entry.key] = alias
        return aliases

    def _rules(
        self, arrays: dict[str, YamlEntry], kernel: tuple[KernelRef, Parameters | None] | None
    ) -> _Rules | None:
        """How outputs and launches are judged; None if a part of it could not be read."""
        reader = self.reader
        reference = read_reference(reader) if self.judged else self._runs(kernel)
        tolerance = read_tolerance(reader)
        compare = read_compare(reader)
        sanitize = read_sanitize(reader, self.settings.sanitize)
        invariants = read_invariants(reader, arrays)
        allow_races = read_names(reader, "allow_races", ("input", "output"), "array", also="shared")
        if reference is None or tolerance is None or compare is None:
            return None
        if sanitize is None or invariants is None or allow_races is None:
            return None
        return _Rules(reference, tolerance, compare, sanitize, invariants, allow_races)

    def _runs(self, kernel: tuple[KernelRef, Parameters | None] | None) -> FunctionRef | None:
        """What runs the op: it stands for the reference that the spec does not have."""
        node = self.reader.get(self.reader.top, "gradients")
        if node is not None:
            self.reader.fault(node.span, "'gradients' needs a reference to differentiate", "remove it")
        if kernel is not None:
            return kernel[0]
        for key in ("launcher", "function"):
            found = self.reader.function(self.reader.get(self.reader.top, key), key)
            if found is not None:
                return found[0]
        return None
