"""Toolchains: complete or not there, whatever happens while one is added."""

from __future__ import annotations

import importlib.util
import signal
import subprocess
import sys
import textwrap
from pathlib import Path
from zipfile import ZipFile, ZipInfo

import pytest

from akg_tui.cli import machine_checks, main
from akg_tui.dsl import toolchain_install, toolchains
from akg_tui.store.checkup import Health

PIP = """#!/bin/sh
# Stands in for the Python of a new environment, of which pip and the version are asked.
here="$(dirname "$0")/.."
case "$*" in
    *base_prefix*) echo /opt/python ;;
    *python_version*) echo 3.11.7 ;;
    *pip*install*)
        echo "Collecting {pins}"
        {work}
        mkdir -p "$here/lib/python3.11/site-packages/nvidia/cu13/bin"
        for name in nvcc ptxas cuobjdump nvdisasm; do
            printf '#!/bin/sh\\necho {answer}; exit {status}\\n' > \\
                "$here/lib/python3.11/site-packages/nvidia/cu13/bin/$name"
            chmod +x "$here/lib/python3.11/site-packages/nvidia/cu13/bin/$name"
        done ;;
esac
"""


@pytest.fixture(autouse=True)
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    return tmp_path / "data" / "akg_tui" / "toolchains"


def environments(
    monkeypatch: pytest.MonkeyPatch, work: str = ":", answer: str = "1.0", status: int = 0
) -> None:
    """Let each new environment have a pip that does this before its packages are there."""

    def make(_: str, at: Path) -> None:
        (at / "bin").mkdir(parents=True)
        python = at / "bin" / "python"
        python.write_text(PIP.format(pins="$*", work=work, answer=answer, status=status))
        python.chmod(0o755)

    monkeypatch.setattr(toolchain_install, "_make_environment", make)


def left(data: Path) -> list[str]:
    return sorted(each.name for each in data.iterdir() if each.name != "lock")


