"""What the floors below the screens write is said in Chinese too, and a new sentence is missed.

The sentences are read from the source: one that is in no catalogue, and is not named here with
the reason why nobody reads it on a screen of the workbench, fails.
"""

from __future__ import annotations

import re
import subprocess
import sys
from functools import cache
from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st

from akg_tui.core import events as ev
from akg_tui.core.sanitize import clean
from akg_tui.tui.screens.new_run import samples
from akg_tui.view import language
from akg_tui.view.event_words import diagnosis_cause
from akg_tui.view.language import (
    LANGUAGES,
    SentenceTemplates,
    catalogue,
    retold,
    searched,
    speak,
    translated,
)
from akg_tui.view.spans import cells

from .sentences import PACKAGE, Sentence, is_sentence, shape, texts

OTHERS = [language for language in LANGUAGES if language != "en"]
WHOSE = ["told", "search"]
FLOORS = ("core", "engine", "agent", "store", "evaluate")
# Of the screens themselves what is told in English first: the command line prints it too.
SETTINGS = (
    "toml_text",
    "view/controls/settings_file",
    "view/controls/preferences",
    "view/controls/keymap",
    "tui/keyboard",
    "tui/themes",
)

# Modules (`a/b`), all below a folder (`a/b/`), or one function of a module (`a/b:f`); `a/b:` is
# what stands outside of functions.
UNSEEN = {
    "core/plan/plan_document": "PLAN.md",
    "core/plan/remembered": "the agent reads it",
    "core/plan/revision:": "the beginnings of reasons that are there whole",
    "agent/recollection": "a file that was skipped, told as it is",
    "core/plan/edit:": "the form of PLAN.md",
    "core/plan/edit:_read_lines": "the form of PLAN.md",
    "core/stopping/reply_signals": "phrases that are looked for",
    "core/task:": "names of formats",
    "core/task:stated_agent": "patterns",
    "core/commands:command_from_json": "a script's orders, answered to the script",
    "core/commands:command_to_json": "a fault of our own",
    "core/events:": "a name in the journal",
    "core/stopping/export_guard": "the report's process prints it",
    "core/stopping/goals:read_goal": "the command line",
    "core/stopping/goals:__str__": "the command line and the report",
    "core/stopping/automation:": "prefixes of lines of the command line",
    "core/stopping/automation:read_automation": "the command line",
    "core/stopping/automation:doubts": "the command line",
    "core/phases:__post_init__": "a fault of our own",
    "core/phases:_bad": "a fault of our own",
    "core/recovery:cut_off": "a part of a sentence that is there whole",
    "store/journal_format:_place": "a part of another library's message",
    "engine/engine:_commit_seed": "a commit's subject",
    "engine/follower:kernel": "stands in the place of a kernel's text",
    "engine/remote_settling": "the command line",
    "engine/size_search": "the command line",
    "engine/task_making": "the command line",
    "engine/run_report:compiled": "the agent reads it",
    "agent/tools/": "the agent reads it",
    "agent/prompt": "the agent reads it",
    "agent/facts": "the agent reads it",
    "agent/machine": "the agent reads it",
    "agent/driver": "the client reads it",
    "agent/mcp_server": "the client reads it",
    "agent/extensions:with_packages": "the command line",
    "agent/visit:_reminder": "the agent reads it",
    "agent/subagents:": "the agent reads it",
    "agent/user_functions:": "code",
    "agent/user_functions:_call": "the agent reads it",
    "agent/user_functions:_answer": "the agent reads it",
    "agent/models/probe": "doctor",
    "agent/models/recorded": "the command line",
    "agent/models/served:_cut": "the agent reads it",
    "agent/models/endpoint:__repr__": "a debugger",
    "core/plan/knobs:describe": "the text of a plan item",
    "agent/models/messages_api:_note_miss": "the usage report",
    "agent/models/messages_api:_tool_use": "the agent reads it",
    "agent/models/messages_api:_arguments": "the agent reads it",
    "agent/models/messages_api:_unfit": "the agent reads it",
    "agent/models/messages_api:_no_constant": "the agent reads it",
    "agent/models/messages_api:": "the agent reads it",
    "agent/models/messages_api:result_text": "the agent reads it",
    "agent/models/sweep:": "patterns",
    "agent/models/sweep:_diagnose": "parts of a sentence that is there whole",
    "evaluate/dsls/compiled_reference:": "the text of a kernel",
    "evaluate/dsls/torch_headers:": "code; its sentence is there all the same",
    "store/journal_reader:add": "a fault of our own",
    "store/run_at_rest": "the command line",
    "store/checkup": "the command line",
    "store/fork:check_can_settle": "the command line",
    "store/salvage": "the command line",
    "store/run_list:line": "the command line",
    "store/history:": "a commit's author",
    "store/history:commit": "a commit's form",
    "store/history:library_version": "the report",
    "store/task_folder:task_text": "a file",
    "store/reference_constants:_value": "no constant, which nobody is told",
    "store/reference_constants:_bounded": "no constant, which nobody is told",
    "store/task_toml:load_policy": "the command line",
    "toml_text:_at": "the line, taken off again",
    "toml_text:toml_fault": "patterns, and the English of the TOML reader",
    "store/task_toml:_agent": "the command line",
    "store/task_toml:parse_configuration": "the command line",
    "store/task_toml:_explained": "patterns; its sentences are there all the same",
    "evaluate/sandbox/run_confined": "a process that the agent's scripts run in",
    "evaluate/child/child_main": "code",
    "evaluate/child/call_loop:": "code",
    "evaluate/child/seal": "code",
    "evaluate/child/faults:": "patterns",
    "evaluate/correctness/error_bounds:conditioned": "the command line",
    "evaluate/correctness/error_bounds:_half": "the command line",
    "evaluate/correctness/error_bounds:_bound": "the command line",
    "evaluate/correctness/error_bounds:_given": "the command line",
    "evaluate/correctness/error_bounds:_ceiling": "the command line",
    "evaluate/correctness/error_bounds:_sums": "the command line",
    "evaluate/child/size_server": "the command line",
    "evaluate/sizing/": "the command line",
    "evaluate/evidence/page": "the agent and the command line",
    "evaluate/evidence/compiler_remarks:": "patterns",
    "evaluate/evidence/disassembly:": "patterns",
    "evaluate/evidence/disassembly:_pads": "instructions",
    "evaluate/evidence/throughput:": "patterns and names",
    "evaluate/evidence/throughput:assembly_of": "code",
    "evaluate/evidence/throughput:read_answer": "names of figures",
    "evaluate/evidence/hardware_counters:": "names of figures",
    "evaluate/evidence/hardware_counters:_open": "a reason that is told by its number",
    "evaluate/evidence/kernel_process:compiler_kind": "a compiler's words",
    "evaluate/evidence/kernel_process:_estimated": "names; its sentences are there all the same",
    "evaluate/evidence/throughput:_binds": "names; its sentences are there all the same",
    "evaluate/evidence/kernel_process:confined": "a process of our own",
    "evaluate/evidence/asking:evidence": "the agent and the command line",
    "evaluate/evidence/asking:profile": "the agent and the command line",
    "evaluate/evidence/asking:wait": "a caller that has gone",
    "evaluate/evidence/compile_process": "the agent and the command line",
    "evaluate/evidence/cuda/cuda_process": "the agent and the command line",
    "evaluate/evidence/cuda/launch_recorder:": "code",
    "evaluate/evidence/cuda/sass": "the agent and the command line",
    "evaluate/evidence/compile_report": "the agent and the command line",
    "evaluate/evidence/profilers/": "the agent and the command line",
    "evaluate/evidence/profile_process": "the agent and the command line",
    "evaluate/evidence/gpu_assembly": "the agent and the command line; classes by their names",
    "evaluate/evidence/gpu/loops": "names of instructions; classes by their names",
    "evaluate/evidence/gpu/bank_conflicts": "the agent and the command line",
    "evaluate/evidence/ascend/": "the agent and the command line",
    "evaluate/evidence/gpu_limits": "the agent and the command line",
    "evaluate/evidence/sampling:": "code",
    "evaluate/evidence/asking:_stamp": "a part of a key",
    "evaluate/estimate/gpu_model:": "names of GPUs",
    "evaluate/targets/ascend:": "a command",
    "evaluate/targets/ascend:device_facts": "names of figures",
    "evaluate/targets/ascend:device_fault": "the command line",
    "evaluate/targets/ascend:read_npus": "a pattern",
    "evaluate/targets/machine_rates:": "code",
    "evaluate/kernel_text:": "names",
    "evaluate/task_lint:_too_easy": "the beginning of a sentence that is there whole",
    "evaluate/targets/cuda:device_fault": "the command line",
    "evaluate/targets/nvml:": "names of figures",
    "evaluate/targets/nvml:first": "a figure of the fingerprint",
    "evaluate/targets/nvml:facts": "names of figures",
    "evaluate/targets/nvml:causes": "figures of the fingerprint",
    "evaluate/targets/cpu:_lasting": "names of figures",
    "evaluate/targets/toolchains:": "the command line",
    "evaluate/targets/toolchain_install": "the command line",
    "evaluate/dsls/adapter:": "code",
    "view/controls/keymap:as_toml": "a file",
    "view/controls/keymap:value": "a file",
    "view/controls/settings_file:write_settings": "put through tr",
    "tui/keyboard:apply_keymap": "put through tr",
    "tui/keyboard:feed": "keys",
}

