"""What a model is told is true: of the phase, its tools, the kernel's revisions, its own edits."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from akg_tui.agent.chat import ToolMessage, ToolResult
from akg_tui.agent.facts import facts_text
from akg_tui.agent.machine import describe, instructions
from akg_tui.agent.models.messages_api import merged
from akg_tui.agent.prompt import situation
from akg_tui.agent.tools.registry import own_tools, told_of, tools_with
from akg_tui.core import events as ev
from akg_tui.core.measurement import CaseTiming, Interval, Measurement, Outcome
from akg_tui.core.phases import TUNE, Phase, Verdict, Workflow
from akg_tui.core.plan.plan_document import render_plan
from akg_tui.core.state import Question
from akg_tui.core.task import Agent, Policy, Target, Task
from benchmarks.lab.family import Family, says
from benchmarks.lab.player import Player
from benchmarks.lab.replies import Block, Reply, call, message
from benchmarks.lab.runs import create, directions, engine, of, play
from benchmarks.lab.server import Lab, Request
from tests.agent.live import held
from tests.agent.test_declarations import SEED
from tests.agent.test_tools import REVIEWER, Caller, calling


@dataclass
class ByRevision(Player):
    """A player that names the revision which the view's header has."""

    named: list[int] = field(default_factory=list)

    def _edit(self, view: str, active: str, call_id: str) -> Block:
        block = super()._edit(view, active, call_id)
        header = re.search(r"^@\S+ r(\d+) ", view, re.M)
        assert header
        self.named.append(int(header[1]))
        block["input"]["rev"] = self.named[-1]
        return block


async def test_the_revision_of_a_view_holds_in_later_rounds_too(tmp_path: Path) -> None:
    player = ByRevision(directions())
    async with Lab(player) as lab:
        run = create(tmp_path / "task", lab.url, rounds=6)
        await play(engine(run, lab.url))
    verdicts = [attempt.verdict for attempt in run.state.attempts[1:]]
    assert verdicts.count(Verdict.DISCARD) >= 3
    assert player.named == [0, 1, 1, 2, 2, 2]  # a kernel that was sent keeps its sender's revision
    assert not [a for a in of(run, ev.ToolAnswered) if a.status == "error"]
    run.close()


async def test_a_diagnosis_is_opened_with_the_reason_it_has(tmp_path: Path) -> None:
    async with Lab(Player(directions())) as lab:
        run = create(tmp_path / "task", lab.url, rounds=1)
        await play(engine(run, lab.url))
    state = replace(run.state, phase=Phase.DIAGNOSE, phase_reason="a person wants to know more")
    assert state.attempts[-1].verdict is Verdict.KEEP
    told = situation(state, [])
    assert "Why you are asked: a person wants to know more." in told
    assert "failed one after the other" not in told
    assert "last 3 attempts failed" in situation(replace(state, fail_streak=3), [])
    run.close()


async def test_two_edits_in_one_reply_change_nothing(tmp_path: Path) -> None:
    player = Player(directions())
    twice: list[Request] = []

    def script(request: Request) -> Reply:
        reply = player(request)
        edits = [b for b in player.last if b.get("name") == "edit_kernel"]
        if not edits or twice:
            return reply
        twice.append(request)
        (edit,) = edits
        blocks: list[Block] = [edit, call("edit_kernel", edit["input"], "toolu_again")]
        return message(blocks, message_id=f"msg_{player.calls}", usage=request.usage)

    async with Lab(script) as lab:
        run = create(tmp_path / "task", lab.url, rounds=1)
        await play(engine(run, lab.url))
    refused = [a for a in of(run, ev.ToolAnswered) if a.status == "error"]
    assert [a.tool for a in refused] == ["edit_kernel", "edit_kernel"]
    assert "put all ops into one edit_kernel" in refused[0].error_information
    assert len(of(run, ev.KernelEdited)) == 1
    run.close()


WORKFLOW = """\
tools:
  check:
    type: call_workflow
    function:
      name: check
      description: Verify, then profile.
      parameters:
        type: object
        properties: {code: {type: string}}
        required: [code]
    steps:
      - tool: verify_kernel
        arguments: {task_code: task/reference.py, generated_code: $code, op_name: x}
"""