def test_a_toolchain_is_added_found_and_removed(
    data: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    environments(monkeypatch)
    assert toolchains.toolchain_program("cuda", "nvcc") is None
    assert main(["toolchain", "add", "cuda"]) == 0
    told = capsys.readouterr()
    assert told.out == ""
    assert "nvidia-cuda-nvcc==13.5.37" in told.err
    nvcc = toolchains.toolchain_program("cuda", "nvcc")
    assert nvcc is not None
    assert nvcc.is_relative_to(data / "cuda")
    assert subprocess.run([nvcc], check=True, capture_output=True).stdout == b"1.0\n"
    assert toolchains.toolchain_program("cuda", "gcc") is None
    assert toolchains.places("cuda") == (str(data / "cuda"), "/opt/python")
    assert main(["toolchain", "add", "cuda"]) == 0
    assert "is installed already" in capsys.readouterr().err
    assert main(["toolchain", "list"]) == 0
    told = capsys.readouterr()
    assert f"installed in {data / 'cuda'}" in told.out
    assert "the toolchain ascend is not installed: akg-tui toolchain add ascend" in told.out
    check = machine_checks.check_toolchains()
    assert (check.health, check.found) == (
        Health.OK, "no ascend, cuda (nvidia-cuda-nvcc==13.5.37, Python 3.11.7)",
    )  # fmt: skip
    assert main(["toolchain", "remove", "cuda"]) == 0
    assert left(data) == []
    assert main(["toolchain", "remove", "cuda"]) == 2
    assert capsys.readouterr().err == "akg-tui: the toolchain cuda is not installed\n"


@pytest.mark.parametrize(
    ("work", "status", "says"),
    [
        ("echo ERROR: no space left; exit 1", 0, "pip did not install it: ERROR: no space left"),
        ("kill -9 $$", 0, "pip did not install it: Collecting"),
        (":", 3, "nvcc does not run: 1.0"),
    ],
)
def test_an_add_that_fails_says_why_and_leaves_nothing(
    *,
    data: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    work: str,
    status: int,
    says: str,
) -> None:
    environments(monkeypatch, work, status=status)
    assert main(["toolchain", "add", "cuda"]) == 2
    assert f"akg-tui: {says}" in capsys.readouterr().err.splitlines()[-1]
    assert toolchains.installed("cuda") is None
    assert toolchains.toolchain_program("cuda", "nvcc") is None
    assert left(data) == []
    environments(monkeypatch)
    assert main(["toolchain", "add", "cuda"]) == 0
    assert left(data) == ["cuda"]


def test_a_killed_add_leaves_nothing_that_looks_complete(
    data: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    # The packages are all there when it is killed, the mark is not.
    script = textwrap.dedent(f"""
        import sys
        from pathlib import Path
        from akg_tui.dsl import toolchain_install
        def make(_, at):
            (at / "bin").mkdir(parents=True)
            python = at / "bin" / "python"
            python.write_text({PIP.format(pins="x", work=":", answer="1", status=0)!r})
            python.chmod(0o755)
        def wait(*_):
            print("here", flush=True)
            sys.stdin.read()
        toolchain_install._make_environment, toolchain_install._check = make, wait
        toolchain_install.add("cuda", lambda _: None)
    """)
    with subprocess.Popen(
        [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as adding:
        assert adding.stdout is not None
        assert adding.stdout.readline() == b"here\n"
        # Another one is refused as long as this one lives.
        assert main(["toolchain", "add", "cuda"]) == 2
        assert "another akg-tui is changing the toolchains now" in capsys.readouterr().err
        adding.send_signal(signal.SIGKILL)
    assert left(data) == [".building-cuda"]
    assert toolchains.installed("cuda") is None
    assert not toolchains.is_outdated("cuda")
    environments(monkeypatch)
    assert main(["toolchain", "add", "cuda"]) == 0
    assert left(data) == ["cuda"]


def test_a_toolchain_of_other_versions_is_told_and_replaced(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    environments(monkeypatch)
    assert main(["toolchain", "add", "cuda"]) == 0
    mark = data / "cuda" / toolchains.MARK
    mark.write_text(mark.read_text().replace("13.5.37", "12.0.1"))
    assert toolchains.toolchain_program("cuda", "nvcc") is None
    check = machine_checks.check_toolchains()
    assert (check.health, check.mend) == (
        Health.WARN, "the toolchain cuda is of other versions: akg-tui toolchain add cuda",
    )  # fmt: skip
    assert main(["toolchain", "add", "cuda"]) == 0
    assert toolchains.toolchain_program("cuda", "nvcc") is not None


def test_packages_of_few_pythons_are_refused_where_there_is_none_of_them(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # A switch between versions of Python, without this version.
    switch = tmp_path / "python3.11"
    switch.write_text("#!/bin/sh\necho 'python3.11: command not found' >&2; exit 127\n")
    switch.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(sys, "version_info", (3, 14, 0))
    assert main(["toolchain", "add", "ascend"]) == 2
    assert "ascend exists for Python 3.10 or 3.11 alone" in capsys.readouterr().err
    # The other version works.
    switch.rename(tmp_path / "python3.10").write_text("#!/bin/sh\necho 3.10.4\n")
    found = toolchain_install._python_for(toolchains.TOOLCHAINS["ascend"])
    assert found == str(tmp_path / "python3.10")


def test_the_compiler_tells_the_arches_that_it_compiles_for(
    data: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    compiler = data / "bishengir-compile"
    data.mkdir(parents=True)
    rows = (
        "    =Ascend910B1    -   Ascend910B1\n    =Ascend910_9599 -   x\n    =Ascend950PR_9579 - x"
    )
    compiler.write_text(f"#!/bin/sh\ncat <<'END'\n  --target=<value> - Target\n{rows}\nEND\n")
    compiler.chmod(0o755)
    monkeypatch.setattr(toolchains, "toolchain_program", lambda *_: compiler)
    assert toolchains.ascend_arches() == ("Ascend910B1",)
    with pytest.raises(SystemExit):
        main(["eval", "task", "--compile-report", "sm_90,Ascend310"])
    assert "'Ascend310' is not one of Ascend910B1" in capsys.readouterr().err


@pytest.mark.skipif(importlib.util.find_spec("ensurepip") is None, reason="venv needs ensurepip")
def test_a_real_environment_with_a_real_package_works_where_it_was_moved(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = {
        "tiny/bin/tool": "#!/bin/sh\necho tiny\n",
        "tiny/__init__.py": "ANSWER = 42\n",
        "tiny-1.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: tiny\nVersion: 1.0\n",
        "tiny-1.0.dist-info/WHEEL": "Wheel-Version: 1.0\nTag: py3-none-any\n",
    }
    with ZipFile(tmp_path / "tiny-1.0-py3-none-any.whl", "w") as wheel:
        for name, text in files.items():
            entry = ZipInfo(name)
            entry.external_attr = (0o100755 if name.endswith("tool") else 0o100644) << 16
            wheel.writestr(entry, text)
        wheel.writestr("tiny-1.0.dist-info/RECORD", "".join(f"{name},,\n" for name in files))
    tiny = toolchains.Toolchain(
        name="tiny", about="", pins=("tiny==1.0",), programs=("tiny/bin",), needed=("tool",),
        megabytes=0,
    )  # fmt: skip
    monkeypatch.setitem(toolchains.TOOLCHAINS, "tiny", tiny)
    settings = {"CONFIG_FILE": "/dev/null", "NO_INDEX": "1", "FIND_LINKS": str(tmp_path)}
    for name, value in settings.items():
        monkeypatch.setenv(f"PIP_{name}", value)
    toolchain_install.add("tiny", lambda _: None)
    tool = toolchains.toolchain_program("tiny", "tool")
    assert tool is not None
    assert subprocess.run([tool], check=True, capture_output=True).stdout == b"tiny\n"
    python = str(data / "tiny" / "bin" / "python")
    words = [python, "-I", "-c", "import tiny; print(tiny.ANSWER)"]
    assert subprocess.run(words, check=True, capture_output=True).stdout == b"42\n"
    own, prefix = toolchains.places("tiny")
    assert (own, prefix) == (str(data / "tiny"), sys.base_prefix)