# Sentences whose parts cannot be told from their holes alone: there in each of their forms.
SPELLED_OUT = {
    "{}: right at first, {} {}": "{what}: right at first, in another process {why}",
    "{} {} ({})": "{what} in another process ({why})",
    "{} {} by {} ({})": "the key in {name} or --api-key-file is missing by {url} ({words})",
    "{}the key {} is given to {} and to {}; {} has it": "the key {key} is given to {name} and "
    "to {name2}; {name3} has it",
    "the key in {} or --api-key-file": "the key in {name} or --api-key-file is missing by {url} "
    "({words})",
    "was refused": "the key in {name} or --api-key-file was refused by {url} ({words})",
    "is missing": "the key in {name} or --api-key-file is missing by {url} ({words})",
}  # fmt: skip

# Sentences that the code puts together from parts, and those of the operating system.
PUT_TOGETHER = {
    "stopped by a person: {words}",
    "shape {words}",
    "the key {key} is given to {name} and to {name2}; {name3} has it",
    "{why}; the next evaluation may come to it",
    "{why}; the kernel is not correct: {why2}",
    "interrupted: the {why} before the tool answered",
    "the failed settings share {words}, which no correct one has",
    "{n}: {what} at {how}: {why}; {more}",
    "{what}: right at first, in another process {why}",
    "{what}: right at first, at the next call {why}",
    "{what}: right at first, after other inputs {why}",
    "{what} in another process ({why})",
    "{what} at the next call ({why})",
    "the key in {name} or --api-key-file was refused by {url} ({words})",
    "the key in {name} or --api-key-file is missing by {url} ({words})",
    "No such file or directory",
    "Permission denied",
    "No space left on device",
    "Is a directory",
    "Not a directory",
    "Read-only file system",
    "File exists",
}


