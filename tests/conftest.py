"""What holds for all tests: the same examples every time, and the machine stays as it was.

Hypothesis draws the same examples every time: a failure here is a failure everywhere.
"""

import atexit
import contextlib
import gc
import importlib
import os
import shutil
import stat
import sys
import tempfile
from collections.abc import Generator
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis.internal.conjecture import providers

ROOT = Path(__file__).parent

pytest_plugins = ("tests.judging",)

settings.register_profile("fixed", derandomize=True, database=None, deadline=None, max_examples=50)
settings.load_profile("fixed")
# No constants of the modules that happen to be loaded: reading them all takes each process seconds,
# and a test that runs alone would draw other examples.
providers._get_local_constants = lambda: providers._local_constants

# Read once, when Triton is first imported, which torch may do in any test. No judge sees it:
# the environment of its processes is made anew.
os.environ["TRITON_INTERPRET"] = "1"
# Compiled once, not in each of the processes that the tests start: half a second each.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False
# What a test finds must not reach the user's own memory, nor another test.
os.environ["AKG_TUI_MEMORY"] = "off"
# The judge's draws: of a process that serves many tests, and (below) of each test's own.
os.environ["AKG_TUI_DRAWS"] = "tests"
# Nor do the user's own settings count, and the folders that a test makes are not theirs.
# Nor is the lease of this machine for them, which is its user's: they time when they please.
for name in ("XDG_CONFIG_HOME", "XDG_STATE_HOME", "AKG_TUI_LEASES"):
    os.environ[name] = tempfile.mkdtemp(prefix="akg-tests-")
    atexit.register(shutil.rmtree, os.environ[name], ignore_errors=True)


def pytest_configure(config: pytest.Config) -> None:
    """Let the interpreter free what is imported: Triton reports what it finds left at the end.

    Registered before the clean-up of pytest, which walks all objects five times; so done after it.
    """
    config.add_cleanup(gc.unfreeze)


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Generator[None, object, object]:
    """Collect without a look for garbage: there is next to none, and each walk takes longer."""
    gc.disable()
    try:
        _compile_a_share(session)
        return (yield)
    finally:
        gc.enable()


def _compile_a_share(session: pytest.Session) -> None:
    """Let each worker compile its share of the files first: the others' are there by then."""
    worker = os.environ.get("PYTEST_XDIST_WORKER", "")
    if not worker or session.config.args != session.config.getini("testpaths"):
        return
    files = sorted(ROOT.rglob("test_*.py"))
    count = int(os.environ["PYTEST_XDIST_WORKER_COUNT"])
    for file in files[int(worker.removeprefix("gw")) :: count]:
        with contextlib.suppress(Exception, pytest.skip.Exception):  # collection will tell
            importlib.import_module(
                ".".join(("tests", *file.relative_to(ROOT).with_suffix("").parts))
            )


def pytest_collection_finish() -> None:
    """Never walk what is imported to look for garbage: that took a sixth of the time."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish() -> None:
    """Collect until nothing is left to collect, as often as pytest would: it always does so often.

    What is still there is then frozen: pytest's own collecting has nothing to walk.
    """
    for _ in range(5):
        if not gc.collect():
            break
    gc.freeze()


def _null_is_a_device() -> bool:
    return stat.S_ISCHR(Path(os.devnull).lstat().st_mode)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Fix the judge's draws. Begin nothing on a harmed machine: root can replace a device."""
    if not _null_is_a_device():
        pytest.exit(f"{os.devnull} is no device: nothing that is tested here can be trusted", 3)
    os.environ["AKG_TUI_DRAWS"] = item.nodeid


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item) -> None:
    """End at the test that harmed the machine, by its name."""
    if not _null_is_a_device():
        pytest.exit(f"{os.devnull} was replaced while {item.nodeid} ran", 3)
