"""The constants that a Triton kernel is compiled with, as params of a spec: ``compile:``, and the configurations
of ``@triton.autotune``. Constants with several values are drawn for each case, as params are.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from kcheck.model import Expression, KernelRef, Param, Scalar, Span, TritonOptions
from kcheck.nearest import did_you_mean
from kcheck.specfile.kinds.tritonconfigs import Config
from kcheck.specfile.kinds.tritonfile import TritonKernel, read_triton
from kcheck.specfile.reader import Reader
from kcheck.specfile.yamltree import YamlEntry, YamlList, YamlMap, YamlNode, YamlScalar
from kcheck.symbolic import ExpressionError, evaluate, names, parse

CONFIG = "config"
"""The param that is the number of the drawn configuration."""
_OPTIONS = ("num_warps", "num_stages")


def declare_quietly(reader: Reader, kernel: KernelRef) -> None:
    """After a fault, enter every constant of the kernel into the namespace,
    so that its uses are not reported too."""
    shown = read_triton(Path(reader.root) / kernel.path).get(kernel.name)
    for name in (*(shown.constexprs if shown is not None else ()), *_OPTIONS):
        reader.kinds.setdefault(name, "constant")


def read_constexprs(reader: Reader, kernel: KernelRef) -> tuple[dict[str, Param], TritonOptions]:
    """The constants of a kernel that has a ``launch:``, as params, and the options with which it is compiled.
    Enters the constants into the namespace."""
    return _Constants(reader, kernel).read()


class _Constants:
    def __init__(self, reader: Reader, kernel: KernelRef) -> None:
        self.reader = reader
        self.kernel = kernel
        self.shown = read_triton(Path(reader.root) / kernel.path).get(kernel.name)
        self.params: dict[str, Param] = {}
        self.constants: list[str] = []
        self.texts: dict[str, tuple[str, ...]] = {}
        self.faults = len(reader.faults)
        node = reader.get(reader.top, "compile")
        self.node: YamlMap | None = node if isinstance(node, YamlMap) else None

    def read(self) -> tuple[dict[str, Param], TritonOptions]:
        shown, reader = self.shown, self.reader
        if shown is None:  # the spec is built in Python, and parsing the file does not find the kernel
            shown = TritonKernel(1, (), frozenset(), (), frozenset(), frozenset(), ())
        why = "@triton.heuristics computes it from the arguments of a launch"
        reader.withheld.update(dict.fromkeys(shown.heuristics, why))
        config, keys = self._configs(shown)
        self._options(shown)
        entries = list(reader.entries(reader.get(self.node, "constexprs")))
        good = [entry for entry in entries if self._is_constant(shown, entry, keys)]
        new = [entry for entry in good if not self._is_known(entry) and reader.declare(entry, "constant")]
        self.constants += [entry.key for entry in good]
        for entry in new:
            self._constant(entry)
        self._missing(shown, entries, keys)
        self._defaults(shown, {entry.key for entry in entries} | set(keys))
        if len(reader.faults) > self.faults:
            declare_quietly(reader, self.kernel)
        options = tuple(name for name in _OPTIONS if name in self.params)
        texts = tuple(self.texts.items())
        return self.params, TritonOptions(tuple(self.constants), options, config, tuple(keys), texts)

    # --- configurations

    def _configs(self, shown: TritonKernel) -> tuple[str, list[str]]:
        """The value of ``config`` (``best``, or empty if kcheck draws one),
        and the constants that configurations set."""
        node = self.reader.get(self.node, "config") if self.node is not None else None
        span = self.kernel.span if node is None else node.span
        if shown.configs == ():
            if node is not None:
                self.reader.fault(span, f"kernel {self.kernel.name!r} is not autotuned", "remove `config`")
            return "", []
        if shown.configs is None:
            what = f"the configurations of {self.kernel.name!r} cannot be read without running its file"
            self.reader.fault(
                span, what, "make them from numbers of this file, in lists, loops or functions of it"
            )
            return "", []
        word = self.reader.text(node) if isinstance(node, YamlScalar) else None
        chosen: Sequence[Config] = shown.configs
        if isinstance(node, YamlMap):
            chosen = self._matching(node, shown.configs)
        elif word not in (None, "each", "best"):
            self.reader.fault(span, f"config is {word!r}", "write each, best, or a mapping of its arguments")
        keys = [key for key in shown.configs[0] if key not in _OPTIONS]
        if not chosen or any(set(other) != set(shown.configs[0]) for other in shown.configs):
            if chosen:
                what = f"the configurations of {self.kernel.name!r} set different arguments"
                self.reader.fault(span, what, "make all of them set the same ones")
            return "", keys
        if word == "best":
            chosen = chosen[:1]
        if len(chosen) > 1 and self._declare(CONFIG, span):
            self._put(CONFIG, tuple(range(len(chosen))), span)
        for name in chosen[0]:
            if self._declare(name, span):
                values = tuple(config[name] for config in chosen)
                if len(set(values)) == 1:
                    self._put(name, values[:1], span)
                else:
                    self.params[name] = Param(name, _dtype(values), _chosen(values, span), (), span)
        return word if word == "best" else "", keys

    def _matching(self, node: YamlMap, configs: Sequence[Config]) -> list[Config]:
        wanted = {e.key: e.value.value for e in node.entries.values() if isinstance(e.value, YamlScalar)}
        for entry in node.entries.values():
            if entry.key not in configs[0]:
                fix = did_you_mean(entry.key, configs[0]) or f"they set {', '.join(configs[0])}"
                self.reader.fault(entry.span, f"no configuration sets {entry.key!r}", fix)
                return []
        found = [c for c in configs if all(c.get(name) == value for name, value in wanted.items())]
        if len(found) != 1:
            count = "no configuration fits" if not found else f"{len(found)} configurations fit"
            what = f"{count} {', '.join(f'{name}: {value}' for name, value in wanted.items())}"
            self.reader.fault(node.span, what, "name arguments that only one configuration has")
            return []
        return found

    def _declare(self, name: str, span: Span) -> bool:
        return self.reader.declare(YamlEntry(name, span, YamlScalar(span, name, name, None)), "constant")

    def _put(self, name: str, values: tuple[Scalar, ...], span: Span) -> None:
        self.params[name] = Param(name, _dtype(values), None, values, span, in_order=True)

    # --- options and constants

    def _options(self, shown: TritonKernel) -> None:
        for name in _OPTIONS:
            entry = self.node.entries.get(name) if self.node is not None else None
            if entry is None:
                continue
            if name in self.params:
                self.reader.fault(
                    entry.span, f"the configurations set {name}", f"remove it, or write config: {{{name}: ...}}"
                )
            elif self.reader.declare(entry, "constant"):
                self._values(name, entry.value)

    def _is_constant(self, shown: TritonKernel, entry: YamlEntry, keys: Sequence[str]) -> bool:
        """Whether an entry of ``constexprs`` is a constant that the spec may set; a fault otherwise."""
        name, kernel = entry.key, self.kernel.name
        if self.shown is None:
            return True
        if name in keys:
            self.reader.fault(entry.span, f"the configurations of {kernel!r} set {name!r}", "remove it")
        elif name in shown.heuristics:
            self.reader.fault(entry.span, f"@triton.heuristics computes {name!r} of {kernel!r}", "remove it")
        elif name not in shown.constexprs:
            known = ", ".join(shown.constexprs) or "it has none"
            fix = did_you_mean(name, shown.constexprs) or f"its constants: {known}"
            self.reader.fault(entry.span, f"kernel {kernel!r} has no tl.constexpr parameter {name!r}", fix)
        else:
            return True
        return False

    def _is_known(self, entry: YamlEntry) -> bool:
        """Whether the constant is a dim or a param of the same name."""
        value = entry.value
        return (
            isinstance(value, YamlScalar)
            and value.value == entry.key
            and self.reader.kinds.get(entry.key) in ("dim", "param")
        )

    def _constant(self, entry: YamlEntry) -> None:
        value = entry.value
        if isinstance(value, YamlScalar) and isinstance(value.value, str):
            expression = self.reader.expression(
                value, ("dim", "param", "constant"), f"constexpr {entry.key!r}", "number"
            )
            if expression is not None:
                dtype = _dtype([_sample(expression)])
                self.params[entry.key] = Param(entry.key, dtype, expression, (), entry.span)
        elif (texts := self._texts(value)) is not None:
            self.texts[entry.key] = texts
            self._put(entry.key, tuple(range(len(texts))), value.span)
        else:
            self._values(entry.key, value)

    def _texts(self, node: YamlNode) -> tuple[str, ...] | None:
        """A list of strings, unless one is an expression of known names."""
        items = node.items if isinstance(node, YamlList) else ()
        texts = [item.value for item in items if isinstance(item, YamlScalar) and isinstance(item.value, str)]
        if not items or len(texts) < len(items) or any(map(self._is_expression, texts)):
            return None
        return tuple(texts)

    def _is_expression(self, text: str) -> bool:
        try:
            used = names(parse(text))
        except ExpressionError:
            return False
        return not used or any(name in self.reader.kinds for name in used)

    def _values(self, name: str, node: YamlNode) -> None:
        """Declare a constant with one value, or with a list of values from which each case draws one."""
        items = node.items if isinstance(node, YamlList) else (node,)
        values: list[Scalar] = []
        for item in items:
            if not isinstance(item, YamlScalar) or not isinstance(item.value, (bool, int, float)):
                self.reader.fault(
                    item.span,
                    f"{name} must be a number, true or false, or a list of strings",
                    "an expression cannot be in a list",
                )
                return
            values.append(item.value)
        if values:
            self._put(name, tuple(values), node.span)

    def _missing(self, shown: TritonKernel, entries: Sequence[YamlEntry], keys: Sequence[str]) -> None:
        given = {entry.key for entry in entries} | set(keys) | shown.heuristics | shown.given
        missing = [name for name in shown.constexprs if name not in given]
        if missing and shown.configs is not None:
            noun, verb = ("parameters", "have") if len(missing) > 1 else ("parameter", "has")
            who = f"{', '.join(missing)} of kernel {self.kernel.name!r}"
            what = f"the tl.constexpr {noun} {who} {verb} no value"
            example = ", ".join(f"{name}: ..." for name in missing)
            span = self.node.span if self.node is not None else self.kernel.span
            self.reader.fault(span, what, f"add compile: {{constexprs: {{{example}}}}}")

    def _defaults(self, shown: TritonKernel, given: Collection[str]) -> None:
        """Declare constants that have a default,
        so that expressions can use them, unless the spec has the name."""
        for name, value in shown.defaults.items():
            is_set = name in given or name in shown.heuristics or name in self.reader.kinds
            if not is_set and self._declare(name, self.kernel.span):
                self._put(name, (value,), self.kernel.span)
                self.constants.append(name)


def _dtype(values: Sequence[Scalar]) -> str:
    if any(isinstance(value, float) for value in values):
        return "float64"
    return "bool" if all(isinstance(value, bool) for value in values) else "int64"


def _sample(expression: Expression) -> Scalar:
    """A value of the type of an expression, computed with 64 for each name."""
    tree = parse(expression.text)
    given: Mapping[str, Any] = dict.fromkeys(names(tree), 64)
    try:
        return evaluate(tree, given)
    except ExpressionError:
        return 0


def _chosen(values: Sequence[Scalar], span: Span) -> Expression:
    """An expression that selects one of several values by the number of the configuration."""
    terms = [f"({CONFIG} == {n}) * {value!r}" for n, value in enumerate(map(_number, values)) if value]
    return Expression(" + ".join(terms) or "0", span)


def _number(value: Scalar) -> int | float:
    return int(value) if isinstance(value, bool) else value