async def test_a_workflow_is_named_where_it_may_be_called(tmp_path: Path) -> None:
    async with calling(tmp_path, tools=WORKFLOW) as caller:
        assert "check" in caller.executor.allowed
        assert "verify_kernel" not in caller.executor.allowed  # a step, which the file names so
        why = await caller.refused("submit_plan", items=[])
        assert "check" in why
    async with held(tmp_path / "plan", hold=Phase.PLAN, tools=WORKFLOW) as other:
        assert "check" not in Caller(other).executor.allowed


def test_a_model_is_told_of_the_tools_that_its_task_needs() -> None:
    def names(task: Task) -> set[str]:
        return set(told_of(own_tools(), task))

    usual = names(Task(op="x"))
    assert {"edit_kernel", "try_kernel", "profile_kernel", "execute_script"} <= usual
    assert not usual & {"verify_kernel", "verify_then_profile", "check_markdown"}
    assert usual - names(Task(op="x", policy=Policy(trials=0))) == {"try_kernel", "sweep_kernel"}
    assert usual - names(Task(op="x", agent=Agent(allow_script=False))) == {"execute_script"}
    assert "submit_plan" not in names(Task(op="x", workflow="write"))
    rows = {**TUNE.rows, Phase.EDIT: replace(TUNE.rows[Phase.EDIT], tools=("verify_kernel",))}
    assert names(Task(op="x", table=Workflow("own", rows))) - usual == {"verify_kernel"}
    assert "verify_kernel" in set(told_of(tools_with(((Path("tools.yaml"), SEED),)), Task(op="x")))


async def test_a_kernel_that_the_model_sent_does_not_come_back_and_its_tags_hold(
    tmp_path: Path,
) -> None:
    """Keeps by an edit, then by a knob's value: the one view of the seed serves all edits."""
    steps: list[dict[str, Any]] = []

    class Sender(Player):
        def _act(
            self, phase: str, texts: str, since: list[Block], body: Mapping[str, Any]
        ) -> Block:
            if phase != "EDIT":
                return super()._act(phase, texts, since, body)
            first, second = re.findall(r"^([12][a-z]{2})\|", views[0], re.M)
            made: tuple[dict[str, Any], ...] = (
                {"ops": [{"op": "sub", "at": first, "find": '"A"  #', "with": '"B"  #'}]},
                {"set": {"SPEED": "C"}},
                {"ops": [{"op": "sub", "at": second, "find": "= 1 ", "with": "= 2 "}]},
            )
            given = made[len(steps)]
            steps.append(given)
            name = "submit_kernel" if "set" in given else "edit_kernel"
            return call(name, given, f"toolu_{self.calls:05d}")

    views: list[str] = []

    def script(request: Request) -> Reply:
        texts = [str(b.get("text", "")) for m in request.body["messages"] for b in m["content"]]
        views[:] = [text for text in texts if re.search(r"^1[a-z]{2}\|", text, re.M)]
        sent.append("\n".join(texts))
        return player(request)

    sent: list[str] = []
    player = Sender(directions())
    async with Lab(script) as lab:
        run = create(tmp_path / "task", lab.url, rounds=3)
        await play(engine(run, lab.url))
    assert [a.verdict for a in run.state.attempts[1:]] == [
        Verdict.KEEP, Verdict.KEEP, Verdict.DISCARD,
    ]  # fmt: skip
    assert len(views) == 1
    assert not [a for a in of(run, ev.ToolAnswered) if a.status == "error"]
    assert sent[-1].count("The kernel is now the one that you sent") == 2
    run.close()


