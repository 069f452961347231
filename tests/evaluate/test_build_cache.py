"""Only the process that builds leaves anything in a build cache, and nothing is built twice."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from akg_tui.core.measurement import FailureKind, Outcome
from akg_tui.evaluate import Judge
from akg_tui.evaluate.sandbox import build_cache
from akg_tui.evaluate.sandbox.build_cache import BuildCaches, CopyFailed, CoveredFolder
from akg_tui.evaluate.sandbox.protections import offered
from benchmarks.judge.ordinary.lasting import KEEPS
from tests.evaluate.kernels import CPP, LOAD_INLINE, SLOW

SESSION = pytest.mark.asyncio(loop_scope="session")

SPY = """
import os
def built():
    home = os.environ["AKG_CACHE_DIR"]
    paths = [os.path.join(root, name) for root, _, names in os.walk(home) for name in names]
    return {path: os.stat(path).st_mtime_ns for path in paths if path.endswith((".so", ".o"))}
before = built()
"""
CHECK = "if before and built() != before: raise RuntimeError('built again')"

AT_LOAD = SPY + CPP + CHECK + "\n"
LATE = SPY + CPP + "if not before: raise RuntimeError('not built before')\n"
TOO_MUCH = (
    """
import os
for n in range(3):
    with open(f"{os.environ['AKG_CACHE_DIR']}/{n}", "wb") as out:
        out.truncate(256 << 20)
