"""calibration.yaml: written and read again, and refused with a place where it is damaged."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from kcheck.errors import SpecError
from kcheck.model import Calibration, Envelope, OpSpec
from kcheck.specfile import calibrated, load_spec
from kcheck.specfile.calibration import calibration_text, measurable, output_dtypes, read_calibrations

SPEC = """\
kcheck: 1
op: softmax
kernel: k.py:f
reference: r.py:f
dims: {N: 1..9}
dtypes: {T: [float32, float16], S: [bfloat16]}
inputs: {x: [N]}
outputs: {y: [N], z: {shape: [N], dtype: S}, i: {shape: [N], dtype: int32}}
launch: {args: [x, y, z, i], grid: [1], block: [8]}
tolerance: calibrated
"""
FOUND = Envelope(1.5e-7, 52, 1.25e-08, 1e-7, 3e-7)
VERSIONS = {"kcheck": "0.1.0", "numba-cuda": "0.30"}


def calibration(op: str = "softmax", *dtypes: str, device: str = "cpu") -> Calibration:
    return Calibration(op, 2**64 - 1, 100, device, VERSIONS, dict.fromkeys(dtypes or ("float32",), FOUND))


@pytest.fixture
def spec(tmp_path: Path) -> OpSpec:
    """A spec with `tolerance: calibrated`, in a project without a calibration file."""
    (tmp_path / "kcheck.yaml").write_text("")
    (tmp_path / "k.py").write_text("from numba import cuda\n\n@cuda.jit\ndef f(x, y, z, i):\n    pass\n")
    (tmp_path / "r.py").write_text("def f(x):\n    pass\n")
    (tmp_path / "a spec.yaml").write_text(SPEC)
    return load_spec(tmp_path / "a spec.yaml")


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    """Ops and dtypes are sorted, a device's name and a version keep their characters, seeds their 64 bits."""
    ops = [
        calibration("z_last", "float32", "bfloat16", device='gpu "odd: name" \\ #1'),
        replace(calibration("a_first"), versions={"kcheck": "1e5", "numba-cuda": "0.30"}),
    ]
    text = calibration_text({one.op: one for one in ops})
    assert re.findall(r"^  (\w+):", text, re.M) == ["a_first", "z_last"]
    assert text.index("bfloat16") < text.rindex("float32")
    (tmp_path / "calibration.yaml").write_text(text)
    assert read_calibrations(tmp_path) == {one.op: one for one in ops}
    assert max(map(len, text.splitlines())) <= 115


def test_an_envelope_of_each_output_dtype(spec: OpSpec, tmp_path: Path) -> None:
    """`calibrated` fills in what the outputs can be; a spec with another tolerance is left alone."""
    assert output_dtypes(spec) == ("bfloat16", "float16", "float32")
    one = calibration("softmax", "float16", "float32", "bfloat16", "float64")
    (tmp_path / "calibration.yaml").write_text(calibration_text({"softmax": one}))
    assert calibrated(spec).tolerance.envelopes == dict.fromkeys(("bfloat16", "float16", "float32"), 1.5e-7)
    other = measurable(spec)
    assert other.tolerance.kind == "conditioned"
    assert calibrated(other) is other


@pytest.mark.parametrize(
    ("ops", "said"),
    [
        (None, "calibration.yaml does not exist"),
        ([calibration("gelu")], "calibration.yaml has no op 'softmax'"),
        ([calibration("softmax", "float32")], "has no bfloat16 and no float16 of op 'softmax'"),
    ],
)
def test_what_is_not_calibrated_is_told_with_the_command(
    spec: OpSpec, tmp_path: Path, ops: list[Calibration] | None, said: str
) -> None:
    """No file, no op, no dtype: the place of `tolerance:`, what is missing, and what to run."""
    if ops is not None:
        (tmp_path / "calibration.yaml").write_text(calibration_text({one.op: one for one in ops}))
    with pytest.raises(SpecError) as caught:
        calibrated(spec)
    (fault,) = caught.value.faults
    assert re.match(r".*a spec\.yaml:10:12: `tolerance: calibrated`, but ", str(fault))
    assert said in str(fault)
    assert re.search(r"; run: kcheck calibrate '[^']*a spec\.yaml'$", str(fault))


GOOD = calibration_text({"softmax": calibration()})


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("calibration: 1", "calibration: 2", r":3:14: 'calibration' must be 1"),
        ("calibration: 1", "calibrations: 1", r":3:1: unknown key 'calibrations' in the file; did you mean"),
        ("seed: 18446744073709551615", "seed: soon", r":6:11: 'seed' must be a finite, non-negative whole number"),
        ("cases: 100", "cases: 1.5", r":7:12: 'cases' must be a finite, non-negative whole number"),
        ("device: cpu", "device: [cpu]", r":8:13: 'device' must be a string"),
        (
            "envelope: 1.500e-07",
            "envelope: -1",
            r":12:27: 'envelope' must be a finite, non-negative number",
        ),
        ("envelope: 1.500e-07", "envelope: .nan", r":12:27: 'envelope' must be a finite, non-negative number"),
        (
            "envelope: 1.500e-07",
            "envelop: 1.0",
            r":12:17: unknown key 'envelop' in 'float32'; did you mean 'envel",
        ),
        (", largest: 3.000e-07", "", r":12:16: missing key 'largest' in 'float32'"),
        ("float32: ", "float33: ", r":12:16: 'float33' is not a floating-point dtype; did you mean 'float32'"),
        ("float32: ", "int32: ", r":12:14: 'int32' is not a floating-point dtype"),
        ("ops:", "ops: [", r":4:6: this list is not closed; fix it, or delete the file"),
        (GOOD, "", r":1:1: the file is empty; fix it, or delete the file and run 'kcheck calibrate' again"),
        ("<<<<<<<", "<<<<<<<", ""),
    ],
)
def test_a_damaged_file_is_refused_with_a_place(tmp_path: Path, old: str, new: str, said: str) -> None:
    """Each fault is file:line:column: what; the fix. A merge left half done is one."""
    text = GOOD.replace(old, new) if said else GOOD.replace("    device", "<<<<<<< ours\n    device")
    assert text != GOOD
    (tmp_path / "calibration.yaml").write_text(text)
    with pytest.raises(SpecError) as caught:
        read_calibrations(tmp_path)
    lines = [str(fault) for fault in caught.value.faults]
    assert any(re.search(rf"calibration\.yaml{said}", line) for line in lines), lines
    assert all(re.search(r"calibration\.yaml:\d+:\d+: .+; .+", line) for line in lines), lines


def test_windows_line_ends_are_read(tmp_path: Path) -> None:
    """A checkout with CRLF is the same file."""
    (tmp_path / "calibration.yaml").write_bytes(GOOD.replace("\n", "\r\n").encode())
    assert read_calibrations(tmp_path)["softmax"] == calibration()
