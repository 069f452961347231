"""What `make demo` and `make test` install, and from where."""

import os
import shutil
import socket
import socketserver
import ssl
import subprocess
import sys
import threading
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

import install

ROOT = Path(install.__file__).parent
UV = Path(sys.executable).with_name("uv")
NETWORK = ("HTTPS_PROXY", "https_proxy", "ALL_PROXY", "SSL_CERT_FILE", "SSL_CERT_DIR")

needs_uv = pytest.mark.skipif(not UV.exists(), reason="uv is not in .venv: make setup")


def uv(*command: str, given: str = "", **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [UV, *command], env=environment, input=given, capture_output=True, text=True, check=False
    )


# The pins hold on the public index


@pytest.fixture(scope="module")
def public(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The environment of a machine that knows the public index alone; skips where that is away.

    Of this machine it has how to reach the network, and uv's cache.
    """
    network = {name: os.environ[name] for name in NETWORK if name in os.environ}
    if "PIP_CERT" in os.environ:
        network.setdefault("SSL_CERT_FILE", os.environ["PIP_CERT"])
    home = str(tmp_path_factory.mktemp("home"))
    cache = uv("cache", "dir", **os.environ).stdout.strip()
    alone = network | {"HOME": home, "PATH": os.defpath, "UV_CACHE_DIR": cache}
    reached = uv("pip", "compile", "--no-config", "-", given="iniconfig", **alone)
    if reached.returncode != 0:
        pytest.skip(f"the public package index cannot be reached: {reached.stderr.strip()}")
    return alone


def resolved(
    constraints: Path, python: str, environment: dict[str, str]
) -> subprocess.CompletedProcess[str]:
    """What uv finds for everything the project offers: versions, from metadata alone."""
    target = ("--python", sys.executable, "--python-version", python, "--python-platform", "linux")
    wheels = ("--no-config", "--only-binary", ":all:", "--constraint", str(constraints))
    return uv(
        *("pip", "compile", *target, *wheels, "--all-extras", str(ROOT / "pyproject.toml")),
        **environment,
    )


@needs_uv
@pytest.mark.parametrize("python", ["3.11", "3.13"])
def test_the_pins_and_all_extras_resolve_on_the_public_index(
    public: dict[str, str], python: str
) -> None:
    found = resolved(ROOT / "constraints.txt", python, public)
    assert found.returncode == 0, found.stderr


@needs_uv
def test_a_pin_that_torch_does_not_take_is_found(public: dict[str, str], tmp_path: Path) -> None:
    pins = (ROOT / "constraints.txt").read_text("utf-8").splitlines()
    wrong = tmp_path / "constraints.txt"
    wrong.write_text(
        "\n".join("triton==3.9.0" if pin.startswith("triton==") else pin for pin in pins)
    )
    found = resolved(wrong, "3.11", public)
    assert found.returncode == 1
    assert "triton" in found.stderr


# Where packages come from


def wheel(folder: Path, name: str, version: str) -> Path:
    """A package without a module: what a fake index offers."""
    path = folder / f"{name}-{version}-py3-none-any.whl"
    info = f"{name}-{version}.dist-info"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(
            f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
        )
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        archive.writestr(f"{info}/RECORD", "")
    return path


@needs_uv
def test_uv_takes_packages_from_where_pips_own_settings_say(tmp_path: Path) -> None:
    links = tmp_path / "links"
    links.mkdir()
    wheel(links, "akg_settings", "1.0")
    wheel(links, "akg_settings", "2.0")
    cap = tmp_path / "cap.txt"
    cap.write_text("akg_settings<2\n")
    settings = tmp_path / "pip.conf"
    settings.write_text(
        f"[global]\nfind-links = /nowhere\nno-index = true\n[install]\nconstraint = {cap}\n"
    )
    listed = subprocess.run(
        [sys.executable, "-m", "pip", "config", "list"],
        env={"PIP_CONFIG_FILE": str(settings), "PIP_FIND_LINKS": str(links), "PIP_CERT": "/ca"},
        capture_output=True,
        text=True,
        check=True,
    )
    options, more = install.as_uv(listed.stdout)
    assert more == {"SSL_CERT_FILE": "/ca"}
    found = uv(
        *("pip", "compile", "--no-config", *options, "-"), given="akg_settings", **os.environ
    )
    assert "akg-settings==1.0" in found.stdout, found.stderr


class FakeIndex(socketserver.StreamRequestHandler):
    """A proxy behind which a fake of PyTorch's index lies: one page, one wheel."""

    files: dict[str, bytes]
    tls: ssl.SSLContext

    def handle(self) -> None:
        self.request_line()
        self.wfile.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        with self.tls.wrap_socket(self.request, server_side=True) as self.request:
            self.setup()
            path = self.request_line().split()[1]
            body = self.files.get(path.rpartition("/whl/cpu/torch/")[2], b"")
            status = b"200 OK" if body else b"404 Not Found"
            kind = b"Content-Type: text/html\r\nConnection: close\r\n"
            length = b"Content-Length: %d\r\n" % len(body)
            self.wfile.write(b"HTTP/1.1 " + status + b"\r\n" + kind + length + b"\r\n" + body)

    def request_line(self) -> str:
        first = line = self.rfile.readline()
        while line.strip():
            line = self.rfile.readline()
        return first.decode()


@pytest.fixture
def pytorch(tmp_path: Path) -> Iterator[dict[str, str]]:
    """The environment in which PyTorch's index is a fake that offers torch 2.13.0+cpu."""
    if not shutil.which("openssl"):
        pytest.skip("no openssl here, which makes the certificate of the fake index")
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    of = ("-subj", "/CN=fake", "-addext", "subjectAltName=DNS:download.pytorch.org")
    new = ("-newkey", "rsa:2048", "-nodes", "-days", "2", "-addext", "basicConstraints=CA:FALSE")
    subprocess.run(
        ("openssl", "req", "-x509", *new, *of, "-keyout", key, "-out", certificate),
        check=True,
        capture_output=True,
    )
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(certificate, key)
    offered = wheel(tmp_path, "torch", "2.13.0+cpu")
    page = f'<a href="{offered.name.replace("+", "%2B")}">{offered.name}</a>'.encode()
    files = {"": page, offered.name.replace("+", "%2B"): offered.read_bytes()}
    handler = type("Handler", (FakeIndex,), {"files": files, "tls": tls})
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,)).start()
        proxy = f"http://127.0.0.1:{server.server_address[1]}"
        yield {"SSL_CERT_FILE": str(certificate), "HTTPS_PROXY": proxy}
        server.shutdown()


