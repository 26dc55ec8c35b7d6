"""A kernel of which checks are most of the code, and whose own code is edited: ``FACTOR`` is a literal."""

KERNEL = """
.version 8.0
.target sm_80
.address_size 64
.visible .entry double(.param .u64 to)
{
    .reg .b32 %r<4>;
    .reg .b64 %rd<4>;
    ld.param.u64 %rd1, [to];
    mov.u32 %r1, %tid.x;
    mul.wide.u32 %rd2, %r1, 4;
    add.s64 %rd3, %rd1, %rd2;
    ld.global.u32 %r2, [%rd3];
    add.s32 %r3, %r2, FACTOR;
    st.global.u32 [%rd3], %r3;
    ret;
}
"""
