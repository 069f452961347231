"""A kernel in HIVM is read into operations by pipe; what nobody foresaw is counted, not fatal."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from akg_tui.evaluate.evidence.ascend import hivm_text
from akg_tui.evaluate.evidence.ascend.hivm import (
    PIPES,
    HivmError,
    Module,
    Operation,
    Target,
    read_hivm,
)

from .recorded_hivm import texts


def read(name: str) -> Module:
    return read_hivm(texts()[name])


def operations(name: str, kind: str) -> list[Operation]:
    return [each for each in read(name).functions[0].operations if each.kind == kind]


@pytest.mark.parametrize("name", sorted(texts()))
def test_every_recorded_kernel_is_understood(name: str) -> None:
    module = read(name)
    assert {function.core for function in module.functions} <= {"AIV", "AIC"}
    for function in module.functions:
        assert function.unknown == {}
        assert {each.pipe for each in function.operations} <= {*PIPES, "ALL"}


def test_the_target_describes_itself() -> None:
    assert read("softmax_1024").target == Target(
        vector_cores=48,
        cube_cores=24,
        ub=192 << 10,
        l1=512 << 10,
        l0a=64 << 10,
        l0b=64 << 10,
        l0c=128 << 10,
    )


def test_a_row_softmax_loads_reduces_and_stores_one_row() -> None:
    load, store = operations("softmax_1024", "transfer")
    assert (load.pipe, load.source, load.target, load.size, load.run) == (
        "MTE2", "GM", "UB", 4096, 4096,
    )  # fmt: skip
    assert (store.pipe, store.source, store.target, store.size) == ("MTE3", "UB", "GM", 4096)
    rows = operations("softmax_1024", "vector")
    assert [each.name for each in rows if not each.unlikely] == [
        "enablevc_reduce_max_r_float",
        "vadds_vs_1d_float",
        "vexp_1d_float",
        "enablevc_reduce_sum_r_float",
        "vdiv_vs_1d_float",
    ]
    assert {(each.elements, each.blocks, each.dtype) for each in rows} == {(1024, 128, "f32")}
    assert read("softmax_1024").functions[0].used("UB") == 6464 + 8 * 4


def test_flags_have_pipes_and_events_also_where_an_event_is_computed() -> None:
    waits = [each for each in operations("add_loop", "wait_flag") if each.depth]
    told = {(each.before, each.after, each.event) for each in waits}
    assert told == {
        ("V", "MTE2", 0), ("V", "MTE2", None), ("MTE3", "V", None), ("MTE2", "V", 0),
        ("V", "MTE3", 0),
    }  # fmt: skip
    assert all(each.pipe == each.after for each in waits)
    assert {each.times for each in waits} == {8}
    assert read("add_loop").functions[0].multi_buffered == 3


def test_operations_have_their_lines_of_the_kernel_also_where_a_function_was_inlined() -> None:
    told = [
        (each.name, each.place) for each in operations("located", "vector") if not each.unlikely
    ]
    assert told == [
        ("enablevc_reduce_max_r_float", 6),
        ("vadds_vs_1d_float", 6),
        ("vexp_1d_float", 6),
        ("enablevc_reduce_sum_r_float", 7),
        ("vdiv_vs_1d_float", 7),
    ]
    assert read("located").functions[0].used("UB") == 6464 + 8 * 4


def test_what_is_not_contiguous_is_discrete() -> None:
    strided, stored = operations("strided", "transfer")
    assert (strided.run, strided.discrete, strided.size) == (4, True, 4096)
    assert (stored.run, stored.discrete) == (4096, False)
    gathered = [each for each in operations("gather", "transfer") if each.discrete]
    assert [(each.pipe, each.times, each.depth) for each in gathered] == [("S", 1024, 1)]


def test_a_tile_of_a_matrix_is_moved_row_by_row() -> None:
    load, store = operations("transpose", "transfer")
    assert (load.size, load.run, store.run, load.discrete) == (64 * 64 * 4, 256, 256, False)


def test_a_product_has_its_sides_and_the_flags_inside() -> None:
    module = read("matmul")
    [product] = operations("matmul", "cube")
    assert (product.m, product.n, product.k, product.dtype) == (128, 128, 64, "f16")
    assert (product.waits, product.sets) == ((0, 1), (None, None))
    assert product.times is None
    assert module.functions[0].core == "AIC"
    assert module.functions[0].used("L1") == 64 << 10
    pipes = [each.pipe for each in operations("matmul", "transfer") if not each.unlikely]
    assert pipes == ["MTE2", "MTE2", "FIX"]


def test_cube_and_vector_cores_of_a_mixed_kernel_have_flags_between_them() -> None:
    module = read("hybrid")
    assert module.mixed
    cube, vector = module.functions
    sets = {each.event for each in cube.operations if each.kind == "block_set"}
    waits = {each.event for each in vector.operations if each.kind == "block_wait"}
    assert (cube.core, vector.core) == ("AIC", "AIV")
    assert sets == waits == {1, 3}


def test_integers_of_64_bits_are_compared_one_by_one() -> None:
    loops = [each for each in operations("int64mask", "scalar") if (each.times or 0) > 1]
    assert sum(each.times or 0 for each in loops) == 2 * 16 + 9 * 1024
    assert {each.pipe for each in loops} == {"S"}


def test_an_unknown_operation_is_kept_and_counted() -> None:
    text = texts()["softmax_1024"].replace(
        "hivm.hir.pipe_barrier[<PIPE_V>]", "hivm.hir.vnew ins(%7)"
    )
    function = read_hivm(text).functions[0]
    assert function.unknown == {"hivm.hir.vnew": 2}
    assert [each.name for each in function.operations if each.kind == "unknown"] == [
        "hivm.hir.vnew", "hivm.hir.vnew",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "no function"),
        ("int main() { return 0; }", "no function"),
        ("func.func @k(%arg0: i64) {\n  %0 = arith.constant 1 : i64\n", "not closed"),
        ("func.func @k() {\n" + "scf.if %0 {\n" * 100, "nested"),
    ],
)
def test_what_is_no_module_is_refused(text: str, why: str) -> None:
    with pytest.raises(HivmError, match=why):
        read_hivm(text)


def test_a_text_beyond_the_limits_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hivm_text, "MOST_TEXT", 100)
    with pytest.raises(HivmError, match="the limit is 100"):
        read_hivm("x" * 101)


_PIECES = ("%0", "%arg3", "{", "}", "}}", "<[?]>", "memref<?xf32>", "-1", "9" * 5000, "x" * 50, ",")


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(sorted(set(texts()) - {"hybrid"})), st.randoms(use_true_random=False))
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
        module = read_hivm("\n".join(lines))
    except HivmError:
        return
    assert module.functions
