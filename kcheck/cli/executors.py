"""What runs the cases of a command: this process, worker processes, or a cluster."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from kcheck.device import choose_for, unused
from kcheck.model import OpSpec
from kcheck.runner import Options
from kcheck.runner.work import CaseExecutor, InProcess


@contextmanager
def executor_for(
    specs: Sequence[OpSpec], options: Options, device: str, jobs: int | str, targets: Sequence[str] = ()
) -> Iterator[CaseExecutor]:
    """The executor of a run; its workers are gone at the end of the context.

    Args:
        specs: those that will run.
        device: its name, as of ``--device``.
        jobs: worker processes, or ``auto``.
        targets: of the specs, as of :func:`kcheck.device.choose`.

    Raises:
        DeviceUnavailable: the device does not answer. With workers, they say so when the run begins.
    """
    count = _count(jobs)
    if not specs:
        yield InProcess(options, unused(device))
    elif count == 1:
        yield InProcess(options, choose_for(specs, device, targets, any_stride=options.cases_first))
    else:
        from kcheck.device.choose import warm
        from kcheck.runner.processes import Processes
        from kcheck.runner.remote import Remote

        def prepare() -> None:
            if any(spec.function is None for spec in specs):
                warm(device, targets, compiles=False)

        with Processes(options, lambda: choose_for(specs, device, targets), count, prepare) as workers:
            yield Remote(workers, options.deadline)


def _count(jobs: int | str) -> int:
    if isinstance(jobs, int):
        return jobs
    from kcheck.runner.processes import cores

    return cores()
