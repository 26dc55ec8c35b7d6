"""The environment of a process under ``kcheck exec``."""

from __future__ import annotations

from kcheck.driver.session import environment


def test_large_tensors_of_pytorch_are_in_large_pages_unless_the_user_says_otherwise() -> None:
    """Kernels that write a new tensor spent more than a third of their time in page faults."""
    assert environment({}, "findings", None, None)["THP_MEM_ALLOC_ENABLE"] == "1"
    chosen = {"THP_MEM_ALLOC_ENABLE": "0"}
    assert environment(chosen, "findings", None, None)["THP_MEM_ALLOC_ENABLE"] == "0"
