"""The hot loop in a GPU's machine code, and the banks that accesses to shared memory meet in."""

from __future__ import annotations

import pytest

from akg_tui.evaluate.evidence.gpu.bank_conflicts import Conflict, SharedAccesses, read_accesses
from akg_tui.evaluate.evidence.gpu.loops import (
    amd_statements,
    hot_loop,
    ptx_statements,
    sass_statements,
)

FILES = {"kernel.py": 0}
SASS = """
	.headerflags	@"EF_CUDA_TEXMODE_UNIFIED"
multiply:
.text.multiply:
	//## File "kernel.py", line 22
        /*0000*/                   LDC R1, c[0x0][0x28] ;
.L_x_0:
        /*0010*/              @!P0 BRA `(.L_x_0) ;
.L_x_1:
        /*0020*/                   LDS.128 R4, [R2] ;
	//## File "/usr/lib/triton/language/standard.py", line 43 inlined at "kernel.py", line 37
	//## File "kernel.py", line 30
        /*0030*/                   BAR.SYNC.DEFER_BLOCKING 0x0 ;
        /*0040*/                   HMMA.16816.F32 R4, R8, R12, R4 ;
	//## File "/usr/lib/triton/language/standard.py", line 50
        /*0050*/              @!P1 BRA `(.L_x_2) ;
        /*0060*/                   ISETP.GE.AND P0, PT, R4, UR4, PT ;
.L_x_2:
	//## File "kernel.py", line 38
        /*0070*/               @P0 BRA `(.L_x_1) ;
        /*0080*/               @P2 BRA `(.L_x_0) ;
        /*0090*/                   EXIT ;
.L_x_3:
        /*00a0*/                   BRA `(.L_x_3);
        /*00b0*/                   NOP;
"""
AMD = """	.loc	1 22 0 prologue_end             ; kernel.py:22:0
	s_load_dwordx2 s[2:3], s[0:1], 0x0
.LBB0_2:                                ; =>This Inner Loop Header: Depth=1
	.loc	2 43 13                         ; standard.py:43:13 @[ kernel.py:37:41 ]
	v_mfma_f32_32x32x8_f16 a[0:15], v[2:3], v[4:5], a[0:15]
	s_barrier
	.loc	1 38 13                         ; kernel.py:38:13
	s_cbranch_scc1 .LBB0_2
	s_endpgm
"""
PTX = """
	.file	1 "/tmp/kernel.py"
	.file	2 "/usr/lib/standard.py"
	.loc	1 22 0                          // kernel.py:22:0
	mov.u32 	%r1, %tid.x;
$L__BB0_1:
	.loc	2 43 13, function_name $L__info_string0, inlined_at 1 37 20 // standard.py:43:13
	ld.shared.b32 	%r2, [%r1];
	bar.sync 	0;
	.loc	1 38 13
	@%p1 bra 	$L__BB0_1;
	ret;
"""


def test_the_innermost_loop_with_the_most_instructions_is_found_in_sass() -> None:
    found = hot_loop(sass_statements(SASS, FILES), "SASS")
    assert found is not None
    assert [(row.line, row.label, row.text) for row in found.rows] == [
        (22, ".1", "LDS.128 R4, [R2]"),
        (37, "", "BAR.SYNC.DEFER_BLOCKING 0x0"),
        (37, "", "HMMA.16816.F32 R4, R8, R12, R4"),
        (0, "", "@!P1 BRA .2"),
        (0, "", "ISETP.GE.AND P0, PT, R4, UR4, PT"),
        (38, ".2", "@P0 BRA .1"),
    ]
    assert (found.total, found.barriers) == (6, 1)
    assert found.mix == {
        "shared memory": 1,
        "wait and barrier": 1,
        "matrix": 1,
        "control": 2,
        "compare and select": 1,
    }
    assert found.by_line == {37: 2, 22: 1, 38: 1}


def test_a_long_loop_is_counted_and_cut() -> None:
    found = hot_loop(sass_statements(SASS, FILES), "SASS", most=2)
    assert found is not None
    assert (found.total, len(found.rows), sum(found.mix.values())) == (6, 2, 6)


@pytest.mark.parametrize(
    ("text", "language", "read", "lines"),
    [
        (AMD, "AMD assembly", amd_statements, [37, 37, 38]),
        (PTX, "PTX", ptx_statements, [37, 37, 38]),
    ],
)
def test_loops_of_other_languages_have_the_lines_of_the_kernels_file(
    text: str, language: str, read: object, lines: list[int]
) -> None:
    assert callable(read)
    found = hot_loop(read(text, FILES), language)
    assert found is not None
    assert [row.line for row in found.rows] == lines
    assert (found.total, found.barriers) == (3, 1)


