"""Entries are found in a module's text and measured."""

from kcheck.linter.ptx_text import find_entry

MODULE = """\
.version 8.0
.target sm_80
// .entry commented( ) { }
.visible .entry first(.param .u64 p)
{
	ret;
}
.visible .entry second(
	.param .u64 second_param_0
)
.maxntid 64, 1, 1
{
	.reg .pred %p<2>;
	.reg .b32 %r<4>;
	.loc	1 12 0
	mov.u32 %r1, %tid.x; mov.u32 %r2, 7; // two on a line; not three
$L__BB0_1:
	@%p1 bra $L__BB0_1;
	{ // callseq 0
	.reg .b32 temp_param_reg;
	.param .b64 param0;
	st.param.b64 [param0], %r1;
	call.uni vprintf, (param0);
	}
	.loc	1 14 5
	/* mul.f64 in a comment;
	over two lines; */
	add.s32 %r3, %r1, %r2;
	ret;
}
"""


def test_only_the_named_entry_counts() -> None:
    """Instructions of other entries, directives, labels and comments are not counted."""
    entry = find_entry(MODULE, "second")
    assert entry is not None
    # mov mov bra st.param call add ret
    assert entry.instructions == 7


def test_a_name_is_matched_whole() -> None:
    """`fir` is not `first`, and an entry in a comment is none."""
    assert find_entry(MODULE, "fir") is None
    assert find_entry(MODULE, "commented") is None
    first = find_entry(MODULE, "first")
    assert first is not None
    assert first.instructions == 1


def test_lines_of_the_module_and_of_the_source() -> None:
    """A position maps to its line in the module, and through the last .loc to the user's Python."""
    entry = find_entry(MODULE, "second")
    assert entry is not None
    position = entry.text.index("add.s32")
    assert MODULE.splitlines()[entry.line_of(position) - 1].strip().startswith("add.s32")