async def test_an_agent_that_a_user_declares_has_its_prompt_and_its_tools(tmp_path: Path) -> None:
    def child(prompt: str, turn: int) -> list[Block]:
        look: dict[str, Any] = {"query": "loops"}
        return says("no") if turn else [call("search_knowledge", look, "toolu_look")]

    ask = call("reviewer", {"prompt": "is it right?"}, "toolu_ask")
    family = Family(Player(directions()), child=child, blocks=(ask,))
    async with Lab(family) as lab:
        run = create(tmp_path / "task", lab.url, rounds=1)
        (run.path / "task" / "tools.yaml").write_text(REVIEWER)
        await play(engine(run, lab.url))
    first = family.children[0].body
    assert [tool["name"] for tool in first["tools"]] == ["read_file", "read_kernel"]
    system = first["system"][0]["text"]
    assert system.startswith("You are a subagent")
    assert system.endswith("\n\nYou doubt {everything}.")
    assert "allowed are: read_file, read_kernel." in system
    (started,) = of(run, ev.SubagentStarted)
    assert started.agent == "critic"
    assert {request.body["model"] for request in lab.requests} == {"lab"}
    looked = next(a for a in of(run, ev.ToolAnswered) if a.source)
    assert "there is no tool 'search_knowledge'" in looked.error_information
    run.close()


async def test_an_agent_that_a_user_declares_has_its_model_on_the_same_server(
    tmp_path: Path,
) -> None:
    ask = call("reviewer", {"prompt": "is it right?"}, "toolu_ask")
    family = Family(Player(directions()), child=lambda prompt, turn: says("no"), blocks=(ask, ask))
    async with Lab(family) as lab:
        run = create(tmp_path / "task", lab.url, rounds=1)
        declared = REVIEWER.replace("  critic:\n", "  critic:\n    model: small-1\n")
        (run.path / "task" / "tools.yaml").write_text(declared)
        await play(engine(run, lab.url))
    assert {child.body["model"] for child in family.children} == {"small-1"}
    own = [request for request in lab.requests if request.body["model"] == "lab"]
    assert len(own) == len(lab.requests) - len(family.children)
    used = {used.model for used in run.state.usage}
    assert used == {"lab", "small-1"}
    run.close()


KNOWN = ev.MachineDescribed(machine="m1", facts={"CPU": "a Zen", "reads": "L1 190 GB/s"})


async def test_the_facts_of_machine_times_and_rules_are_told_once_and_frozen(
    tmp_path: Path,
) -> None:
    asked: list[tuple[int, ev.MachineDescribed | None]] = []

    async def describe(threads: int, known: ev.MachineDescribed | None) -> ev.MachineDescribed:
        asked.append((threads, known))
        return KNOWN

    async with Lab(Player(directions())) as lab:
        run = create(tmp_path / "task", lab.url, rounds=3)
        work = engine(run, lab.url)
        work._loop.describe = describe
        await play(work)
    assert asked == [(1, None)]
    systems = [request.body["system"] for request in lab.requests]
    assert all(each == systems[0] for each in systems)
    told = systems[0][0]["text"]
    wanted = (
        "- CPU: a Zen.\n- reads: L1 190 GB/s.\n",
        "the seed kernel 4 ms, the reference run by PyTorch (eager) 3 ms; the seed is 0.75 times",
        "|y - ref| / (|ref| + rms(ref))",
        "from akg_tui.dsl import compile_cpp, pointer",
        "load_inline",
        "packing",
        "Threads gain nothing",
    )
    for text in wanted:
        assert told.count(text) == 1, text
    assert "-fopenmp" not in told
    assert run.state.machine == KNOWN
    run.close()


async def test_the_compiled_reference_and_the_cases_are_told_where_they_were_measured(
    tmp_path: Path,
) -> None:
    async with calling(tmp_path) as caller:
        state = caller.engine.state
        assert state.baseline is not None
        assert "under torch.compile" not in facts_text(state)
        assert "By case" not in facts_text(state)
        ratio = Interval(2.5, 2.4, 2.6, 0.99)
        compiled = Measurement(outcome=Outcome.CORRECT, candidate_ms=1.2, ratio=ratio)
        cases = (CaseTiming(name="short", candidate_ms=0.5, baseline_ms=0.25, ratio=ratio),)
        known = replace(state, compiled=compiled, baseline=replace(state.baseline, cases=cases))
        assert "under torch.compile 1.2 ms, 2.5 times as fast as eager." in facts_text(known)
        assert "By case, seed and eager: short 0.5 ms and 0.25 ms." in facts_text(known)