"""
    + CPP
)
AT_CALL = SPY + LOAD_INLINE.replace("        y = 2", f"            {CHECK}\n        y = 2")


def _insist_on_rules_for_files() -> None:
    if "landlock" not in {protection.name for protection in offered() if protection.held}:
        pytest.skip("without Landlock it would leave files on this machine")


@SESSION
async def test_nothing_that_a_process_leaves_is_found_by_the_next(judge: Judge) -> None:
    _insist_on_rules_for_files()
    found = await judge.probe(KEEPS, samples=1)
    assert found.outcome is Outcome.CORRECT, found
    assert found.clusters > 1


@SESSION
@pytest.mark.parametrize(
    ("source", "timed"), [(AT_LOAD, True), (AT_CALL, False)], ids=["compile_cpp", "load_inline"]
)
async def test_what_one_process_builds_no_other_builds_again(
    judge: Judge, source: str, *, timed: bool
) -> None:
    found = await judge.probe(source, samples=1, timed=timed)
    assert found.outcome is Outcome.CORRECT, found
    assert (found.clusters > 1) is timed


@SESSION
async def test_kernels_that_come_next_are_built_together_with_the_first(judge: Judge) -> None:
    first, *others = (f"{LATE}# {number}\n" for number in range(3))
    found = await judge.probe(first, timed=False, ahead=others)
    assert found.outcome is Outcome.CORRECT, found
    for each in others:
        assert (await judge.probe(each, timed=False)).outcome is Outcome.CORRECT
    alone = await judge.probe(LATE, timed=False)
    assert alone.message.endswith("RuntimeError: not built before"), alone


@SESSION
async def test_one_that_fails_to_build_ahead_fails_by_itself_only(judge: Judge) -> None:
    broken = CPP.replace("float", "flaot")
    found = await judge.probe(f"{LATE}# beside one\n", timed=False, ahead=[broken, "x = ("])
    assert found.outcome is Outcome.CORRECT, found
    found = await judge.probe(broken, timed=False)
    assert (found.outcome, found.failure) == (Outcome.FAILED, FailureKind.BUILD), found


@SESSION
async def test_an_incumbent_that_this_judge_has_not_seen_is_built_once(judge: Judge) -> None:
    incumbent = AT_LOAD + "# not seen before\n"
    found = await judge.evaluate(SLOW, incumbent, precise=1e-9, within_s=1e-9)
    assert found.outcome is Outcome.CORRECT, found


@SESSION
async def test_too_much_in_a_build_cache_fails_and_says_so(judge: Judge) -> None:
    found = await judge.evaluate(TOO_MUCH, SLOW)
    assert found.outcome is Outcome.FAILED, found
    assert found.message == (
        "it left more in its build cache than is kept (20000 files, 512 MiB)"
    ), found


def test_a_folder_is_put_back_as_the_process_that_built_has_left_it(tmp_path: Path) -> None:
    home = BuildCaches(tmp_path, covered=False)
    folder = home.folder("a kernel")
    home.restore("a kernel", builds=True)
    (folder / "made.so").write_bytes(b"code")
    os.utime(folder / "made.so", ns=(5, 1_234_567_891))
    for _ in range(2):
        home.restore("a kernel", builds=False)
        assert [path.name for path in folder.iterdir()] == ["made.so"]
        assert (folder / "made.so").stat().st_mtime_ns == 1_234_567_891
        (folder / "made.so").write_bytes(b"other code")
        (folder / "result").write_bytes(b"0.5")
        folder.chmod(0o700)
    # Building again begins from there too, and what it adds is kept.
    home.restore("a kernel", builds=True)
    assert [path.name for path in folder.iterdir()] == ["made.so"]
    (folder / "more.so").touch()
    home.restore("a kernel", builds=False)
    assert {path.name for path in folder.iterdir()} == {"made.so", "more.so"}
    assert not list(home.folder("another kernel").iterdir())


def test_what_is_not_a_file_is_no_part_of_a_build(tmp_path: Path) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    source.mkdir()
    (source / "link").symlink_to("/etc/passwd")
    build_cache.copy(str(source), str(target))
    assert (target / "link").is_symlink()
    os.mkfifo(source / "pipe")
    with pytest.raises(CopyFailed, match=r"can't be copied: .*named pipe"):
        build_cache.copy(str(source), str(target))


def test_more_files_than_are_kept_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(build_cache, "COPIED_FILES", 2)
    for n in range(3):
        (tmp_path / str(n)).touch()
    with pytest.raises(CopyFailed, match="2 files"):
        build_cache.copy(str(tmp_path), str(tmp_path / "target"))


def test_what_was_covered_has_no_descriptor_afterwards(tmp_path: Path) -> None:
    covered = CoveredFolder(str(tmp_path))
    path = Path(covered.path)
    assert path.exists()
    covered.uncover(copied=False)
    assert not path.exists()
    covered.uncover(copied=True)  # what was loaded once is not loaded again
    assert not list(tmp_path.iterdir())


@pytest.fixture
def caches(tmp_path: Path) -> BuildCaches:
    return BuildCaches(tmp_path / "cache", covered=True)


def fill(home: BuildCaches, *sources: str, size: int = 10) -> None:
    for source in sources:
        (home.folder(source) / "made.so").write_bytes(bytes(size))


def test_the_builds_of_a_failed_kernel_go_and_others_stay(caches: BuildCaches) -> None:
    fill(caches, "sound", "failed")
    caches.tidy("failed")
    assert caches.holds("sound")
    assert not caches.holds("failed")


@pytest.mark.parametrize(("limit", "most"), [("KEPT_BYTES", 25), ("KEPT_FILES", 2)])
def test_the_build_that_was_not_used_for_longest_goes_first(
    caches: BuildCaches, monkeypatch: pytest.MonkeyPatch, limit: str, most: int
) -> None:
    monkeypatch.setattr(build_cache, limit, most)
    for source in ("first", "second"):
        fill(caches, source)
        caches.tidy(None)
    caches.folder("first")  # as an incumbent, for example
    caches.tidy(None)
    fill(caches, "third")
    caches.tidy(None)
    assert [caches.holds(each) for each in ("first", "second", "third")] == [True, False, True]


def test_no_build_in_use_is_removed(caches: BuildCaches, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build_cache, "KEPT_BYTES", 5)
    fill(caches, "candidate", "incumbent", "reference")
    caches.tidy(None)
    assert all(map(caches.holds, ("candidate", "incumbent", "reference")))
    caches.tidy(None)
    assert not any(map(caches.holds, ("candidate", "incumbent", "reference")))


def test_builds_of_an_earlier_judge_count_and_go_before_all_others(
    caches: BuildCaches, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(caches, "earlier", "known")
    later = BuildCaches(tmp_path / "cache", covered=True)
    monkeypatch.setattr(build_cache, "KEPT_BYTES", 25)
    fill(later, "known", "new")
    later.tidy(None)
    assert [later.holds(each) for each in ("earlier", "known", "new")] == [False, True, True]


@SESSION
async def test_a_failed_kernel_leaves_no_build(judge: Judge) -> None:
    source = CPP.replace("return y", "return y + 1")
    home = judge._scratch / "cache"
    before = {path.name for path in home.iterdir()}
    found = await judge.probe(source, timed=False)
    assert found.outcome is Outcome.FAILED, found
    # The judge removes it before it takes the next request.
    assert (await judge.probe(SLOW, timed=False)).outcome is Outcome.CORRECT
    assert len({path.name for path in home.iterdir()} - before) <= 1
