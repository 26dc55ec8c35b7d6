"""Random launchers, proved and executed: what is proved holds for each size.

As a program: writes launchers to a folder, proves each, executes its code for every size, and prints one line of
JSON for each: what was proved, and whether a launch accesses more than there is.
"""

from __future__ import annotations

import json
import random
import sys
from pathlib import Path
from types import SimpleNamespace

from test_launchers import HEAD, KERNEL, SPEC

MOST_N, MOST_M = 40, 30
NAMES = ("N", "M", "N", "1", "2", "7", "x.shape[0]", "z.shape[0]", "y.size")
FORMS = (
    "({} + {})",
    "({} - {})",
    "({} * 2)",
    "({} // 3)",
    "({} % 8)",
    "({} // M)",
    "({} % M)",
    "min({}, {})",
    "max({}, {})",
    "({} if {} < {} else {})",
)
CHANGES = ("n - 1", "n + 1", "n // 2", "N", "max(n - M, 0)", "min(n, N)")


def number(stream: random.Random, depth: int = 0) -> str:
    """A random expression of sizes."""
    if depth > 2 or stream.random() < 0.3:
        return stream.choice(NAMES)
    form = stream.choice(FORMS)
    return form.format(*(number(stream, depth + 1) for _ in range(form.count("{}"))))


def body(stream: random.Random) -> list[str]:
    """The lines that compute ``n``, the number of elements that a kernel accesses. Many may be above ``N``."""
    lines = [f"n = {number(stream)}"]
    if stream.random() < 0.7:
        lines.append(f"n = max(0, min(n, {stream.choice(['N', 'N', 'N', 'N + 1', 'max(N, 1)'])}))")
    if stream.random() < 0.4:
        order = stream.choice(["<", ">=", "!="])
        lines += [f"if {number(stream)} {order} {number(stream)}:", f"    n = {stream.choice(CHANGES)}"]
    if stream.random() < 0.4:
        lines += ["for i in range(3):", f"    n = {stream.choice(['n + i', 'n // (i + 1)', 'max(n - i, 0)'])}"]
    return lines


def fails(lines: list[str]) -> bool:
    """Whether ``n`` is above ``N`` for some sizes."""
    code = compile("\n".join(lines), "launcher", "exec")
    for rows in range(1, MOST_M + 1):
        for size in range(MOST_N + 1):
            x = SimpleNamespace(shape=(size,), size=size)
            names = {"N": size, "M": rows, "x": x, "y": x, "z": SimpleNamespace(shape=(rows, size))}
            exec(code, names)
            if int(str(names["n"])) > size:
                return True
    return False


def main(folder: Path, first: int, count: int) -> None:
    """Prove and execute ``count`` launchers, from the seed ``first`` on."""
    from kcheck.device import choose_for
    from kcheck.prover.verdicts import decide, words
    from kcheck.specfile import load_spec

    (folder / "kcheck.yaml").write_text("")
    (folder / "fill.ptx").write_text(KERNEL)
    for seed in range(first, first + count):
        lines, op = body(random.Random(seed)), f"launcher_{seed}"
        text = "".join(f"    {line}\n" for line in (*lines, "fill[blocks(n, 1), BLOCK](x, y, n)"))
        (folder / f"{op}.py").write_text(HEAD + text)
        spec_text = SPEC.format(name=op).replace("N: 0..1000, M: 1..1000", f"N: 0..{MOST_N}, M: 1..{MOST_M}")
        (folder / f"{op}.yaml").write_text(spec_text)
        spec = load_spec(folder / f"{op}.yaml")
        verdicts = words(decide(spec, choose_for([spec], "cpu")).proofs)
        print(
            json.dumps({"op": op, "verdicts": verdicts, "found": ["memcheck"] if fails(lines) else []}), flush=True
        )


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
