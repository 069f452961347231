"""The hot loop in a GPU's machine code."""

from __future__ import annotations

import pytest

from akg_tui.evidence.gpu.loops import hot_loop
from akg_tui.evidence.gpu.statements import amd_statements, ptx_statements, sass_statements

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
