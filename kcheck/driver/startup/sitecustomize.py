"""Every Python process under ``kcheck exec`` runs this first: it installs the cpu device when numba.cuda is
imported. This folder is first in PYTHONPATH. Nothing is loaded until a program imports numba.cuda or NVIDIA's
bindings, so that other programs start as fast as before. The sitecustomize that this one hides runs after it.
"""

import importlib.abc
import importlib.machinery
import importlib.util
import os
import sys

_HERE = os.path.dirname(os.path.abspath(__file__))


class _Trigger(importlib.abc.MetaPathFinder):
    """Starts the device when something that would look for a driver is about to be imported."""

    def find_spec(self, name, path, target=None):  # type: ignore[no-untyped-def]
        if name in ("numba.cuda", "cuda.bindings", "cuda.core"):
            sys.meta_path.remove(self)
            root = os.path.dirname(os.path.dirname(os.path.dirname(_HERE)))
            if importlib.util.find_spec("kcheck") is None:
                sys.path.append(root)  # kcheck is not installed for this Python
            from kcheck.driver.session import start

            start(os.environ)
        return None


def _chain() -> None:
    """Run the sitecustomize that this one hides."""
    places = [path for path in sys.path if os.path.abspath(path or os.curdir) != _HERE]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", places)
    if spec is not None and spec.loader is not None:
        module = importlib.util.module_from_spec(spec)
        sys.modules["sitecustomize"] = module
        spec.loader.exec_module(module)


if os.environ.get("KCHECK_EXEC"):
    sys.meta_path.insert(0, _Trigger())
_chain()
