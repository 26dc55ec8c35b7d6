"""The options of a run."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import field
from typing import Protocol

from kcheck.dataclass import dataclass
from kcheck.device import Device
from kcheck.model import Case, Level, OpSpec, Snapshot
from kcheck.model.levels import level_words
from kcheck.model.limits import TIMEOUT
from kcheck.model.shard import Part, Shard
from kcheck.runner.deadline import Deadline
from kcheck.span import as_typed

STORED = "stored_"
"""The label prefix of cases that run because they failed before, not because they were planned."""

REACH = "reach_"
"""The label prefix of cases whose sizes were chosen because of what the kernel does at these sizes."""


@dataclass(frozen=True, eq=False, slots=True)
class Recalled:
    """A case that failed in an earlier run and is not known to be fixed; its spec still allows it.

    Attributes:
        snapshot: its exact inputs, if they were kept.
    """

    case: Case
    snapshot: Snapshot | None


class MoreCases(Protocol):
    """Makes cases in addition to the planned ones."""

    @property
    def option(self) -> str:
        """The option that makes the same cases again; empty: no option does."""
        ...

    def __call__(
        self, spec: OpSpec, planned: Sequence[Case], master: int, device: Device
    ) -> tuple[Sequence[Case], str]:
        """The cases in addition to the planned ones of a master seed, and a note about them, or none."""
        ...


@dataclass(frozen=True, slots=True)
class Options:
    """The options of a run.

    Attributes:
        command: the command line as typed, shell-quoted, for reports.
        count, seed: the number and the master seed of the generated cases; None for the spec's.
        case_seed: run only the case of this seed, for every spec.
        keyword: ``-k``; empty selects everything.
        max_failures: stop after this many cases that failed or could not be checked; None for no limit.
            ``--fail-fast`` is 1.
        timeout: seconds for the launch of one case; None for no limit.
        strict: warnings about a spec as a whole (``vacuous``) are errors.
        sanitize: ``--sanitize``: levels that replace those of every spec. Sanitizers named here check every case.
        capture: yield the arrays and results of failing cases, so that they can be stored.
        recalled: for each spec (root, path), the cases to run before its other cases.
        only_failed: ``--lf``: run the recalled cases and no others.
        lint: if all cases of a spec ran, note the linter's advice on its PTX.
        skip_unsupported: count cases that the device does not support as skipped, not as errors.
        device: ``--device`` if given, for the replay line; otherwise empty.
        profile: ``--profile``, for the replay line.
        group: run only the planned cases for which this is true, as a part of a run that others complete.
        cases_first: for ``--watch``: compile one specialization for each choice of dtypes, for arrays of any
            stride, and those of ``artifact:`` after the cases, if all of them passed.
        coverage: count what every case reaches of the kernel, even cases that no sanitizer instruments.
        debug_code: run code that is compiled without optimizations, in every spec.
        shard: the part of a run that this run is; None if it is a whole run.
        parts: for each spec (root, path, op) that is split between shards, the cases of this shard.
        deadline: the end of the time budget; None for no limit.
        huge: add the huge cases of each spec that allows them.
        more: makes cases that run after the planned ones; None: there are none.
        proved: returns the sanitizers of which no case that a spec allows has a finding, as far as that is known.
        replay_by: the command at the start of the replay line; empty for ``kcheck run``.
    """

    command: str = "kcheck run"
    count: int | None = None
    seed: int | None = None
    case_seed: int | None = None
    keyword: str = ""
    max_failures: int | None = None
    timeout: float | None = TIMEOUT
    capture: bool = False
    recalled: Mapping[tuple[str, str], Sequence[Recalled]] = field(default_factory=dict)
    device: str = ""
    strict: bool = False
    sanitize: Mapping[str, Level] = field(default_factory=dict)
    profile: str = ""
    replay_by: tuple[str, ...] = ()
    skip_unsupported: bool = False
    only_failed: bool = False
    lint: bool = True
    group: Callable[[Case], bool] | None = None
    coverage: bool = False
    debug_code: bool = False
    cases_first: bool = False
    shard: Shard | None = None
    parts: Mapping[tuple[str, str, str], Part] = field(default_factory=dict)
    deadline: Deadline | None = None
    huge: bool = True
    more: MoreCases | None = None
    proved: Callable[[OpSpec], Collection[str]] | None = None

    @property
    def late(self) -> bool:
        """Whether the time budget is used up."""
        return self.deadline is not None and self.deadline.passed

    @property
    def is_replay(self) -> bool:
        """Whether the user selected the cases: then every sanitizer checks each of them."""
        return self.case_seed is not None or bool(self.keyword) or self.only_failed

    @property
    def is_whole(self) -> bool:
        """Whether all cases of a spec were requested."""
        return not self.is_replay and self.group is None


def replay(spec: OpSpec, case: Case, options: Options) -> str:
    """The command line that runs one case alone, from the folder in which this run was started.

    A generated case depends only on its seed; an example on its label and on the master seed, which draws what
    the example leaves open. The sizes of a case that reaches something depend on the kernel and the planned cases.
    """
    if options.replay_by:
        return shlex.join([*options.replay_by, "--case-seed", str(case.seed)])
    words = ["kcheck", "run", _as_typed(spec)]
    if case.label.startswith(STORED):
        words = ["kcheck", "reproduce", str(case.seed), "--op", spec.op]
    elif case.label.startswith("example_"):
        words += ["--cases", "0", "-k", case.label]
        if options.seed is not None:
            words += ["--seed", str(options.seed)]
    elif case.label.startswith(REACH):
        words += ["-k", case.label]
        if options.more is not None and options.more.option:
            words.append(options.more.option)
        if options.count is not None:
            words += ["--cases", str(options.count)]
        if options.seed is not None:
            words += ["--seed", str(options.seed)]
    else:
        words += ["--case-seed", str(case.seed)]
    if options.device:
        words += ["--device", options.device]
    if options.profile and words[1] == "run":
        words += ["--profile", options.profile]
    if options.debug_code and words[1] == "run":
        words.append("--debug-code")
    for word in level_words(options.sanitize) if words[1] == "run" else ():
        words += ["--sanitize", word]
    return shlex.join(words)


def _as_typed(spec: OpSpec) -> str:
    return as_typed(os.path.join(spec.root, spec.path))
