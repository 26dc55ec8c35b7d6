"""Which files of a chain of inlined calls are the user's: a finding is shown at the innermost of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from kcheck.span import is_users


def test_headers_of_a_toolkit_are_not_the_users_wherever_it_is_installed(tmp_path: Path) -> None:
    headers = tmp_path / "cuda-13.0" / "targets" / "x86_64-linux" / "include"
    headers.mkdir(parents=True)
    (headers / "cuda_runtime_api.h").touch()
    (tmp_path / "cuda-13.0" / "bin").mkdir()
    reached = tmp_path / "cuda-13.0" / "bin" / ".." / "targets" / "x86_64-linux" / "include"
    for name in ("cuda_bf16.hpp", "cccl/cub/block/block_scan.cuh"):
        assert not is_users(str(headers / name))
        assert not is_users(str(reached / name))


@pytest.mark.parametrize("name", ["include/softmax.cuh", "csrc/include/detail/softmax.cuh", "softmax.cu"])
def test_a_project_may_have_a_folder_include(tmp_path: Path, name: str) -> None:
    assert is_users(str(tmp_path / name))


@pytest.mark.parametrize(
    "file", ["", "<stdin>", "/usr/include/c++/12/bits/stl_algo.h", "__nv_nvrtc_builtin_header.h"]
)
def test_headers_of_the_system_and_of_compilers_are_not_the_users(file: str) -> None:
    assert not is_users(file)
