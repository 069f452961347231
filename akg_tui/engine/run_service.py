"""Begins and resumes runs: a typed request is checked and becomes a run folder and an engine.

The command line, the wizard and the list of runs all use it. A fault names the field of the
request; the caller maps the field to an option or input. A setting of a folder that acts outside
the sandbox is checked before it takes effect (`akg_tui.engine.trust`). Model, judge and git are
imported only when a run is opened, so that checking a request does not delay the first frame.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import defstruct
from msgspec.structs import replace

from akg_tui import __version__
from akg_tui.core.phases import TUNE, WRITE_THEN_TUNE, BadWorkflow, Mode, Phase
from akg_tui.core.sanitize import Said
from akg_tui.core.stopping.automation import AutomationPolicy
from akg_tui.core.stopping.export_guard import Channel
from akg_tui.core.stopping.goals import Goal, unmeasured
from akg_tui.core.stopping.limit_table import LIMITS, WHOLE
from akg_tui.core.stopping.limits import with_limits
from akg_tui.core.task import (
    AGENT_FILES,
    MCP,
    SWEEP,
    Act,
    Agent,
    Policy,
    Task,
    is_makers,
)
from akg_tui.engine.trust import Untrusted, acts_in, allow, insist, may_have_own_key
from akg_tui.store.errors import BadTask, RunFolderError, StoreError
from akg_tui.store.task_folder import TASK_FILE, TaskFolder, load_task
from akg_tui.store.task_toml import BadAgent, stated_agent

if TYPE_CHECKING:
    from akg_tui.agent.chat import ChatModel
    from akg_tui.agent.driver import Driver
    from akg_tui.agent.tools.declaration import Tools
    from akg_tui.core.measurement import Progress
    from akg_tui.engine.engine import Engine, Evaluator
    from akg_tui.store.run_folder import RunFolder

DRIVEN = "use akg-tui mcp: an MCP client drives it"
SAMPLES = Path("akg-demo")  # bundled samples are copied below this folder


class RunFault(ValueError):
    """A run cannot begin or resume. `field` is the part of the request at fault, `why` the reason,
    `about` the file, task folder or model concerned.

    Besides settings of the agent, a field is one of: `backend`, `dsl` (they cannot run here),
    `times` (the DSL's kernels cannot be timed), `estimate` (none is made), `workflow` (the
    agent cannot follow it), `kernel` (a knob is wrong), `knobs` (there is none), `api` (its SDK is
    missing), `key` (there is none), `key_file` (the key is wrong), `cost` (the model has no
    price), `driver` (the run needs one), `packages` (an earlier run has tools of some), `settles`
    (an earlier run measures a shortlist), `limits`, `goals` (about the position of a stated goal),
    `finished` (the run's reason), and `require_sandbox` or, where the task demands it, `sandbox`
    (the protections that are missing).
    """

    def __init__(self, field: str, why: str, about: object = "") -> None:
        super().__init__(why)
        self.field = field
        self.why = why
        self.about = about


_Stated = defstruct(
    "_Stated",
    [(each.field, (int if each.unit in WHOLE else float) | None, None) for each in LIMITS],
    frozen=True,
    kw_only=True,
)


class Limits(_Stated, frozen=True, kw_only=True):  # type: ignore[call-arg, misc, valid-type]
    """Limits that a person states, by their fields. One that is None is as in the task or the run.

    `automation` is the whole of a policy file; the other limits override it. `more_rounds` is
    relative to a run, and overrides `max_rounds`.
    """

    more_rounds: int | None = None
    goals: tuple[Goal, ...] | None = None
    automation: AutomationPolicy | None = None

    def over(self, policy: Policy) -> Policy:
        """Return `policy` overridden by these limits."""
        if self.automation is not None:
            policy = replace(policy, automation=self.automation)
        values = {each: getattr(self, each.field) for each in LIMITS}
        stated = {each: value for each, value in values.items() if value is not None}
        goals = {} if self.goals is None else {"goals": self.goals}
        return with_limits(policy, stated, **goals)


@dataclass(frozen=True)
class RunRequest:
    """A run to begin: of a task folder, or of a bundled `sample` copied below `folder`.

    `agent` replaces the task's agent; `settings` of the agent override both. `workflow` is the
    task's unless stated; without either, the one that fits the agent. With `trust` the user allows
    what the folder does outside the sandbox. Without `own_settings` the settings are not the user's
    own, but a file's.
    """

    folder: Path
    sample: str = ""
    mode: str = "auto"
    limits: Limits = field(default_factory=Limits)
    workflow: str | None = None
    agent: Agent | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    require_sandbox: bool = False
    driven: bool = False
    trust: bool = False
    own_settings: bool = True


@dataclass(frozen=True)
class PreparedRun:
    """A checked request: the folder as read, and the task with the stated settings.

    `place` is the folder that the run will be created in, or the copy of it still to be made.
    `allowed` is what the run does outside the sandbox, as the user has stated or allowed.
    """

    folder: TaskFolder
    task: Task
    mode: Mode
    place: Path
    allowed: frozenset[Act] = frozenset()


def prepare(request: RunRequest) -> PreparedRun:
    """Read a task and check the request, without writing anything.

    Raises
    ------
    RunFault
        If the request cannot be met; see also `check_target`, which `begin` calls.
    Untrusted
        If the folder's settings act outside the sandbox, which the user has not allowed.
    BadTask, akg_tui.agent.tools.BadTools
        If the task folder or its tools cannot be used.
    """
    from akg_tui.resources import sample

    place = origin = request.folder
    if request.sample:
        place = origin = place / SAMPLES / request.sample
        if not os.path.exists(place / TASK_FILE):  # noqa: PTH110 - False where it can't be seen
            origin = sample(request.sample)
    files = {name: request.settings[name] for name in AGENT_FILES if name in request.settings}
    folder = load_task(origin, request.workflow, files)
    task = replace(folder.task, policy=request.limits.over(folder.task.policy))
    _check_goals(request.limits, task)
    check_sandbox(task, required=request.require_sandbox)
    if request.require_sandbox:
        task = replace(task, sandbox=replace(task.sandbox, require=True))
    settings = {**request.settings, "model": MCP} if request.driven else request.settings
    try:
        task = replace(task, agent=stated_agent(request.agent or task.agent, settings))
    except BadAgent as error:
        raise RunFault(error.setting, error.why) from None
    fields = Agent.__struct_fields__ if request.agent else settings
    stated = frozenset(fields if request.own_settings else ())
    insist(folder.path, acts_in(task.agent, folder.tools, stated), trust=request.trust)
    allowed = frozenset(acts_in(task.agent, folder.tools))
    server = task.agent.base_url
    named = "base_url" in stated
    if server and (named or (not request.own_settings and may_have_own_key(folder.path, server))):
        allowed |= {Act("own-key", server)}
    texts = tuple((folder.path / name, text) for name, text in folder.tools)
    tools = _check_tools(texts, task.agent)
    if task.agent.model == MCP and not request.driven:
        raise RunFault("driver", DRIVEN, place)
    task = replace(task, workflow=_workflow(task))
    _check_table(folder, task, texts)
    _check_estimate(task)
    check_agent(task, folder, allowed)
    for model in {tool.declared.model for tool in tools.values() if tool.declared} - {""}:
        _check_price(task.policy, stated_agent(task.agent, {"model": model}).model)
    return PreparedRun(folder, task, Mode(request.mode), place, allowed)


def _workflow(task: Task) -> str:
    """Return the workflow of a new run: the stated one, or the one that fits the agent."""
    searches = task.agent.model == SWEEP
    if searches and Phase.WRITE in task.phases.rows:
        name = task.workflow
        why = Said("{name}: the sweep agent cannot write a kernel; name a model", name=name)
        raise RunFault("workflow", why)
    return task.workflow or (TUNE.name if searches else WRITE_THEN_TUNE.name)


def _check_table(folder: TaskFolder, task: Task, texts: tuple[tuple[Path, str], ...]) -> None:
    """Raise `BadTask` if the task's own phase table names tools that a phase does not have."""
    if task.table is None or not any(row.tools for row in task.table.rows.values()):
        return
    from akg_tui.agent.tools.registry import check_tools, tools_with
    from akg_tui.store.user_files.reader import toml_at

    try:
        check_tools(task.table, tools_with(texts))
    except BadWorkflow as error:
        file = toml_at(folder.path / task.table.name, BadTask)
        raise file.bad(error.at, error.why) from None


def begin(prepared: PreparedRun) -> RunFolder:
    """Create the run. Raises `RunFault` if kernels cannot be timed here, and `StoreError`."""
    folder = prepared.folder
    check_target(prepared.task, folder.path)
    if prepared.place != folder.path:
        folder = _copied(folder.path, prepared.place)
    return create_run(folder, prepared.task, prepared.mode, allowed=prepared.allowed)


def _copied(origin: Path, place: Path) -> TaskFolder:
    """Copy a sample to `place`, whole or not at all, and through no link that lies there."""
    import shutil
    import tempfile

    from akg_tui.store.filesystem import make_folder

    ignored = shutil.ignore_patterns("runs", "__pycache__")
    try:
        make_folder(place.parent.parent, place.parent.name)
        with tempfile.TemporaryDirectory(dir=place.parent, ignore_cleanup_errors=True) as made:
            copied = shutil.copytree(origin, Path(made) / place.name, ignore=ignored)
            copied.rename(place)
    except OSError as error:
        raise RunFolderError(
            "cannot write {path}: {why}", path=place, why=error.strerror
        ) from error
    return load_task(place)


def create_run(
    folder: TaskFolder,
    task: Task,
    mode: Mode,
    name: str = "",
    *,
    allowed: frozenset[Act] = frozenset(),
) -> RunFolder:
    """Create a run of `task` (the folder's, with the stated settings). Raises `StoreError`.

    Its name is `name`, or the time and the task's. The acts that are `allowed` are remembered, so
    that the user is not asked again when the run is resumed.
    """
    from akg_tui.store.run_folder import RunFolder

    run = RunFolder.create(
        folder,
        task=task,
        mode=mode,
        agent=task.agent.model,
        version=__version__,
        clock=time.time,
        name=name or f"{datetime.now(UTC):%Y%m%d-%H%M%S}-{_short_name(task.op)}",
    )
    run.allowed = allowed
    with contextlib.suppress(StoreError):  # then `resume` asks, and says what is in the way
        allow(folder.path, sorted(allowed, key=str))
    return run


def _short_name(op: str) -> str:
    """Return the part of `op` that fits in a file name (255 bytes) with what is put around it."""
    return op.encode()[:200].decode(errors="ignore")


def resume(
    path: Path,
    limits: Limits | None = None,
    mode: str | None = None,
    *,
    require_sandbox: bool = False,
    trust: bool = False,
    allowed: frozenset[Act] = frozenset(),
) -> RunFolder:
    """Open a run for work, with new limits and a new mode where they are stated.

    What the run does outside the sandbox is `allowed`, or it must be trusted; with `trust` the user
    allows it now.

    Raises
    ------
    RunFault
        If this machine cannot resume it, or if it is over and the stated limits do not let it go
        on.
    Untrusted
        If the run acts outside the sandbox, which the user has not allowed.
    StoreError, akg_tui.agent.tools.BadTools
        If the run cannot be opened.
    """
    from akg_tui.agent.tools.registry import TASK, task_files

    run = open_trusted(path, trust=trust, allowed=allowed)
    with _closed_unless_done(run):
        task = run.state.task
        _check_tools(task_files(run.path / TASK, task), task.agent)
        limits = limits or Limits()
        if not run.state.finished or limits != Limits():
            if run.state.settles is not None:
                raise RunFault("settles", "a run that settles a shortlist is not gone on with")
            check_target(task, run.path / TASK)
        check_sandbox(task, required=require_sandbox)
        _change(run, limits, mode)
    return run


@contextlib.contextmanager
def _closed_unless_done(run: RunFolder) -> Iterator[None]:
    """Close the run if the block fails."""
    with contextlib.ExitStack() as failed:
        failed.callback(run.close)
        yield
        failed.pop_all()


def open_trusted(
    path: Path, *, trust: bool = False, allowed: frozenset[Act] = frozenset()
) -> RunFolder:
    """Open a run that the user trusts; `trust` and `allowed` as in `resume`, and its errors."""
    from akg_tui.store.run_folder import RunFolder

    run = RunFolder.open(path)
    with _closed_unless_done(run):
        acts = _acts_of_run(run)
        insist(path, tuple(act for act in acts if act not in allowed), trust=trust)
        run.allowed = allowed | frozenset(acts)
        server = run.state.task.agent.base_url
        if server and may_have_own_key(path, server):
            run.allowed |= {Act("own-key", server)}
    return run


def _acts_of_run(run: RunFolder) -> tuple[Act, ...]:
    """Return what a run does outside the sandbox, by its journal and its copy of the task."""
    from akg_tui.agent.tools.registry import TASK, task_files

    files = task_files(run.path / TASK, run.state.task)
    return acts_in(run.state.task.agent, [(path.name, text) for path, text in files])


def _change(run: RunFolder, limits: Limits, mode: str | None) -> None:
    """Journal the stated limits and mode; they override those of the run.

    A run that is over goes on if limits are stated.
    """
    from akg_tui.core import commands as cmd
    from akg_tui.core.decide import Rejected, decide
    from akg_tui.core.events import COMMAND_LINE
    from akg_tui.core.stopping.limits import more_rounds

    state = run.state
    if state.finished and limits == Limits():
        if mode:
            raise RunFault("finished", state.finished)
        return
    _check_goals(limits, state.task)
    policy = limits.over(state.task.policy)
    if limits.more_rounds is not None:
        policy = replace(policy, max_rounds=more_rounds(state, limits.more_rounds))
    if state.finished or policy != state.task.policy:
        changes = cmd.GoOn if state.finished else cmd.ChangePolicy
        decided = decide(state, changes(policy, COMMAND_LINE), time.time())
        if isinstance(decided, Rejected):
            raise RunFault("limits", decided.why)
        for event in decided:
            run.append(event)
    if mode:
        decided = decide(run.state, cmd.SetMode(Mode(mode), COMMAND_LINE), time.time())
        for event in () if isinstance(decided, Rejected) else decided:  # rejected: it has that mode
            run.append(event)


def _check_goals(limits: Limits, task: Task) -> None:
    """Raise `RunFault` if a goal that was typed is on a metric that the task does not measure."""
    for at, goal in enumerate(limits.goals or ()):
        if why := unmeasured(goal, task.metrics):
            raise RunFault("goals", why, at)


def check_sandbox(task: Task, *, required: bool = False) -> None:
    """Raise `RunFault` if caller or task require the sandbox and a protection is missing.

    The check forks, so a worker thread skips it; the evaluation itself then refuses.
    """
    on_main = threading.current_thread() is threading.main_thread()
    if not (required or task.sandbox.require) or not on_main:
        return
    from akg_tui.evaluate.sandbox.protections import missing, offered

    if lost := missing(offered()):
        raise RunFault("require_sandbox" if required else "sandbox", ", ".join(map(str, lost)))


def _check_estimate(task: Task) -> None:
    """Raise `RunFault` for a task, or a run of an earlier version, that ranks by estimates."""
    if task.estimate:
        raise RunFault("estimate", "kernels are not ranked by an estimate: only times decide")


def check_target(task: Task, path: Path) -> None:
    """Raise `RunFault` unless this machine can evaluate the kernels of the task at `path`."""
    from akg_tui.evaluate.targets.adapters import adapters, target_lacking

    _check_estimate(task)
    target, dsl = adapters(task)
    if why := target_lacking(target, dsl):
        raise RunFault("backend", why)
    if why := dsl.lacking(target.name):
        raise RunFault("dsl", why)
    # A kernel that is only to be correct needs no times.
    if Phase.EVAL in task.phases.rows and (why := dsl.untimed(target.name)):
        raise RunFault("times", why, path)


def check_agent(task: Task, folder: TaskFolder, allowed: frozenset[Act]) -> None:
    """Raise `RunFault` unless the task's agent can begin: with knobs, a key, a price."""
    path = folder.path / task.files.kernel
    if task.agent.model == SWEEP:
        from akg_tui.core.kernel.knobs import HOW_TO_DECLARE, BadKnob, knobs_in

        try:
            if not knobs_in(folder.kernel):
                raise RunFault("knobs", HOW_TO_DECLARE, path)
        except BadKnob as error:
            raise RunFault("kernel", str(error), path) from error
    elif task.agent.model != MCP:
        from akg_tui.agent.models.endpoint import (
            KEY_VARIABLES,
            KeyMissing,
            endpoint_of,
            sdk_missing,
        )

        own = is_own_server(task.agent, allowed)

        if why := sdk_missing(task.agent.api):
            raise RunFault("api", why)
        try:
            endpoint_of(task.agent, os.environ, own_server=own)
        except KeyMissing as error:
            name = KEY_VARIABLES[task.agent.api]
            given = task.agent.api_key_file or os.environ.get(name, "").strip()
            field = "key_file" if given else "key"
            raise RunFault(field, str(error), task.agent.model) from error
    _check_price(task.policy, task.agent.model)


def is_own_server(agent: Agent, allowed: frozenset[Act]) -> bool:
    """Return whether the agent's server is its API maker's, or one that the user has named."""
    server = agent.base_url
    return not server or is_makers(server, agent.api) or Act("own-key", server) in allowed


def _check_price(policy: Policy, model: str) -> None:
    """Raise `RunFault` if the policy limits the cost and the model has no price."""
    from akg_tui.core.model_info import policy_fault

    if fault := policy_fault(policy, model):
        raise RunFault("cost", fault)


def _check_tools(files: tuple[tuple[Path, str], ...], agent: Agent) -> Tools:
    """Return the tools of a task with these files; none, unread, where it has none of its own."""
    if agent.packages:
        why = Said(
            "tools of installed packages ({names}) are not taken any more: put their functions "
            "into a Python file of the task and name it under [agent] functions",
            names=", ".join(agent.packages),
        )
        raise RunFault("packages", why)
    if not files:
        return {}
    from akg_tui.agent.tools.registry import tools_with

    return tools_with(files)


def engine_for(
    run: RunFolder,
    channel: Channel = "ui",
    *,
    key_file: str = "",
    driver: Driver | None = None,
    memory: bool = True,
) -> Engine:
    """Return an engine for an open run; close the run if that fails.

    `channel` is where a person follows the run; `key_file` overrides the key file that the run's
    task names. With a `driver` a client makes the calls of the run's agent, whichever it has.
    Without `memory` it neither recalls other runs nor is learned.

    Raises `RunFault` when the run's model needs a key or a driver and there is none, and
    `Untrusted` when the run may not do what it does outside the sandbox.
    """
    from akg_tui.agent.context import Context
    from akg_tui.agent.machine import describe
    from akg_tui.agent.models.endpoint import KeyMissing
    from akg_tui.agent.prompt import system_text
    from akg_tui.engine.engine import Engine
    from akg_tui.engine.run_memory import memory_of_runs
    from akg_tui.engine.run_report import reporter
    from akg_tui.evidence.asking import evidence
    from akg_tui.store.context_files import context_listing
    from akg_tui.store.run_folder import TASK

    task = run.state.task
    if key_file:
        task = replace(task, agent=replace(task.agent, api_key_file=key_file))
    searches = task.agent.model == SWEEP and driver is None
    opened = partial(model_of, allowed=run.allowed)
    with _closed_unless_done(run):
        if missing := tuple(act for act in _acts_of_run(run) if act not in run.allowed):
            raise Untrusted(run.path, missing)
        if task.agent.model == MCP and driver is None:
            raise RunFault("driver", DRIVEN, run.path)
        files = context_listing(run.path / TASK)
        rules = "" if searches else system_text(task, run.reference, files)
        recall, learner = memory_of_runs() if memory else (None, None)
        try:
            model = driver or opened(task)
        except KeyMissing as error:
            raise RunFault("key", str(error), task.agent.model) from error
        engine = Engine(
            run,
            model,
            partial(_judge, run),
            context=Context(rules, budget=task.agent.context_tokens),
            reporter=reporter(channel),
            describe=describe,
            open_model=lambda name: opened(
                replace(task, agent=stated_agent(task.agent, {"model": name}))
            ),
            recall=recall,
            learner=learner,
            inspect=evidence,
        )
    engine.resume_options = ("--api-key-file", key_file) if key_file else ()
    return engine


def model_of(task: Task, allowed: frozenset[Act]) -> ChatModel:
    """Return the model of a task's agent, which gets the environment's key if that is allowed.

    Raises `akg_tui.agent.models.endpoint.KeyMissing`.
    """
    if task.agent.model == SWEEP:
        from akg_tui.agent.models.sweep import Sweep

        return Sweep(task.agent.seed)
    from akg_tui.agent.models.endpoint import endpoint_of
    from akg_tui.agent.models.served import Served

    own = is_own_server(task.agent, allowed)
    return Served(task.agent, endpoint_of(task.agent, os.environ, own_server=own))


def _judge(run: RunFolder, on_progress: Callable[[Progress], None]) -> Evaluator:
    from akg_tui.evaluate import Judge
    from akg_tui.evaluate.targets.lease import claim
    from akg_tui.evidence.compile_gate import refusal

    task = run.state.task
    scratch = run.path / "scratch"
    lease = claim(task, f"run {run.path.name}", run.path)
    return Judge(task, run.reference, scratch, on_progress=on_progress, lease=lease, gate=refusal)
