"""What Triton's own tests expect beyond its wheel and PyTorch, and a record of the outcome of each test."""

from __future__ import annotations

from pathlib import Path

from numba_cuda_plugin import Recorder, names_in


def pytest_addoption(parser):
    """What :func:`conformance.triton_chunks.run_chunk` asks for."""
    parser.addoption("--record", help="file for the outcome of each test")
    parser.addoption("--only", help="file with the names of the tests to run, one on a line")
    parser.addoption("--names", help="file for the names of the tests, which are not run")


def pytest_configure(config):
    """Record, and answer what the wheel of Triton does not know."""
    import triton._internal_testing as asked

    if not hasattr(asked, "is_cpu"):  # the tests come from a fork that has a backend of this name
        asked.is_cpu = lambda: False
    if config.getoption("--record"):
        config.pluginmanager.register(Recorder(config.getoption("--record")))


def pytest_collection_modifyitems(config, items):
    """Keep what ``--only`` names."""
    only, names = config.getoption("--only"), config.getoption("--names")
    if only:
        named = names_in(Path(only))
        items[:] = [item for item in items if item.nodeid in named]
    if names:
        Path(names).write_text("".join(f"{item.nodeid}\n" for item in items))
        items.clear()
