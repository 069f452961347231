"""A local Ray cluster for suites: started, looked at, and ended by the processes that were noted.

`ray stop` ends every Ray process of the machine; this ends those of the fleet alone.
"""

from __future__ import annotations

import contextlib
import logging
import os
import secrets
import signal
import socket
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from akg_tui.core.sanitize import one_line
from akg_tui.store.errors import RunFolderError, writing
from akg_tui.store.filesystem import replace_file
from akg_tui.store.lock import identity

START_S = 120.0
END_S = 60.0
"""Ray lets a node drain for half a minute."""

LOOK_S = 0.2
NOTE = "fleet.json"
FLEET = "fleet"
"""The word for the address of the running fleet."""


class FleetFault(RunFolderError):
    """A fleet cannot be started or there is none; the message says what to do."""


class Fleet(Struct, frozen=True):
    """A running fleet: its address, the identity of each node's process, and its secret.

    Whoever has the token can run anything on the nodes.
    """

    address: str
    nodes: tuple[str, ...]
    token: str


def state_folder() -> Path:
    """Return the folder of the fleet's note and logs."""
    base = os.environ.get("XDG_STATE_HOME") or str(Path.home() / ".local" / "state")
    return Path(base) / "akg-tui" / "fleet"


def running(folder: Path) -> Fleet | None:
    """Return the fleet that is up, or None."""
    try:
        fleet = msgspec.json.decode((folder / NOTE).read_bytes(), type=Fleet)
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    return fleet if any(_alive(node) for node in fleet.nodes) else None


def _alive(node: str) -> bool:
    with contextlib.suppress(OSError, ValueError, IndexError):
        return identity(int(node.split(maxsplit=1)[0])) == node
    return False


def up(folder: Path, *, nodes: int, cpus: int | None) -> Fleet:
    """Start a head and further nodes on this machine; return when all have joined.

    Raises `FleetFault` if Ray is missing, a fleet is up, or a node does not start.
    """
    if find_spec("ray") is None:
        raise FleetFault("a fleet needs Ray: pip install 'akg-tui[ray]'")
    if known := running(folder):
        raise FleetFault(f"a fleet is up at {known.address}; end it with: akg-tui fleet down")
    with writing(folder):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    address = f"127.0.0.1:{_free_port()}"
    each = [] if cpus is None else [f"--num-cpus={cpus}"]
    head = ["--head", f"--port={address.rpartition(':')[2]}", "--include-dashboard=false"]
    began: list[str] = []
    token = secrets.token_hex(32)
    try:
        for number in range(nodes):
            where = head if number == 0 else [f"--address={address}"]
            log = folder / f"node-{number}.log"
            began.append(_started([*where, *each, "--node-ip-address=127.0.0.1"], log, token))
            fleet = Fleet(address, tuple(began), token)
            with writing(folder):  # the folder is the user's alone, and so is the token
                replace_file(folder / NOTE, msgspec.json.encode(fleet))
            _await_start(address, began[-1], log, number + 1)
    except BaseException:
        _end(began)
        raise
    return fleet


def down(folder: Path) -> int:
    """End the fleet's processes; return how many nodes it had. Raises `FleetFault`."""
    fleet = running(folder)
    if fleet is None:
        raise FleetFault("no fleet is up; start one with: akg-tui fleet up")
    _end(list(fleet.nodes))
    (folder / NOTE).unlink(missing_ok=True)
    return len(fleet.nodes)


def status(folder: Path) -> tuple[Fleet, list[dict[str, Any]]]:
    """Return the fleet and its nodes as Ray tells them. Raises `FleetFault`."""
    fleet = running(folder)
    if fleet is None:
        raise FleetFault("no fleet is up; start one with: akg-tui fleet up")
    ray = join(fleet.address, folder)
    try:
        return fleet, [
            {"node": n["NodeID"], "alive": n["Alive"], "resources": n["Resources"]}
            for n in ray.nodes()
        ]
    finally:
        ray.shutdown()


def join(address: str, folder: Path) -> Any:
    """Join the cluster at an address, `fleet` for the running one; return the module of Ray.

    Raises `FleetFault` if Ray is missing, or there is no cluster of which this machine is a node.
    """
    if find_spec("ray") is None:
        raise FleetFault(f"--ray-address {address}: needs Ray: pip install 'akg-tui[ray]'")
    fleet = running(folder)
    if address == FLEET:
        if fleet is None:
            raise FleetFault("no fleet is up; start one with: akg-tui fleet up")
        address = fleet.address
    if fleet is not None and address == fleet.address:
        os.environ.update(_with_token(fleet.token))
    import ray

    try:
        ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR)
    except (ConnectionError, ValueError, RuntimeError) as error:
        told = f"{address}: {one_line(str(error), 200)}"
        raise FleetFault(f"{told}; is it up, and is this machine one of its nodes?") from error
    return ray


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _with_token(token: str) -> dict[str, str]:
    """Return the variables by which Ray's processes let nobody in without the token."""
    return {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": token}


def _started(options: list[str], log: Path, token: str) -> str:
    """Start a node in a session of its own; return the identity of its process."""
    command = [sys.executable, "-P", "-m", "ray.scripts.scripts", "start", "--block", *options]
    with writing(log), log.open("wb") as out:
        process = subprocess.Popen(
            [*command, "--disable-usage-stats"],
            env={**os.environ, **_with_token(token)},
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            start_new_session=True,
        )
    return identity(process.pid)


def _await_start(address: str, node: str, log: Path, count: int) -> None:
    """Wait until the cluster has `count` nodes. Raises `FleetFault` with the log's last line."""
    stop = time.monotonic() + START_S
    host, _, port = address.partition(":")
    while _alive(node) and time.monotonic() < stop:
        time.sleep(LOOK_S)
        with contextlib.suppress(OSError), socket.create_connection((host, int(port)), 1):
            if b"Ray runtime started" in log.read_bytes():
                return
    last = log.read_text("utf-8", "replace").strip().rpartition("\n")[2]
    raise FleetFault(f"node {count} did not start: {one_line(last, 200)} ({log})")


def _end(nodes: list[str]) -> None:
    """End the nodes, the last one first: the head when the others are gone."""
    for node in reversed(nodes):
        if not _alive(node):
            continue
        pid = int(node.split(maxsplit=1)[0])
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGTERM)
        stop = time.monotonic() + END_S
        while _alive(node) and time.monotonic() < stop:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)
            time.sleep(LOOK_S)
        if _alive(node):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(pid, signal.SIGKILL)
