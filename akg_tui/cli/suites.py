"""The commands on suites: run many tasks, resume, show the results, compare two."""

from __future__ import annotations

import argparse
import contextlib
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from akg_tui.cli.new_task import INDUCTOR_SEED, NAMED_SEEDS
from akg_tui.cli.run_options import (
    add_limits,
    add_trust,
    natural,
    options_at_fault,
    positive,
    stated_limits,
)
from akg_tui.cli.usage_error import (
    EXIT_BAD_INPUT,
    EXIT_INTERRUPTED,
    EXIT_NOT_CORRECT,
    EXIT_OK,
    UsageError,
    ended_by_sigterm,
    print_json,
)

if TYPE_CHECKING:
    from akg_tui.suite.suite_record import Settings, SuiteAtWork
    from akg_tui.suite.suite_results import SuiteResults
    from akg_tui.suite.suite_run import News

FORMATS = ("md", "json")


def add_suite(add: Callable[..., Any]) -> None:
    """Declare `suite` and the commands on suites; `add` creates a command."""
    suite = add("suite", _suite, "tune many tasks under one policy, headless and resumable")
    suite.epilog = "Also: akg-tui suite resume, akg-tui suite show, akg-tui suite compare."
    suite.add_argument(
        "--agents",
        metavar="A,B",
        help="sweep (the default), claude, or model ids; each gets all tasks",
    )
    add_suite_options(suite)
    _add_cluster(suite)

    resume = add("suite resume", _resume, "go on with a suite that was stopped or killed")
    resume.add_argument("folder", type=Path, metavar="FOLDER")
    _add_working(resume)
    _add_cluster(resume)

    show = add("suite show", _show, "print the results of a suite")
    show.add_argument("folder", type=Path, metavar="FOLDER")
    show.add_argument("--format", choices=FORMATS, help="instead of a table for the terminal")

    compare = add("suite compare", _compare, "compare two suites, or two agents, task by task")
    for name in ("a", "b"):
        compare.add_argument(name, metavar=f"{name.upper()}[:AGENT]", help="a suite's folder")
    compare.add_argument("--format", choices=FORMATS, help="instead of a table for the terminal")


def add_suite_options(command: argparse.ArgumentParser) -> None:
    """Declare the tasks, the folder and the limits of a suite; its agents are another option."""
    command.add_argument(
        "words",
        nargs="+",
        metavar="DIR|GLOB|MANIFEST",
        help="task folders and problem files, folders of them, patterns, or a manifest.toml",
    )
    command.add_argument(
        "--out", type=Path, required=True, metavar="FOLDER", help="the suite's folder"
    )
    command.add_argument("--base-url", metavar="U", default="", help="a server for the models")
    command.add_argument(
        "--api-key-file", type=Path, metavar="F", help="a file with the models' key"
    )
    command.add_argument(
        "--only", action="append", metavar="PATTERN", help="tasks with such a name"
    )
    command.add_argument("--skip", action="append", metavar="PATTERN", help="leave out such tasks")
    command.add_argument(
        "--seed",
        choices=NAMED_SEEDS,
        help="the first kernel of a task made of a problem; default: inductor with the sweep "
        "agent, which needs knobs, else as `new` makes it",
    )
    command.add_argument(
        "--retries",
        type=natural,
        default=2,
        metavar="N",
        help="for a run that the machine or the model's server stopped (default: 2)",
    )
    add_limits(command)
    _add_working(command)


def _add_working(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--jobs",
        type=positive,
        default=1,
        metavar="N",
        help="runs at a time; on one device they time one after the other (default: 1)",
    )
    command.add_argument("--json", action="store_true", help="one JSON object per line")
    add_trust(command)


def _add_cluster(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--ray-address",
        metavar="A",
        help="run on the Ray cluster at this address: auto, HOST:PORT, or fleet (akg-tui fleet up)",
    )


def _suite(arguments: argparse.Namespace) -> int:
    from akg_tui.core.task import SWEEP
    from akg_tui.suite.suite_record import label_of

    agents = tuple(dict.fromkeys(a.strip() for a in (arguments.agents or SWEEP).split(",")))
    if len({label_of(agent) for agent in agents}) < len(agents):
        raise UsageError(f"--agents {arguments.agents!r}: two would have runs of the same name")
    settings = suite_settings(arguments, agents)
    return _work(begin_suite(arguments, settings), arguments)


