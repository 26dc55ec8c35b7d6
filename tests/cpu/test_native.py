"""The native stack that kernels run on."""

from __future__ import annotations

import errno
import mmap

import pytest

from kcheck.cpu import native


def test_a_stack_without_its_guard_page_is_refused() -> None:
    """An address that is not that of a page cannot be protected: the error says so, and no stack is used."""
    with pytest.raises(OSError, match="mprotect") as caught:
        native._protect(1, mmap.PAGESIZE)
    assert caught.value.errno == errno.EINVAL
