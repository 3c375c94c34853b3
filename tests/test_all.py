"""All sweeps one after the other: which, what is told before each, and what an end is."""

import json
from pathlib import Path

import pytest

from reproduce import all as every
from reproduce.all import Ended, main, tasks_of_scale, time_left, told, usual_seconds

SMALL = ["sweep.batch_sizes=[4,32]", "sweep.spacings=[1]", "task.dimensions=16", "task.goals=[0.5]"]


def summary(folder: Path, task: str, kind: str, seconds: float) -> None:
    path = folder / task / "mini" / "summary.json"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps({"sweep_name": kind, "sweep": {"seconds": seconds, "cores": 2}}))


def test_tasks_are_those_with_a_config_of_the_scale():
    mini, paper = tasks_of_scale("mini"), tasks_of_scale("paper")
    assert {"mnist", "svhn", "billion_word", "dota_5v5", "noisy_quadratic"} <= set(mini)
    assert "atari_seaquest" in set(paper) - set(mini)


def test_usual_times_come_from_earlier_sweeps(tmp_path):
    summary(tmp_path, "mnist", "full", 2000)
    path = tmp_path / "mnist" / "mini" / "summary.json"
    assert usual_seconds(path, "full") == 1000  # on two cores
    assert usual_seconds(path, "quick") == pytest.approx(300)
    assert usual_seconds(path, "grid") is None
    assert usual_seconds(tmp_path / "none.json", "full") is None
    path.write_text("{")
    assert usual_seconds(path, "full") is None


def test_time_left_follows_the_pace_of_what_has_ended():
    usual = {"a": 100.0, "b": 200.0, "c": 400.0, "d": None}
    assert time_left(["b", "c"], usual, []) == "about 10 min 00 s left"
    assert time_left(["b", "c"], usual, [Ended("a", 0, 150.0)]) == "about 15 min 00 s left"
    assert time_left(["b", "c"], usual, [Ended("a", 0, 2.0)]) == "about 10 min 00 s left"  # it was there already
    assert time_left(["c", "d"], usual, []) == "about 6 min 40 s left, without 1 that were never swept"
    assert time_left(["d"], usual, []) == "no earlier sweep tells how long they take"
    line = told("c", ["a", "b", "c"], usual, [Ended("a", 0, 1.0), Ended("b", 1, 1.0)])
    assert line == "sweep 3 of 3: c; about 6 min 40 s left; failed: b"


def test_a_sweep_that_fails_does_not_stop_the_others(monkeypatch, capsys, tmp_path):
    commands = []

    class Done:
        def __init__(self, code: int) -> None:
            self.returncode = code

    def start(command: list[str]) -> Done:
        commands.append(command)
        return Done(1 if "task=mnist/mini" in command else 0)

    monkeypatch.setattr(every.subprocess, "run", start)
    assert main(["mnist", "svhn", "--results", str(tmp_path), "--", "sweep=full"]) == 1
    assert [command[-3:] for command in commands] == [
        [f"task={task}/mini", f"results={tmp_path}", "sweep=full"] for task in ("mnist", "svhn")
    ]
    printed = capsys.readouterr().out
    assert "mnist: failed" in printed
    assert "svhn: done" in printed
    monkeypatch.setattr(every.subprocess, "run", lambda command: commands.append(command) or Done(130))
    assert main(["mnist", "svhn", "--results", str(tmp_path)]) == 130
    assert len(commands) == 3  # an interrupt ends the whole


def test_a_real_sweep_through_it(tmp_path, capfd):
    arguments = ["noisy_quadratic", "--results", str(tmp_path), "--", *SMALL, "hydra/launcher=basic"]
    assert main([*arguments, f"outputs={tmp_path}"]) == 0
    assert (tmp_path / "noisy_quadratic" / "mini" / "summary.json").exists()
    assert "sweep 1 of 1: noisy_quadratic; no earlier sweep tells" in capfd.readouterr().out


def test_an_unknown_task_is_told_with_those_that_there_are(capsys):
    with pytest.raises(SystemExit):
        main(["mnits"])
    assert "no task mnits of scale mini; there are" in capsys.readouterr().err