@cache
def below() -> tuple[Sentence, ...]:
    paths = [path for floor in FLOORS for path in sorted((PACKAGE / floor).rglob("*.py"))]
    paths += [PACKAGE / f"{name}.py" for name in SETTINGS]
    modules = (str(path.relative_to(PACKAGE).with_suffix("")) for path in paths)
    about = (Sentence(each.about, f"sample_kernels/{each.name}", "", 1) for each in samples())
    return (*(one for module in modules for one in texts(module)), *about)


def unseen(one: Sentence) -> bool:
    folders = [f"{one.module[:at]}/" for at, c in enumerate(one.module) if c == "/"]
    return not UNSEEN.keys().isdisjoint({one.module, one.place, *folders})


def both(language: str) -> dict[str, str]:
    return {**catalogue(language, "told"), **catalogue(language, "search")}


@pytest.mark.parametrize("language", OTHERS)
def test_every_sentence_that_reaches_a_screen_is_in_the_catalogue(language: str) -> None:
    known = {shape(english) for english in both(language)} | SPELLED_OUT.keys()
    missing = [
        f"{one.module}.py:{one.line}: {one.text}"
        for one in below()
        if is_sentence(one.text) and shape(one.text) not in known and not unseen(one)
    ]
    assert missing == []


@pytest.mark.parametrize("language", OTHERS)
def test_the_catalogue_has_no_sentence_that_nobody_writes(language: str) -> None:
    written = {shape(one.text) for one in below()}
    idle = {
        english
        for english in both(language)
        if shape(english) not in written and re.search("[a-z]", shape(english))
    }
    assert idle - PUT_TOGETHER == set()
    assert PUT_TOGETHER - idle == set()
    assert set(SPELLED_OUT.values()) <= PUT_TOGETHER
    assert SPELLED_OUT.keys() <= written


def test_what_is_said_to_be_unseen_is_still_there() -> None:
    found: set[str] = set()
    for one in below():
        found |= {one.module, one.place}
        found |= {f"{one.module[:at]}/" for at, c in enumerate(one.module) if c == "/"}
    assert UNSEEN.keys() - found == set()


