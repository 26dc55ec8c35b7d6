"""Compilation without garbage collection."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kcheck.driver.link import PATCHES, patch_compilation
from kcheck.interpreter import no_collection

ROOT = Path(__file__).parents[2]


@no_collection()
def fails() -> None:
    """Raises, within two pauses, whether collection is on."""
    with no_collection():
        pass
    raise ValueError(f"collection: {gc.isenabled()}")


def test_collection_goes_on_after_an_error_and_only_if_it_was_on() -> None:
    """Whatever happens meanwhile, and when one pause is within another."""
    with pytest.raises(ValueError, match="collection: False"):
        fails()
    assert gc.isenabled()
    gc.disable()
    try:
        with no_collection():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()


FRAMES = """
import gc, threading, time
from kcheck.interpreter import frame_of

ended = False

def start():
    while not ended:
        thread = threading.Thread(target=int)
        thread.start()
        thread.join()

starter = threading.Thread(target=start, daemon=True)
starter.start()
gc.callbacks.append(lambda phase, info: time.sleep(0))
gc.set_threshold(1)
assert any(frame_of(starter.ident) is not None for _ in range(300))
gc.set_threshold(0)
ended = True
"""


def test_looking_at_the_frame_of_a_thread_does_not_stop_one_that_starts_others() -> None:
    """A collection meanwhile would: its callbacks let the other thread run into a lock of the interpreter."""
    subprocess.run(
        [sys.executable, "-c", FRAMES], check=True, timeout=60, env=os.environ | {"PYTHONPATH": str(ROOT)}
    )


def test_numba_compiles_without_it() -> None:
    """The patch of the dispatcher passes on what is compiled, and its errors."""

    class Dispatcher:
        def compile(self, signature: Any) -> tuple[Any, bool]:
            if signature is None:
                raise TypeError("no signature")
            return signature, gc.isenabled()

    patch_compilation(SimpleNamespace(CUDADispatcher=Dispatcher))
    assert Dispatcher().compile("void()") == ("void()", False)
    with pytest.raises(TypeError, match="no signature"):
        Dispatcher().compile(None)
    assert gc.isenabled()
    assert patch_compilation in PATCHES["numba.cuda.dispatcher"]