def begin_suite(arguments: argparse.Namespace, settings: Settings) -> SuiteAtWork:
    """Begin the suite of these settings in its folder, or open it there. Raises `UsageError`."""
    from akg_tui.suite.suite_record import SuiteAtWork
    from akg_tui.suite.task_list import find_tasks

    _check_agents(settings)
    sources = find_tasks(settings.words, settings.only, settings.skip)
    suite = SuiteAtWork.begin(arguments.out, settings, sources)
    suite.trust = arguments.trust
    suite.trust_own()
    return suite


def suite_settings(arguments: argparse.Namespace, agents: tuple[str, ...]) -> Settings:
    """Return the settings of the options of `add_suite_options`."""
    from akg_tui.core.task import SWEEP
    from akg_tui.suite.suite_record import Settings

    key_file = arguments.api_key_file
    return Settings(
        words=tuple(str(Path(word).expanduser().absolute()) for word in arguments.words),
        agents=agents,
        base_url=arguments.base_url,
        api_key_file=str(key_file.expanduser().absolute()) if key_file else "",
        limits=stated_limits(arguments),
        only=tuple(arguments.only or ()),
        skip=tuple(arguments.skip or ()),
        seed=arguments.seed or (INDUCTOR_SEED if SWEEP in agents else ""),
        retries=arguments.retries,
    )


def _check_agents(settings: Settings) -> None:
    """Raise `UsageError` if an agent of the suite has no key, or is none."""
    import os

    from akg_tui.agent.models.endpoint import KeyMissing, endpoint_of
    from akg_tui.core.model_info import policy_fault
    from akg_tui.core.task import SWEEP, Agent, Policy
    from akg_tui.store.task_toml import BadAgent, stated_agent

    for name in settings.agents:
        try:
            agent = stated_agent(Agent(), settings.stated(name))
            if agent.model != SWEEP:
                endpoint_of(agent, os.environ)
        except BadAgent as error:
            option = "--base-url" if error.setting == "base_url" else "--agents"
            raise UsageError(f"{option}: {name}: {error.why}") from None
        except KeyMissing as error:
            raise UsageError(str(error)) from None
        if fault := policy_fault(settings.limits.over(Policy()), agent.model):
            raise UsageError(f"{name}: {fault}")


def _resume(arguments: argparse.Namespace) -> int:
    from akg_tui.engine.trust import insist
    from akg_tui.suite.suite_record import SuiteAtWork

    suite = SuiteAtWork(arguments.folder)
    suite.trust = arguments.trust
    settings = suite.record.settings
    insist(suite.folder, settings.acts(), trust=suite.trust)
    _check_agents(settings)
    return _work(suite, arguments)


def _work(suite: SuiteAtWork, arguments: argparse.Namespace) -> int:
    """Work on a suite to its end; write and print its results."""
    from akg_tui.suite.suite_pages import as_text, page_of

    ended = work_on(suite, arguments)
    if ended is None:
        return EXIT_INTERRUPTED
    results, paths = ended
    if arguments.json:
        from msgspec import to_builtins

        agents = to_builtins(results.agents)
        print_json("suite", folder=str(suite.folder), agents=agents, files=[*map(str, paths)])
    else:
        print()
        print(as_text(page_of(results)), end="")
        print(f"results: {', '.join(map(str, paths))}")
    if all(task.state == "refused" for task in results.tasks):
        return EXIT_BAD_INPUT
    whole = all(task.state == "correct" for task in results.tasks)
    return EXIT_OK if whole else EXIT_NOT_CORRECT


