"""The configurations of ``@triton.autotune`` that a file's text shows. Each row is a text and what it makes."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import Any

import pytest

from kcheck.specfile.kinds.tritonconfigs import read_values
from kcheck.specfile.literals import FileNames

KERNEL = """
@triton.autotune(configs=CONFIGS, key=["n"])
@triton.jit
def kernel(x, n, BLOCK: tl.constexpr, TILE: tl.constexpr = DEFAULT + 1):
    pass
"""


def shown(text: str, configs: str = "configs") -> Any:
    tree = ast.parse(f"import itertools\nimport triton\n{text}\n{KERNEL.replace('CONFIGS', configs)}")
    return read_values(tree, FileNames.of(tree).imported)["kernel"]


def blocks(text: str, configs: str = "configs") -> list[tuple[int, int, int]] | None:
    """(BLOCK, num_warps, num_stages) of each configuration."""
    found = shown(text, configs).configs
    return None if found is None else [(c["BLOCK"], c["num_warps"], c["num_stages"]) for c in found]


C = 'triton.Config({"BLOCK": b}, num_warps=w)'
SHOWN: Mapping[str, tuple[str, str, list[tuple[int, int, int]]]] = {
    "a list": (
        'configs = [triton.Config({"BLOCK": 16}), triton.Config(dict(BLOCK=32), 8, 2)]',
        "configs",
        [(16, 4, 3), (32, 8, 2)],
    ),
    "a comprehension": (
        "",
        f"[{C} for b in [32, 64] for w in (1, 2) if b * w > 32]",
        [(32, 2, 3), (64, 1, 3), (64, 2, 3)],
    ),
    "a loop at the top level": (
        f"configs = []\nfor b in (16, 32):\n    for w in [1]:\n        configs.append({C})",
        "configs",
        [(16, 1, 3), (32, 1, 3)],
    ),
    "a helper function": (
        "def make(sizes, w=2):\n    found = []\n    for b in sizes:\n        if b == 32:\n            continue\n"
        f"        found += [{C}]\n    return found",
        "make([16, 32, 64])",
        [(16, 2, 3), (64, 2, 3)],
    ),
    "a function for each kind of device, as in Triton's tutorial": (
        'def is_cuda():\n    return triton.runtime.driver.active.get_current_target().backend == "cuda"\n'
        f"def cuda():\n    b = w = 8\n    return [{C}]\ndef hip():\n    return [unknown()]\n"
        "def choose():\n    if is_cuda():\n        return cuda()\n    else:\n        return hip()",
        "choose()",
        [(8, 8, 3)],
    ),
    "a product, filtered": (
        f"def keep(config):\n    return config.kwargs['BLOCK'] // config.num_warps >= 16\n"
        f"every = [{C} for b, w in itertools.product([16, 32], [1, 2])]",
        "list(filter(keep, every))",
        [(16, 1, 3), (32, 1, 3), (32, 2, 3)],
    ),
    "powers of two": (
        f"w = 4\nconfigs = [{C} for b in [2**i for i in range(4, 6)]] + [{C} for b in [1 << 7]]",
        "configs",
        [(16, 4, 3), (32, 4, 3), (128, 4, 3)],
    ),
    "a hook": (
        'configs = [triton.Config({"BLOCK": 16}, num_warps=1, pre_hook=lambda given: given["x"].zero_())]',
        "configs",
        [(16, 1, 3)],
    ),
    "the list that the name has where the kernel is": (
        'configs = [triton.Config({"BLOCK": 16})]\nconfigs = [triton.Config({"BLOCK": 64})]',
        "configs",
        [(64, 4, 3)],
    ),
}


@pytest.mark.parametrize("what", SHOWN)
def test_configurations_are_read(what: str) -> None:
    text, configs, expected = SHOWN[what]
    assert blocks(text, configs) == expected


UNKNOWN = {
    "another module": "from elsewhere import configs",
    "the machine": 'import torch\nconfigs = [triton.Config({"BLOCK": 16 * torch.cuda.device_count()})]',
    "a list that an unknown value may change": 'configs = [triton.Config({"BLOCK": 16})]\nconfigs.append(other())',
    "a branch on an unknown value": (
        'configs = [triton.Config({"BLOCK": 16})]\nif other():\n    configs = [triton.Config({"BLOCK": 32})]'
    ),
    "an endless recursion": "def make():\n    return make()\nconfigs = make()",
    "a number of a million digits": (
        "n = 9\nfor i in range(40):\n    n = n * n\nconfigs = [triton.Config({'BLOCK': n})]"
    ),
    "a billion steps": (
        "configs = []\nfor i in range(9999):\n    for j in range(9999):\n        for k in range(9999): pass"
    ),
    "a list that doubles": "configs = [1]\nfor i in range(40):\n    configs = configs + configs",
    "a power": "configs = [triton.Config({'BLOCK': 2 ** 10000000})]",
    "too many": "configs = [triton.Config({'BLOCK': b}) for b in range(1000)]",
}


@pytest.mark.parametrize("what", UNKNOWN)
def test_what_the_text_does_not_show_is_unknown_and_evaluation_is_bounded(what: str) -> None:
    assert blocks(UNKNOWN[what]) is None


def test_a_kernel_without_autotuning_has_no_configurations() -> None:
    tree = ast.parse("import triton\n@triton.jit\ndef kernel(x): pass")
    assert read_values(tree, FileNames.of(tree).imported)["kernel"].configs == ()


def test_defaults_are_numbers_of_the_file() -> None:
    assert shown("DEFAULT = 15", "[]").defaults == {"TILE": 16}
    assert shown("DEFAULT = other()", "[]").defaults == {}