async def test_a_model_that_writes_cuda_is_told_of_the_gpu_and_how_cuda_is_compiled(
    tmp_path: Path,
) -> None:
    async with calling(tmp_path) as caller:
        state = caller.engine.state
        assert state.baseline is not None
        environment = {"gpu": "NVIDIA H200", "nvcc": "13.5", "gpu uuid": "GPU-0", "cpu": "a Zen"}
        told = facts_text(
            replace(
                state,
                machine=KNOWN,
                task=replace(state.task, target=Target(backend="cuda", dsl="cuda_cpp")),
                baseline=replace(state.baseline, environment=environment),
            )
        )
    assert "- gpu: NVIDIA H200.\n- nvcc: 13.5.\n" in told
    assert "GPU-0" not in told
    assert told.count("a Zen") == 1
    assert "compile_cuda(SOURCE" in told
    assert "compile_cpp" not in told


async def test_the_machine_is_described_by_measuring_it_and_once(tmp_path: Path) -> None:
    found = await describe(1, None)
    assert found is not None
    assert {"CPU", "compiler", "copies, one thread", "multiply-adds, one thread"} <= set(
        found.facts
    )
    assert re.search(r"memory [\d.]+ GB/s", found.facts["copies, one thread"])
    assert await describe(1, found) is None
    other = await describe(2, found)
    assert other is not None
    assert "multiply-adds, 2 threads" in other.facts


def test_instruction_sets_are_named_as_engineers_know_them() -> None:
    assert instructions(["fpu", "avx2", "fma"]) == "AVX2, FMA, no AVX-512"
    assert instructions(["avx2", "avx512f", "avx512_vnni"]) == "AVX2, AVX-512F, AVX-512-VNNI"


async def test_the_speed_of_the_best_is_measured_or_named_provisional(tmp_path: Path) -> None:
    async with Lab(Player(directions())) as lab:
        run = create(tmp_path / "task", lab.url, rounds=3)
        await play(engine(run, lab.url))
    state = replace(run.state, phase=Phase.PLAN)
    assert state.final
    assert "(measured)" in situation(state, [])
    assert re.search(r"^best_over_seed: 4.000$", render_plan(state), re.M)
    before = replace(state, final=None)
    assert "4.00x seed · 3.00x eager (provisional" in situation(before, [])
    assert "best_over_seed: 4.000 (provisional" in render_plan(before)
    run.close()


async def test_a_page_of_knowledge_is_told_whole_once(tmp_path: Path) -> None:
    async with calling(tmp_path) as caller:
        first = await caller.good("search_knowledge", query="vectorise the inner loop")
        assert first.startswith("# k:cpp-vectorise: ")
        assert "triton-" not in first.split("\n")[0]
        other = await caller.good("search_knowledge", query="k:triton-matmul")
        assert other.startswith("# k:triton-matmul")
        assert "k:cpp-vectorise" in await caller.refused("search_knowledge", query="zzzz")
        again = await caller.good("search_knowledge", query="k:cpp-vectorise")
        assert again.startswith("k:cpp-vectorise: ")
        assert again.endswith("(told above)")


async def test_a_verdict_and_an_answer_are_told_once_in_a_conversation(tmp_path: Path) -> None:
    async with Lab(Player(directions())) as lab:
        run = create(tmp_path / "task", lab.url, rounds=4)
        await play(engine(run, lab.url))
    texts = [
        str(block.get("text", ""))
        for entry in lab.requests[-1].body["messages"]
        for block in entry["content"]
    ]
    verdicts = [line for text in texts for line in text.split("\n") if "Last verdict" in line]
    assert len(verdicts) == len(set(verdicts)) == 3
    question = Question(1, "May I?", (), None, None, attended=True, answer="yes", source="user")
    state, told = replace(run.state, phase=Phase.PLAN, questions=(question,)), set[str]()
    assert "the person answered: yes" in situation(state, [], told)
    assert "the person answered: yes" not in situation(state, [], told)
    run.close()


def test_the_output_of_a_failed_tool_reaches_the_model_with_its_error() -> None:
    result = ToolResult("error", "what it printed", "why it failed")
    sent = list(merged((ToolMessage((("toolu_1", result),)),)))
    assert "why it failed\\nwhat it printed" in json.dumps(sent)