@pytest.mark.parametrize("whose", WHOSE)
@pytest.mark.parametrize("language", OTHERS)
def test_a_sentence_keeps_its_values_and_holds_nothing_odd(language: str, whose: str) -> None:
    for english, said in catalogue(language, whose).items():
        holes = re.findall(r"\{(\w+)\}", english)
        kept = [hole for hole in holes if hole != "s"]  # an English plural
        assert sorted(re.findall(r"\{(\w+)\}", said)) == sorted(kept), english
        assert len(set(holes)) == len(holes), english
        assert "}{" not in english, f"where one value ends cannot be told: {english}"
        assert not re.search(r"[{}]", re.sub(r"\{[a-z]+\d?\}", "", english)), english
        assert clean(said) == said and said.strip(), english  # noqa: PT018 (one rule of texts)


_SAMPLES = {
    "n": (str(number) for number in count(2)),
    "item": (f"p{number}" for number in count(101)),
    "phase": iter(lambda: "EDIT", None),
    "s": iter(lambda: "s", None),
    "more": iter(lambda: "", None),
    "where": (f"[{number}, 0]" for number in count(301)),
    "value": (f"0.{number}" for number in count(201)),
}


@pytest.mark.parametrize("whose", WHOSE)
@pytest.mark.parametrize("language", OTHERS)
def test_each_sentence_is_found_by_its_words_and_by_no_other(language: str, whose: str) -> None:
    """With values that no other sentence has; two of one form, as the more telling one."""
    words = (f"QX{number}" for number in count())
    replies = SentenceTemplates(catalogue(language, "search"))
    known = SentenceTemplates(catalogue(language, whose), replies)
    for english, said in catalogue(language, whose).items():
        values = {
            hole: next(_SAMPLES.get(hole.rstrip("0123456789"), words))
            for hole in re.findall(r"\{(\w+)\}", english)
        }
        found = known.said(english.format(**values))
        if not re.search("[a-z]", shape(english)):
            assert found is None, "marks alone say nothing"
            continue
        assert found is not None, english
        expected = said.format(**values)
        assert found.replace(" ", "") == expected.replace(" ", ""), english


@pytest.mark.parametrize(
    ("english", "chinese"),
    [
        (
            "1.02 ± 0.03: within noise; a gain of 2.7 % would have been seen",
            "1.02 ± 0.03：在噪声范围内；若有 2.7 % 的提升本可测出",
        ),
        (
            "+12.3 % (+9.8 to +14.9) at first, not confirmed: measured again it was "
            "+1.0 % (-1.0 to +3.0), which reaches 0 %",
            "起初 +12.3 %（+9.8 至 +14.9），复核未确认：复测为 +1.0 %（-1.0 至 +3.0），区间含 0 %",
        ),
        (
            "probably faster, not proved yet: +18.2 % (-1.0 to +41.0) after 23 pairs of processes; "
            "measuring again may decide it",
            "很可能更快，尚未证实：+18.2 %（-1.0 至 +41.0），共 23 组；再次测量可能证实",
        ),
        (
            "not proved in 3 measurements: +18.2 % (-1.0 to +41.0) after 69 pairs of processes",
            "3 次测量均未证实：+18.2 %（-1.0 至 +41.0），共 69 组",
        ),
        (
            "1.02 ± more than 100: the measurement was too noisy to see any gain",
            "1.02 ± 超过 100：测量噪声太大，看不出任何提升",
        ),
        (
            "the run is over: the agent finished: every setting of the declared knobs was tried "
            "or ruled out (2 knobs, 12 settings, 12 measured)",
            "运行已结束：智能体结束了运行：声明的旋钮的所有取值组合都已尝试或排除"
            "（2 个旋钮，12 种取值组合，已测 12 种）",
        ),
        (
            "wrong values: max error 1.2e-02 > 1e-05 at [0, 1]: expected 3, got 4 "
            "(inputs: constant rows, not contiguous, shape [2, 3])",
            "数值错误：最大误差 1.2e-02 > 1e-05，位于 [0, 1]：应为 3，得到 4"
            "（输入：常数行，不连续，形状 [2, 3]）",
        ),
        (
            "/a/mine.py:7: found.how: its default is 'x', expected one of a, b",
            "/a/mine.py:7：found.how：其默认值为 'x'，应为其中之一：a, b",
        ),
        (
            "line 3: numpy.load touches files in forward (files)",
            "第 3 行：numpy.load 在 forward 里读写文件（files）",
        ),
        (
            "rejected in review (was faster: +12.3 % (+9.8 to +14.9))",
            "评审时被拒绝（原为：更快：+12.3 %（+9.8 至 +14.9））",
        ),
        ("rejected in review: mind {n}, {why}", "评审时被拒绝：mind {n}, {why}"),
        (
            "/a/events.jsonl:3: the journal is damaged at event 3, byte 90: its checksum is wrong; "
            "nothing was changed; to save what is sound: akg-tui salvage /a --out DIR",
            "/a/events.jsonl:3：日志文件已损坏，在事件 3，第 90 字节：校验和不对；"
            "什么都没有改动；抢救完好的部分：akg-tui salvage /a --out DIR",
        ),
    ],
)
def test_a_sentence_in_a_sentence_is_said_too_and_values_stay(english: str, chinese: str) -> None:
    assert retold(english) == english
    speak("zh")
    assert retold(english) == chinese


