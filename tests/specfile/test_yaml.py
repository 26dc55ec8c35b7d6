"""YAML as a spec reads it: version 1.2's scalars, places for everything, and bounds on what a file may do."""

# ruff: noqa: E501 -- a message is one line
from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from kcheck.errors import SpecError
from kcheck.specfile.yamltree import MAX_BYTES, YamlScalar, plain, read


def _read(tmp_path: Path, text: str | bytes) -> object:
    path = tmp_path / "spec.yaml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return plain(read(path, "spec.yaml")[0])


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1e-5", 1e-5),
        ("1.0e-6", 1e-6),
        ("-.5", -0.5),
        ("12", 12),
        ("012", 12),
        ("0x1F", 31),
        ("0o17", 15),
        ("1_000", "1_000"),
        ("0b1", "0b1"),
        ("1:30", "1:30"),
        ("2001-01-01", "2001-01-01"),
        ("1..64", "1..64"),
        ("on", "on"),
        ("off", "off"),
        ("yes", "yes"),
        ("no", "no"),
        ("y", "y"),
        ("True", "True"),
        ("true", True),
        ("false", False),
        ("null", None),
        ("~", None),
        ("", None),
        (".inf", float("inf")),
        ("-.inf", float("-inf")),
        ("'12'", "12"),
        ('"true"', "true"),
        ("N", "N"),
    ],
)
def test_scalars_are_those_of_yaml_1_2(text: str, value: object, tmp_path: Path) -> None:
    """1e-5 is a number, on and yes are text, and only true and false are bools."""
    result = _read(tmp_path, f"a: {text}\n")
    assert result == {"a": value}
    assert type(result["a"]) is type(value)  # type: ignore[index]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"", "1:1: the file is empty; start with 'kcheck: 1'"),
        (b"# nothing\n", "1:1: the file is empty; start with 'kcheck: 1'"),
        (b"- a\n", "1:1: a spec is a mapping of keys to values; start with 'kcheck: 1'"),
        (b"a: 1\nb: \xff\n", "2:4: byte 0xff is not UTF-8; save the file as UTF-8 text"),
        (b"\x89PNG\r\n\x1a\n\x00", "1:1: byte 0x89 is not UTF-8; save the file as UTF-8 text"),
        (b"a: 1\r\nb: x\x00\r\n", "2:5: character U+0000 is not allowed; a spec must be UTF-8 text"),
        ("a: 1\n".encode("utf-16"), "1:1: byte 0xff is not UTF-8; save the file as UTF-8 text"),
        (b"a: [1, 2\nb: 3\n", "1:4: this list is not closed; add ',' between items, and ']' at the end"),
        (b"a: [b] c # d\n", "1:8: unexpected 'c' after the list; remove it, or put it inside the brackets"),
        (b"a: {b: 1} c\n", "1:11: unexpected 'c' after the mapping; remove it, or put it inside the braces"),
        (b"a: 'b' c\n", "1:8: unexpected 'c' after the quoted text; remove it, or put it inside the quotes"),
        (b"a: {b: [c] d, e: 1}\n", "1:12: unexpected 'd' after the list; add ',' before it, or remove it"),
        (b"a: [1]\n  b: 2\n", "2:3: this line does not match the indentation above it; align it with the lines around it"),
        (b"a: {b: 1\n", "1:4: this mapping is not closed; add ',' between entries, and '}' at the end"),
        (b"a: 1\n---\nb: 2\n", "2:1: a second YAML document starts here; write one spec per file"),
        (b"a: &x [*x]\n", "1:8: the alias *x is inside its own anchor"),
        (b"a: &x 1\nb: &x 2\n", "2:4: the anchor 'x' is set twice; rename one of them"),
        (b"a: " + b"[" * 5000, "1:35: the file is nested more than 32 levels deep; remove some of the nesting"),
        (b"a: 1e999\n", "1:4: the number 1e999 is too large for a float64; write .inf for infinity"),
        (b"a: " + b"9" * 5000, "1:4: the integer 9999999999999999999999999999999999999... is too large; the limit is 80 digits"),
        (b"a: !!python/object:os.system x\n", "1:4: YAML tags such as 'tag:yaml.org,2002:python/object:os.sy...' are not supported; remove it"),
        (b"a: 1\n  b: 2\n", "2:4: a second ':' in one entry; quote text that contains ': ', or start a new line"),
        (b"a: 1\nb\nc: 2\n", "3:1: this line is neither 'key: value' nor '- item'; add the ':' after the key"),
        (b'a: "\\d"\n', "1:6: unknown escape sequence; use single quotes to keep a '\\' as it is"),
    ],
)  # fmt: skip
def test_what_is_not_a_spec_file_says_so(text: bytes, message: str, tmp_path: Path) -> None:
    """Text that is not YAML, or not text, is refused at its place in words that do not need a YAML parser's."""
    with pytest.raises(SpecError) as caught:
        _read(tmp_path, text)
    assert str(caught.value) == f"spec.yaml:{message}"


