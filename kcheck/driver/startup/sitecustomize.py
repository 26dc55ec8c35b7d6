"""Every Python process under ``kcheck exec`` runs this first, because this folder is first in PYTHONPATH. It
installs the cpu device when numba.cuda, NVIDIA's bindings, Triton or PyTorch is imported. Before that it loads
nothing, so that other programs start as fast as without it. The sitecustomize that this one hides runs after it.
"""

import importlib.abc
import importlib.machinery
import importlib.util
import os
import sys

_HERE = os.path.dirname(os.path.abspath(__file__))


_STARTS = {
    "kcheck.driver.session": ("numba.cuda", "cuda.bindings", "cuda.core"),
    "kcheck.triton.session": ("triton", "torch"),
    "kcheck.driver.cupy": ("cupy", "cupy_backends"),
}


class _Trigger(importlib.abc.MetaPathFinder):
    """Calls ``start`` of a module when something that would look for a driver is about to be imported."""

    def __init__(self, session, names):  # type: ignore[no-untyped-def]
        self._session = session
        self._names = names

    def find_spec(self, name, path, target=None):  # type: ignore[no-untyped-def]
        if name in self._names:
            sys.meta_path.remove(self)
            root = os.path.dirname(os.path.dirname(os.path.dirname(_HERE)))
            if importlib.util.find_spec("kcheck") is None:
                sys.path.append(root)  # kcheck is not installed for this Python
            try:
                importlib.import_module(self._session).start(os.environ)
            except ModuleNotFoundError as missing:
                if (missing.name or "kcheck").startswith("kcheck"):
                    raise
                print(_what_to_install(missing.name), file=sys.stderr)
                raise SystemExit(2) from None
            # start() has added finders at the front, which this import has already passed
            return importlib.util.find_spec(name) if "." not in name else None
        return None


class _LastResort(importlib.abc.MetaPathFinder):
    """Records what to install if no other finder finds Numba. The program continues: it may not need Numba."""

    def find_spec(self, name, path, target=None):  # type: ignore[no-untyped-def]
        if name in ("numba", "cuda"):
            with open(os.environ["KCHECK_EXEC"] + ".absent", "a", encoding="utf-8") as file:
                file.write(_what_to_install(name) + "\n")
        return None


def _what_to_install(missing: "str | None") -> str:
    """The message for a command whose Python lacks a module that kcheck needs."""
    import shlex  # lazy: it takes a millisecond, and few programs need it

    here, other = map(shlex.quote, (sys.executable, os.environ.get("KCHECK_PYTHON", "python")))
    return (
        f"kcheck: {sys.executable} has no {missing}, which kcheck needs; install kcheck there "
        f"({here} -m pip install kcheck), or use the Python that has kcheck: kcheck exec -- {other} ..."
    )


def _chain() -> None:
    """Run the sitecustomize that this one hides."""
    places = [path for path in sys.path if os.path.abspath(path or os.curdir) != _HERE]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", places)
    if spec is not None and spec.loader is not None:
        module = importlib.util.module_from_spec(spec)
        sys.modules["sitecustomize"] = module
        spec.loader.exec_module(module)


if os.environ.get("KCHECK_EXEC"):
    for session, names in _STARTS.items():
        sys.meta_path.insert(0, _Trigger(session, names))  # type: ignore[no-untyped-call]
    sys.meta_path.append(_LastResort())
_chain()