@pytest.mark.parametrize(
    "text",
    [
        "ZeroDivisionError: division by zero",
        "kernel.py:3: NameError: name 'x' is not defined",
        "use vector loads, 8 wide: they are faster",
        "{why}: {what}",
        "{n} line",
        "p" * 5_000,
        "",
    ],
)
def test_what_is_in_no_catalogue_stays_as_it_is(text: str) -> None:
    speak("zh")
    assert retold(text) == text


def test_a_language_model_is_never_translated() -> None:
    speak("zh")
    said = "the run is over: max rounds reached (3)"
    assert searched(said) == said
    assert searched("chosen by TPE from the measured ratios") == "由 TPE 根据测得的倍数选出"


def test_a_diagnosis_of_plain_facts_is_the_runs_own_words() -> None:
    cause = "p3: the process was killed by SIGSEGV while being called; p4: no plan item is active"
    speak("zh")
    fallback = ev.DiagnosisReported(cause=cause, source="fallback")
    said = "p3：进程在调用时被 SIGSEGV 杀死; p4：没有正在进行的计划项"
    assert translated(diagnosis_cause(fallback)) == said
    assert translated(diagnosis_cause(ev.DiagnosisReported(cause=cause))) == cause


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        (
            "/k/mine.toml: line 3: no command is called run.jump",
            "/k/mine.toml：第 3 行：没有叫 run.jump 的命令",
        ),
        ("theme /t/x.toml: [roles] lacks a, b", "主题 /t/x.toml：[roles] 缺少 a, b"),
        ("AKG_TUI_GLYPHS: glyphs cannot be 'x'; it can be: full, ascii",
         "AKG_TUI_GLYPHS：glyphs 不能是 'x'；可以是：full, ascii"),
        (
            "/k/mine.toml: line 2: the key n is given to run.step and to run.mode; run.step has it",
            "/k/mine.toml：第 2 行：按键 n 同时给了 run.step 和 run.mode；归 run.step",
        ),
    ],
)  # fmt: skip
def test_the_faults_of_a_persons_settings_are_said(fault: str, said: str) -> None:
    speak("zh")
    assert retold(fault) == said


@given(st.text(alphabet=list("{}[]\\:;,() \n\x1b中an0"), max_size=300))
def test_any_text_is_taken_without_an_error_and_stays_if_unknown(text: str) -> None:
    said = language._templates_of("zh", "told").said(text)
    assert language.translate_sentence("zh", text) == (text if said is None else said)
    unknown = re.search(r"[{}\\x1b]", text)
    assert not unknown or said is None or unknown[0] in said  # put in as it is


def test_a_text_of_separators_alone_costs_little() -> None:
    """The parts of a text are each looked up once: their number, not time, is what is bound."""
    looked: list[str] = []

    class Counting(SentenceTemplates):
        def near(self, text: str) -> list[language.SentenceTemplate]:
            looked.append(text)
            return super().near(text)

    known = Counting(catalogue("zh", "told"))
    known.said(("a; b: c, d (e) " * 100)[: language.LONGEST])
    assert len(looked) < 400


@pytest.mark.parametrize("language", OTHERS)
def test_a_catalogue_is_no_wider_than_a_screen_can_show(language: str) -> None:
    """A refusal is one row of the footer: what is said first must fit at 80 columns."""
    for english, said in catalogue(language, "told").items():
        head = re.split(r"[：；]", said)[0]
        assert cells(re.sub(r"\{\w+\}", "12", head)) <= max(78, cells(english)), english


def test_english_reads_no_catalogue() -> None:
    code = (
        "from akg_tui.tui import app; from akg_tui.view import language; "
        "assert language.retold('the run is not paused') == 'the run is not paused'; "
        "assert not language.catalogues.cache_info().currsize; "
        "language.speak('zh'); assert language.retold('the run is not paused') == '运行没有暂停'"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