def test_aliases_are_followed_and_bounded(tmp_path: Path) -> None:
    """An alias stands for its anchor; a billion laughs are refused after 20,000."""
    assert _read(tmp_path, "a: &x [1, 2]\nb: *x\n") == {"a": [1, 2], "b": [1, 2]}
    laughs = "a0: &a0 [lol, lol]\n" + "".join(
        f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]\n" for i in range(1, 12)
    )
    with pytest.raises(
        SpecError, match=r"spec\.yaml:5:\d+: the file expands to more than 20000 values; use fewer"
    ):
        _read(tmp_path, laughs)


@pytest.mark.parametrize(
    "text", ["a: 1\nb:\n  - x\n", "\ufeffa: 1\nb:\n  - x\n", "a: 1\r\nb:\r\n  - x\r\n", "---\na: 1\nb: [x]"]
)
def test_a_bom_and_crlf_are_fine(text: str, tmp_path: Path) -> None:
    """Files saved on Windows read as any other."""
    assert _read(tmp_path, text) == {"a": 1, "b": ["x"]}


def test_duplicate_keys_are_faults_and_the_rest_is_read(tmp_path: Path) -> None:
    """Both duplicates are reported, each with the line of its first."""
    path = tmp_path / "spec.yaml"
    path.write_text("a: 1\nb: {c: 1, c: 2}\na: 3\n")
    tree, faults = read(path, "spec.yaml")
    assert plain(tree) == {"a": 1, "b": {"c": 1}}
    assert [str(fault) for fault in faults] == [
        "spec.yaml:2:11: duplicate key 'c'; it is first set on line 2; remove one",
        "spec.yaml:3:1: duplicate key 'a'; it is first set on line 1; remove one",
    ]


def test_a_scalar_knows_where_its_text_starts(tmp_path: Path) -> None:
    """Columns within an expression are those of the file, after an opening quote too; not in folded text."""
    path = tmp_path / "spec.yaml"
    path.write_text("a: N + 1\nb: 'N + 1'\nc: \"N \\x2b 1\"\nd: >\n  N +\n  1\n")
    tree, _ = read(path, "spec.yaml")
    scalars = [entry.value for entry in tree.entries.values()]
    contents = [node.content.column if node.content else None for node in scalars if isinstance(node, YamlScalar)]
    assert contents == [4, 5, None, None]


@pytest.mark.parametrize(
    "text",
    [
        "a: [1, 2\n",
        "a: 1\n b: 2\n",
        "\ta: 1\n",
        "a: 'x\n",
        "a: *b\n",
        "a: @x\n",
        "a: 1\nb\n",
        "a: }\n",
        "a: [}\n",
        "%\n",
        "a: |x\n",
    ],
)
def test_messages_do_not_depend_on_libyaml(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With PyYAML's C parser and without it, the same text gets the same message."""
    messages = []
    for loader in (getattr(yaml, "CSafeLoader", yaml.SafeLoader), yaml.SafeLoader):
        monkeypatch.setattr(yaml, "CSafeLoader", loader, raising=False)
        with pytest.raises(SpecError) as caught:
            _read(tmp_path, text)
        messages.append(str(caught.value))
    assert messages[0] == messages[1]
    assert "this is not YAML" not in messages[0]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda path: path.write_bytes(b" " * (MAX_BYTES + 1)),
            "the file has 131073 bytes; the limit for a spec is 131072",
        ),
        (lambda path: path.mkdir(), "this is a folder; name a .yaml file"),
        (lambda path: None, "the file cannot be read: No such file or directory"),
        (lambda path: path.symlink_to("/dev/zero"), "this is not a regular file; name a .yaml file"),
    ],
)
def test_a_file_that_cannot_be_a_spec_is_not_read(
    make: Callable[[Path], object], message: str, tmp_path: Path
) -> None:
    """Size and kind are looked at first."""
    path = tmp_path / "spec.yaml"
    make(path)
    with pytest.raises(SpecError) as caught:
        read(path, "spec.yaml")
    has_lines = path.exists() and not path.is_dir()
    place = "spec.yaml:1:1" if has_lines else "spec.yaml"
    assert str(caught.value) == f"{place}: {message}"