def test_lines_of_a_second_file_are_those_of_the_whole_text() -> None:
    text = SASS.replace('"kernel.py"', '"/scratch/rows.py"')
    alone, second = (
        hot_loop(sass_statements(code, files), "SASS")
        for code, files in ((SASS, FILES), (text, {"kernel.py": 0, "rows.py": 100}))
    )
    assert alone is not None
    assert second is not None
    assert alone.by_line
    assert second.by_line == {line + 100: number for line, number in alone.by_line.items()}


def test_code_without_a_loop_has_no_hot_loop() -> None:
    assert hot_loop(sass_statements(SASS.partition(".L_x_0:")[0], FILES), "SASS") is None
    assert hot_loop([], "SASS") is None


def accesses(code: str) -> SharedAccesses:
    given = '.file 1 "kernel.py"\n.loc 1 7 0\nmov.u32 %r1, %tid.x;\nmov.b32 %r2, global_smem;\n'
    return read_accesses(ptx_statements(given + code, FILES))


@pytest.mark.parametrize(
    ("code", "ways"),
    [
        # Each lane has a word of its own in a bank of its own; one word for all; two words a bank.
        ("shl.b32 %r3, %r1, 2; add.s32 %r4, %r2, %r3; ld.shared.b32 %r5, [%r4+64];", 1),
        ("and.b32 %r3, %r1, 0; ld.shared.b32 %r5, [%r3];", 1),
        ("shl.b32 %r3, %r1, 3; st.shared.b32 [%r3], %r5;", 2),
        # Rows of 128 bytes, read down a column, plain and with the row in the column's number.
        ("shl.b32 %r3, %r1, 7; ld.shared.b32 %r5, [%r3];", 32),
        ("shl.b32 %r3, %r1, 7; shl.b32 %r4, %r1, 2; xor.b32 %r6, %r3, %r4; "
         "ld.shared.b32 %r5, [%r6];", 1),
        # Eight lanes at a time have 16 bytes each.
        ("shl.b32 %r3, %r1, 4; ld.shared.v4.b32 {%r5, %r6, %r7, %r8}, [%r3];", 1),
        ("shl.b32 %r3, %r1, 7; cp.async.cg.shared.global [ %r3 + 0 ], [ %rd3 + 0 ], 0x10, %r5;", 8),
        ("shl.b32 %r3, %r1, 6; ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r5}, [%r3];", 4),
        # Only the lanes take part whose predicate holds.
        ("shl.b32 %r3, %r1, 7; setp.lt.u32 %p1, %r1, 2; @%p1 st.shared.b32 [%r3], %r5;", 2),
        ("shl.b32 %r3, %r1, 7; setp.lt.u32 %p1, %r1, 2; @!%p1 st.shared.b32 [%r3], %r5;", 30),
        # What all lanes add does not matter, such as the number of a pipeline's stage.
        ("ld.param.b32 %r9, [k_param_0]; mad.lo.s32 %r3, %r1, 128, %r9; ld.shared.b32 %r5, [%r3];",
         32),
    ],
)  # fmt: skip
def test_the_turns_of_the_lanes_are_computed_from_their_addresses(code: str, ways: int) -> None:
    found = accesses(code.replace("; ", ";\n"))
    assert (found.known, found.unknown) == (1, 0)
    assert [each.ways for each in found.conflicts] == ([ways] if ways > 1 else [])
    assert all(each.line == 7 for each in found.conflicts)


def test_an_address_that_a_loop_moves_for_all_lanes_alike_is_known() -> None:
    found = accesses("""
	shl.b32 %r3, %r1, 7;
$L__1:
	ld.shared.b32 %r5, [%r3];
	st.shared.b32 [%r3+4], %r5;
	ld.shared.b32 %r6, [%r3+8];
	add.s32 %r3, %r3, 4096;
	@%p1 bra $L__1;
""")
    assert found == SharedAccesses((Conflict(7, "load", 32, 2), Conflict(7, "store", 32)), 3)


@pytest.mark.parametrize(
    "code",
    [
        "ld.global.b32 %r3, [%rd1];",
        "ld.param.b32 %r9, [k_param_0];\nadd.s32 %r4, %r9, %r1;\nand.b32 %r3, %r4, 63;",
        "shl.b32 %r3, %r1, 2;\n@%p1 shl.b32 %r3, %r1, 7;",
        "setp.lt.and.s32 %p1, %r1, 4, %p2;\nselp.b32 %r3, %r1, 0, %p1;",
        "elect.sync %r3|%p1, -1;",
    ],
)
def test_nothing_is_said_of_an_address_that_depends_on_more_than_the_lane(code: str) -> None:
    assert accesses(f"{code}\nld.shared.b32 %r5, [%r3];") == SharedAccesses((), 0, 1)
