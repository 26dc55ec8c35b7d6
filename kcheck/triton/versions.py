"""The versions of Triton whose internals this package knows."""

from __future__ import annotations

import re

from kcheck.errors import DeviceUnavailable

FIRST, BEYOND = (3, 6), (3, 9)


class UnsupportedTriton(DeviceUnavailable):
    """A version of Triton that kcheck does not know.

    Args:
        what: what is wrong, in one sentence.
        fix: the command that installs a supported version.
    """

    def __init__(self, what: str, fix: str) -> None:
        self.what, self.fix = what, fix
        super().__init__(f"{what}; {fix}")


def read_version(text: str) -> tuple[int, int]:
    """``3.8.0+git1234`` as (3, 8).

    Raises:
        UnsupportedTriton: the version is not supported.
    """
    found = re.match(r"(\d+)\.(\d+)", text)
    version = (int(found[1]), int(found[2])) if found else (0, 0)
    if not FIRST <= version < BEYOND:
        first, last = FIRST, (BEYOND[0], BEYOND[1] - 1)
        raise UnsupportedTriton(
            f"triton {text} is not supported: kcheck supports {_told(first)} to {_told(last)}",
            f'pip install "triton>={_told(FIRST)},<{_told(BEYOND)}"',
        )
    return version


def _told(version: tuple[int, int]) -> str:
    return f"{version[0]}.{version[1]}"
