"""A start costs the same, however much the cache holds."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from small_project import Kcheck

PROBE = """\
import json, os, sys
cache, calls = os.environ["KCHECK_CACHE_DIR"], []

def counted(plain):
    def call(path=".", *arguments, **options):
        if isinstance(path, (str, os.PathLike)) and os.fspath(path).startswith(cache):
            calls.append(os.fspath(path))
        return plain(path, *arguments, **options)
    return call

for name in ("stat", "lstat", "scandir", "listdir", "access", "utime"):
    setattr(os, name, counted(getattr(os, name)))
from kcheck.__main__ import main
code = main(sys.argv[1:])
print(json.dumps([int(code), calls]), file=sys.stderr)
"""


def _calls(kcheck: Kcheck, cache: Path) -> list[str]:
    """The paths in the cache for which a run asks the system."""
    done = subprocess.run(
        [sys.executable, "-c", PROBE, "run", "specs/good.yaml"],
        cwd=kcheck.folder,
        env={**kcheck.environment, "KCHECK_CACHE_DIR": str(cache)},
        capture_output=True,
        text=True,
    )
    code, calls = json.loads(done.stderr.splitlines()[-1])
    assert code == 0, done.stderr
    return list(calls)


def test_a_start_with_a_cache_of_20_000_files_makes_few_calls(kcheck: Kcheck, tmp_path: Path) -> None:
    """As many as with the few files that the first run stored: it visits neither the code nor Triton's folders."""
    cache = tmp_path / "cache"
    _calls(kcheck, cache)
    few = _calls(kcheck, cache)
    (cache / "triton").mkdir(exist_ok=True)
    for n in range(1_000):
        kernel = cache / "triton" / f"K{n}"
        kernel.mkdir()
        for part in range(10):
            (kernel / f"{part}.ptx").touch()
        for part in range(10):
            os.link(kernel / "0.ptx", cache / "code" / f"{n}-{part}.kobj")
    many = _calls(kcheck, cache)
    assert len(many) <= len(few) + 3, many[:30]
    assert len(many) < 50
