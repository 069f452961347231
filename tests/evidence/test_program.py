"""A kernel in HIVM is counted by instructions; what nobody foresaw is not fatal."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from akg_tui.evidence.ascend import program
from akg_tui.evidence.ascend.program import Counted, HivmError, Program, read_program

from .recorded_hivm import texts


def read(name: str) -> Program:
    return read_program(texts()[name])


@pytest.mark.parametrize("name", sorted(texts()))
def test_every_recorded_kernel_is_understood(name: str) -> None:
    found = read(name)
    assert set(found.cores) <= {"vector", "cube"}
    assert found.counts
    assert not found.of("unknown")
    assert all(used <= found.limits[memory] for memory, used in found.used.items())


def test_the_memories_of_the_target_and_what_is_in_use_are_told() -> None:
    found = read("softmax_1024")
    assert found.limits == {
        "UB": 192 << 10, "L1": 512 << 10, "L0A": 64 << 10, "L0B": 64 << 10, "L0C": 128 << 10,
    }  # fmt: skip
    assert found.used == {"UB": 6464 + 8 * 4}
    assert read("matmul").used["L1"] == 64 << 10


def test_instructions_have_their_lines_of_the_kernel_also_where_a_function_was_inlined() -> None:
    found = read("located")
    assert found.of("load", "store", "vector") == {
        Counted("load", "load_gm_to_ubuf_1d_float", 5): 1,
        Counted("vector", "reduce_max f32", 6): 1,
        Counted("vector", "vadds f32", 6): 1,
        Counted("vector", "vexp f32", 6): 1,
        Counted("vector", "reduce_sum f32", 7): 1,
        Counted("vector", "vdiv f32", 7): 1,
        Counted("store", "store_ubuf_to_gm_1d_float", 7): 1,
    }
    assert (found.of("flags").total(), found.of("barriers").total()) == (4, 3)


def test_accesses_of_the_scalar_unit_in_a_loop_are_told_apart() -> None:
    loops = [each for each in read("gather").of("scalar") if each.in_loop]
    assert {each.name for each in loops} == {"load", "store"}
    assert not any(each.in_loop for each in read("softmax_1024").of("scalar"))


def test_a_kernel_for_cube_and_vector_cores_has_flags_between_them() -> None:
    found = read("hybrid")
    assert found.cores == ("cube", "vector")
    assert found.of("core_flags").total() == 9
    assert (found.of("cube").total(), found.alternating) == (2, 3)


def test_an_unknown_operation_is_counted_by_its_name() -> None:
    text = texts()["softmax_1024"].replace(
        "hivm.hir.pipe_barrier[<PIPE_V>]", "hivm.hir.vnew ins(%7)"
    )
    assert read_program(text).of("unknown") == {Counted("unknown", "hivm.hir.vnew"): 2}


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "0 functions"),
        ("int main() { return 0; }", "0 functions"),
        ("func.func @k(%arg0: i64) {\n  %0 = arith.constant 1 : i64\n", "not closed"),
        ("func.func @k() {\n" + "scf.if %0 {\n" * 100, "nested"),
    ],
)
def test_what_is_no_kernel_is_refused(text: str, why: str) -> None:
    with pytest.raises(HivmError, match=why):
        read_program(text)


def test_a_text_beyond_the_limits_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(program, "MOST_TEXT", 100)
    with pytest.raises(HivmError, match="the limit is 100"):
        read_program("x" * 101)


MUTATED = sorted(each for each in texts() if each != "hybrid" and not each.startswith("step"))
_PIECES = ("%0", "%arg3", "{", "}", "}}", "<[?]>", "memref<?xf32>", "-1", "9" * 5000, "x" * 50, ",")


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(MUTATED), st.randoms(use_true_random=False))
def test_a_mutated_text_is_read_or_refused(name: str, chance: random.Random) -> None:
    lines = texts()[name].splitlines()
    for _ in range(chance.randint(1, 12)):
        at = chance.randrange(len(lines))
        match chance.randrange(5):
            case 0:
                del lines[at]
            case 1:
                lines.insert(at, lines[chance.randrange(len(lines))])
            case 2:
                cut = chance.randrange(len(lines[at]) + 1)
                lines[at] = lines[at][:cut] + chance.choice(_PIECES) + lines[at][cut:]
            case 3:
                lines[at] = lines[at][: chance.randrange(len(lines[at]) + 1)]
            case _:
                words = lines[at].split(" ")
                words[chance.randrange(len(words))] = chance.choice(_PIECES)
                lines[at] = " ".join(words)
        if not lines:
            break
    try:
        found = read_program("\n".join(lines))
    except HivmError:
        return
    assert found.cores
