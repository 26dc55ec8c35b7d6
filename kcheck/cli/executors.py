"""What runs the cases of a command: this process, worker processes, or a cluster."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from kcheck.cli.settings import given, on_command_line
from kcheck.device import choose_for, unused
from kcheck.errors import UserError
from kcheck.model import OpSpec
from kcheck.runner import Options
from kcheck.runner.work import CaseExecutor, InProcess

if TYPE_CHECKING:
    from kcheck.runner.cluster import Cluster


@contextmanager
def executor_for(
    specs: Sequence[OpSpec], options: Options, device: str, jobs: int | str, targets: Sequence[str] = ()
) -> Iterator[CaseExecutor]:
    """The executor that the options ``--jobs``, ``--executor`` and ``--scheduler`` of the current command select.
    Its workers end with the context.

    Args:
        specs: the specs that will run.
        device: a value of ``--device``.
        jobs: the number of worker processes, or ``auto``.
        targets: targets of the specs, as for :func:`kcheck.device.choose`.

    Raises:
        UserError: the options contradict each other, or Dask is missing.
        DeviceUnavailable: the device is not available. If there are workers, they report it when the run begins.
    """
    scheduler = _scheduler()
    count = 1 if scheduler else _count(jobs)
    if not specs:
        yield InProcess(options, unused(device))
    elif scheduler:
        from kcheck.runner.remote import Remote

        with _cluster()(options, scheduler, device, targets, _warn) as cluster:
            yield Remote(cluster, options.deadline)
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


def _scheduler() -> str:
    """The address of the Dask scheduler; empty for a run on this machine."""
    scheduler = str(given("scheduler", ""))
    if given("executor", "local") == "local":
        if on_command_line("scheduler"):
            raise click.UsageError("--scheduler needs --executor dask")
        return ""
    if on_command_line("jobs"):
        raise click.UsageError("--jobs and --executor dask cannot be combined: the cluster has its own workers")
    scheduler = scheduler or os.environ.get("DASK_SCHEDULER_ADDRESS", "")
    if not scheduler:
        raise click.UsageError(
            "--executor dask needs a scheduler: --scheduler tcp://HOST:8786; to use the cores of this machine: "
            "--jobs auto"
        )
    return scheduler


def _cluster() -> type[Cluster]:
    try:
        from kcheck.runner.cluster import Cluster
    except ModuleNotFoundError as error:
        if error.name not in ("dask", "distributed"):
            raise
        raise UserError("--executor dask: Dask is not installed; pip install 'kcheck[dask]'") from None
    return Cluster


def _warn(message: str) -> None:
    click.echo(f"kcheck: warning: {message}", err=True)


def _count(jobs: int | str) -> int:
    if isinstance(jobs, int):
        return jobs
    from kcheck.runner.processes import cores

    return cores()
