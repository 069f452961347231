"""Opens runs for the screen: watches, resumes or begins one, or makes the draft of the wizard.

`akg_tui.engine.run_service` begins and resumes runs; this module turns a fault of a request into
an error at a field of the wizard. The app awaits each function and shows the error. Draws nothing.
"""

from __future__ import annotations

import asyncio
import signal
import tempfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, cast

from akg_tui.core.sanitize import one_line
from akg_tui.core.task import Agent
from akg_tui.dsl.adapters import dsl_of
from akg_tui.engine import run_service
from akg_tui.engine.detached import COMMAND
from akg_tui.engine.run_service import Limits, RunFault, RunRequest
from akg_tui.engine.trust import note_made
from akg_tui.store.errors import StoreError
from akg_tui.view.language import retold, tr

if TYPE_CHECKING:
    from akg_tui.core.measurement import Measurement, Progress
    from akg_tui.core.phases import WorkflowName
    from akg_tui.engine.engine import Engine
    from akg_tui.engine.follower import Followed
    from akg_tui.store.run_folder import RunFolder
    from akg_tui.store.task_folder import TaskFolder


FITS = "auto"
"""The workflow of a draft that leaves it to the agent."""

MOST_READ = 1 << 18


def dsl_found(kernel: Path) -> str:
    """Return the DSL that a kernel's text is written in, by what it imports; "" if unknown."""
    try:
        with kernel.open("rb") as file:
            text = file.read(MOST_READ).decode(errors="replace")
    except OSError:
        return ""
    return dsl_of(text)


async def watched(path: Path, *, steer: bool) -> Followed:
    """Open a run that this process only follows."""
    from akg_tui.engine.follower import Followed

    return await asyncio.to_thread(Followed, path, steer=steer)


async def resumed(path: Path) -> Engine:
    """Resume a run at rest. Raises the errors of `run_service.resume`, and `Unfit`."""
    return await _opened(lambda: run_service.resume(path))


async def detached(path: Path, options: Sequence[str] = ()) -> None:
    """Let a run at rest go on in a detached engine. Raises `Unfit` with the reason if it cannot.

    A process of its own starts the engine, so that nothing that ends this terminal's processes ends
    the engine.
    """
    process = await asyncio.create_subprocess_exec(
        *(*COMMAND, "resume", str(path), "--detach", "--json", *options),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
        start_new_session=True,
    )
    _, errors = await process.communicate()
    if process.returncode:
        last = errors.decode("utf-8", "replace").strip().rpartition("\n")[2]
        raise Unfit("", retold(one_line(last.removeprefix("akg-tui: "), 1000)))


async def begun(request: RunRequest) -> Engine:
    """Begin a new run of a task. Raises the errors of `run_service.prepare`, and `Unfit`."""
    return await _opened(lambda: run_service.begin(run_service.prepare(request)))


async def _opened(opening: Callable[[], RunFolder]) -> Engine:
    try:
        return run_service.engine_for(await asyncio.to_thread(opening))
    except RunFault as fault:
        raise _at_field(fault) from fault


class Unfit(ValueError):
    """Raised if a task cannot be tuned here: the reason, translated, and the `field` at fault."""

    def __init__(self, field: str, why: str) -> None:
        super().__init__(why)
        self.field = field


def _at_field(fault: RunFault) -> Unfit:
    """Return a fault of a request as an error at a field of the wizard, in its words."""
    from akg_tui.agent.models.endpoint import KEY_VARIABLES

    match fault.field:
        case "times":
            why = tr("there is nothing to tune by: {why}", why=retold(fault.why))
            return Unfit("dsl", why)
        case "knobs":
            why = tr("sweep turns knobs and this kernel declares none, like  "
                     "BLOCK = 64  # tune: [32, 64, 128]  or let a model tune it")  # fmt: skip
            return Unfit("kernel", why)
        case "key":
            name = next(each for each in KEY_VARIABLES.values() if each in fault.why)
            why = tr("no key for {model}: name a file that holds it, or set {name} before you "
                     "start", model=fault.about, name=name)  # fmt: skip
            return Unfit("key", why)
        case "key_file":
            return Unfit("key", retold(fault.why))
    return Unfit(fault.field, retold(fault.why))


@dataclass(frozen=True)
class Draft:
    """The description of a task without a folder yet, and the settings of its first run.

    `reference`, `kernel` and `folder` are unchecked. Without a `kernel` one is made of the
    reference (`with_kernel`); only then `dsl` may be "".
    """

    reference: Path
    kernel: Path | None
    folder: Path
    backend: str = "cpu"
    dsl: str = "cpp"
    arch: str = ""
    agent: Agent = field(default_factory=Agent)
    max_cost: float | None = None
    mode: str = "auto"
    rounds: int = 20
    workflow: str = FITS

    @property
    def request(self) -> RunRequest:
        """The run to begin after the folder is written."""
        limits = Limits(max_rounds=self.rounds, max_cost_usd=self.max_cost)
        workflow = None if self.workflow == FITS else cast("WorkflowName", self.workflow)
        return RunRequest(
            self.folder, mode=self.mode, limits=limits, workflow=workflow, agent=self.agent
        )


