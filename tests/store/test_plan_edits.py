"""A hand edit of PLAN.md is noticed, told and kept: never absorbed, never written over."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from akg_tui.core import events as ev
from akg_tui.core.fold import fold
from akg_tui.core.plan.plan_document import render_plan
from akg_tui.store import run_folder
from akg_tui.store.run_folder import RunFolder
from tests.store import scripted


def edits(run: RunFolder) -> list[ev.PlanEdited]:
    return [r.event for r in run.records if isinstance(r.event, ev.PlanEdited)]


def test_a_hand_edit_is_told_and_kept_aside(run: RunFolder) -> None:
    plan = run.path / "PLAN.md"
    mine = plan.read_text() + "\nplease try smaller blocks\n"
    plan.write_text(mine)
    run.append(ev.HintGiven(text="x"))
    run.project()
    kept = run.path / "PLAN.md.edited-1"
    assert kept.read_text() == mine
    assert plan.read_text() == render_plan(run.state)
    digest = hashlib.sha256(mine.encode()).hexdigest()
    assert edits(run) == [ev.PlanEdited(kept=kept.name, sha256=digest)]
    assert run.state.plan_edits == tuple(edits(run))


def test_every_edit_has_a_name_of_its_own_over_sessions(run: RunFolder) -> None:
    for number in (1, 2):
        (run.path / "PLAN.md").write_text(f"mine {number}")
        run.project()
    run.close()
    (run.path / "PLAN.md").write_text("mine 3")
    again = RunFolder.open(run.path)
    names = [edit.kept for edit in edits(again)]
    assert names == ["PLAN.md.edited-1", "PLAN.md.edited-2", "PLAN.md.edited-3"]
    assert [(run.path / name).read_text() for name in names] == ["mine 1", "mine 2", "mine 3"]
    again.close()


def test_a_hand_edit_of_a_run_at_rest_is_no_time_worked(run: RunFolder) -> None:
    scripted.recover(run)
    worked = run.state.worked_s
    run.close()
    (run.path / "PLAN.md").write_text("mine, a night later")
    night = run.state.last_at + 9 * 3600
    again = RunFolder.open(run.path, clock=lambda: night)
    scripted.recover(again)
    assert len(edits(again)) == 1
    assert again.state.worked(night) == worked
    again.close()


def test_the_harness_never_takes_its_own_writing_for_a_hand(run: RunFolder) -> None:
    scripted.go_on(run)
    run.close()
    # As after a crash between the journal line and the projection: an older rendering.
    planned = next(r.seq for r in run.records if isinstance(r.event, ev.PlanSubmitted))
    before = fold(run.records[:planned])
    assert before is not None
    assert render_plan(before) != render_plan(run.state)
    (run.path / "PLAN.md").write_text(render_plan(before))
    RunFolder.open(run.path).close()
    older = scripted.create_run(scripted.make_task(run.path / "other"))
    (run.path / "PLAN.md").write_text(render_plan(older.state))
    older.close()
    again = RunFolder.open(run.path)
    assert edits(again) == []
    assert not list(run.path.glob("PLAN.md.edited-*"))
    again.close()


def test_a_link_in_the_place_of_plan_md_is_kept_as_a_link(run: RunFolder, tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.write_text("theirs")
    plan = run.path / "PLAN.md"
    plan.unlink()
    plan.symlink_to(target)
    run.project()
    assert (run.path / "PLAN.md.edited-1").readlink() == target
    assert target.read_text() == "theirs"
    assert not plan.is_symlink()


def test_a_crash_between_telling_and_keeping_loses_and_doubles_nothing(
    run: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    (run.path / "PLAN.md").write_text("mine")

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(run_folder, "set_aside", killed)
        with pytest.raises(KeyboardInterrupt):
            run.project()
    assert (run.path / "PLAN.md").read_text() == "mine"
    run.close()
    again = RunFolder.open(run.path)
    assert len(edits(again)) == 1
    assert (run.path / "PLAN.md.edited-1").read_text() == "mine"
    again.close()