def torch_in(folder: Path, environment: dict[str, str]) -> tuple[bool, list[str]]:
    """Ask for the CPU build in a new environment; whether it came, and what is there then."""
    venv = folder / "venv"
    uv("venv", "--python", sys.executable, str(venv), **os.environ)
    command = (str(UV), "pip", "install", "--no-cache", "--python", str(venv / "bin" / "python"))
    came = install.cpu_torch_with_uv(command, environment)
    return came, [path.name for path in venv.glob("lib/*/site-packages/torch-*")]


@needs_uv
def test_torch_for_the_cpu_comes_from_the_index_of_pytorch(
    pytorch: dict[str, str], tmp_path: Path
) -> None:
    assert torch_in(tmp_path, pytorch) == (True, ["torch-2.13.0+cpu.dist-info"])


@needs_uv
def test_an_index_of_pytorch_that_is_away_is_given_up_within_seconds(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        proxy = f"http://127.0.0.1:{closed.getsockname()[1]}"
    assert torch_in(tmp_path, {"HTTPS_PROXY": proxy}) == (False, [])


def test_an_older_python_is_told_which_one_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "version_info", (3, 10, 12))
    told = install.main()
    assert "needs Python 3.11 or later" in str(told)
    assert "make demo PYTHON=python3.11" in str(told)