async def with_kernel(draft: Draft, home: Path, tell: Callable[[str], None]) -> Draft:
    """Return the draft with the kernel that `akg-tui new` makes of its reference, below `home`.

    The command runs as a process of its own, which a cancellation ends; `tell` is called with each
    line of it. Raises `Unfit` with its fault.
    """
    from akg_tui.engine.trust import revoke
    from akg_tui.store.errors import StoreError
    from akg_tui.store.task_folder import load_task

    await asyncio.to_thread(_insist_on_room, draft.folder)
    folder = Path(tempfile.mkdtemp(dir=home)) / "task"
    words = ["new", str(folder), "--reference", str(draft.reference), "--backend", draft.backend]
    words += [f"--dsl={draft.dsl}"] if draft.dsl else []
    process = await asyncio.create_subprocess_exec(
        *(*COMMAND, *words, f"--arch={draft.arch}"),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None
    assert process.stderr is not None
    try:
        async for said in process.stdout:
            tell(said.decode("utf-8", "replace").strip())
        faults = (await process.stderr.read()).decode("utf-8", "replace").strip()
        code = await process.wait()
    finally:
        if process.returncode is None:
            process.send_signal(signal.SIGINT)
            await process.wait()
    if code != 0:
        why = faults.rpartition("\n")[2].removeprefix("akg-tui: ")
        raise Unfit("reference", retold(why))
    made = await asyncio.to_thread(load_task, folder)
    with suppress(StoreError):
        await asyncio.to_thread(revoke, folder)  # it is none of the user's folders
    return replace(draft, kernel=folder / made.task.files.kernel, dsl=made.task.target.dsl)


async def written(draft: Draft) -> RunRequest:
    """Make the task folder, as `akg-tui new` does. Raises `Unfit`."""

    def write() -> None:
        _task_of(draft, draft.folder)
        with suppress(StoreError):  # then a setting written into it later is asked about
            note_made(draft.folder)

    await asyncio.to_thread(write)
    return draft.request


def _task_of(draft: Draft, folder: Path) -> TaskFolder:
    """Write the draft as a task folder. Raises `Unfit` with a field of the draft."""
    from akg_tui.store.errors import BadTask
    from akg_tui.store.task_folder import write_task

    assert draft.kernel is not None
    if draft.reference == draft.kernel:
        raise Unfit("kernel", retold("is the reference too, expected another file"))
    try:
        return write_task(
            folder, reference=draft.reference, kernel=draft.kernel, backend=draft.backend,
            dsl=draft.dsl, arch=draft.arch,
        )  # fmt: skip
    except BadTask as error:
        by_file = {draft.kernel: "kernel", draft.reference: "reference"}
        named = error.field.rpartition(".")[2]
        at = by_file.get(error.path, named if named in ("backend", "dsl", "arch") else "folder")
        line = "" if error.line is None else tr("line {line}", line=error.line)
        told = (line, error.field, retold(error.message))
        raise Unfit(at, ": ".join(part for part in told if part)) from error


async def checked(draft: Draft, tell: Callable[[Progress], None]) -> Measurement:
    """Verify and time the kernel once against the reference, in a temporary folder.

    Raises
    ------
    Unfit
        If a file cannot be used, the machine cannot time such kernels, or the agent lacks
        knobs, a key or a price.
    """
    from akg_tui.evaluate import Judge
    from akg_tui.evaluate.targets.lease import claim
    from akg_tui.evidence.compile_gate import refusal

    scratch = tempfile.TemporaryDirectory(prefix="akg-check-", ignore_cleanup_errors=True)

    def prepared() -> TaskFolder:
        _insist_on_room(draft.folder)
        loaded = _task_of(draft, Path(scratch.name) / "task")
        try:
            run_service.check_target(loaded.task, loaded.path)
            run_service.prepare(replace(draft.request, folder=loaded.path))
        except RunFault as fault:
            raise _at_field(fault) from fault
        return loaded

    try:
        loaded = await asyncio.to_thread(prepared)
        home = Path(scratch.name) / "scratch"
        held = claim(loaded.task, f"check of {loaded.task.op}")
        judge = Judge(
            loaded.task, loaded.reference, home, on_progress=tell, gate=refusal, lease=held
        )
        try:
            return await judge.evaluate(loaded.kernel, None)
        finally:
            await judge.close()
    finally:
        await asyncio.to_thread(scratch.cleanup)


def _insist_on_room(folder: Path) -> None:
    """Raise `Unfit` if no task folder can be made here."""
    try:
        full = folder.exists() and any(folder.iterdir())
    except OSError as error:
        raise Unfit("folder", retold(error.strerror or str(error))) from error
    if full:
        raise Unfit("folder", retold("has files in it, expected a new or an empty folder"))