def work_on(
    suite: SuiteAtWork, arguments: argparse.Namespace
) -> tuple[SuiteResults, list[Path]] | None:
    """Work on a suite to its end, and write its results; print a line for each change.

    Returns the results and their files; None when a person interrupted it, who is told.
    """
    import asyncio

    from akg_tui.suite.ray_runs import RayCluster
    from akg_tui.suite.suite_pages import write_results
    from akg_tui.suite.suite_record import is_over
    from akg_tui.suite.suite_results import results_of
    from akg_tui.suite.suite_run import SuiteRunner

    ray_address = getattr(arguments, "ray_address", None)
    if ray_address and arguments.jobs != 1:
        suite.close()
        raise UsageError(
            "--jobs is for one machine: leave it out, Ray places the runs by resources"
        )
    if ray_address and suite.record.settings.configurations:
        suite.close()
        raise UsageError("--ray-address: the runs of `bench agents` are for one machine")
    leaving = contextlib.ExitStack()
    leaving.callback(suite.close)
    suite.forgive()
    over = sum(is_over(suite, entry) and not entry.refused for entry in suite.entries)
    lines = _Lines(len(suite.entries), over, arguments.json)

    async def run() -> None:
        ended_by_sigterm()
        await runner.run()

    try:
        if ray_address:
            # What Ray prints, of lost nodes for example, is no line of ours.
            leaving.enter_context(contextlib.redirect_stdout(sys.stderr))
            cluster = RayCluster(ray_address)
            leaving.callback(cluster.close)
            jobs = len(suite.entries)
            runner = SuiteRunner(suite, lines.tell, jobs=jobs, work=cluster.work)
        else:
            runner = SuiteRunner(suite, lines.tell, jobs=arguments.jobs)
        with options_at_fault(arguments):
            asyncio.run(run())
    except (KeyboardInterrupt, asyncio.CancelledError):
        print(f"interrupted; go on with: akg-tui suite resume {suite.folder}", file=sys.stderr)
        return None
    finally:
        leaving.close()
    results = results_of(suite)
    return results, write_results(suite.folder, results)


class _Lines:
    """Prints one line for each change of an entry's state."""

    def __init__(self, many: int, over: int, as_json: bool) -> None:
        self._many = many
        self._over = over
        self._json = as_json
        self._out = sys.stdout

    def tell(self, news: News) -> None:
        import json

        from akg_tui.core.sanitize import one_line

        self._over += news.state in ("done", "failed", "refused", "given up")
        name, agent = news.entry.key
        if self._json:
            plain = {"task": name, "agent": agent, "state": news.state, "what": news.what}
            line = json.dumps({"type": "task", **plain})
        else:
            what = f": {one_line(news.what)}" if news.what else ""
            line = f"[{self._over}/{self._many}] {name} {agent}  {news.state}{what}"
        print(line, file=self._out, flush=True)


def add_fleet(add: Callable[..., Any]) -> None:
    """Declare the commands on a local Ray cluster; `add` creates a command."""
    up = add("fleet up", _fleet_up, "start a Ray cluster on this machine, for suites")
    up.add_argument("--nodes", type=positive, default=1, metavar="N", help="default: 1")
    up.add_argument("--num-cpus", type=positive, metavar="N", help="of each node; default: all")
    status = add("fleet status", _fleet_status, "print the nodes of the local cluster")
    status.add_argument("--json", action="store_true", help="one JSON object per line")
    add("fleet down", _fleet_down, "end the local cluster, and no other process of Ray")


def _fleet_up(arguments: argparse.Namespace) -> int:
    from akg_tui.suite.ray_fleet import state_folder, up

    fleet = up(state_folder(), nodes=arguments.nodes, cpus=arguments.num_cpus)
    print(f"{len(fleet.nodes)} nodes at {fleet.address}; use it with: --ray-address fleet")
    return EXIT_OK


def _fleet_status(arguments: argparse.Namespace) -> int:
    from akg_tui.suite.ray_fleet import state_folder, status

    fleet, nodes = status(state_folder())
    if not arguments.json:
        print(f"{fleet.address}, {len(nodes)} nodes")
    for node in nodes:
        if arguments.json:
            print_json("node", **node)
        else:
            told = ", ".join(f"{name} {number:g}" for name, number in node["resources"].items())
            print(f"{node['node'][:8]}  {'alive' if node['alive'] else 'lost'}  {told}")
    return EXIT_OK


def _fleet_down(_: argparse.Namespace) -> int:
    from akg_tui.suite.ray_fleet import down, state_folder

    print(f"ended {down(state_folder())} nodes")
    return EXIT_OK


def _show(arguments: argparse.Namespace) -> int:
    from akg_tui.suite.suite_record import Suite
    from akg_tui.suite.suite_results import results_of

    return _print(results_of(Suite(arguments.folder)), arguments)


def _compare(arguments: argparse.Namespace) -> int:
    from akg_tui.suite.paired import compare, named_results

    found = compare(named_results(arguments.a), named_results(arguments.b))
    return _print(found, arguments)


def _print(found: Any, arguments: argparse.Namespace) -> int:
    from akg_tui.suite.suite_pages import as_text, page_of, render

    form = arguments.format
    print(render(found, form) if form else as_text(page_of(found)), end="")
    return EXIT_OK
