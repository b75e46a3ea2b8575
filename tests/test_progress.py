"""The progress line."""

import pytest

from depthstress.progress import PROGRESS_FILE, Progress, duration


@pytest.mark.parametrize(("seconds", "shown"), [(0, "0 s"), (59.4, "59 s"), (200, "3 min 20 s"), (7500, "2 h 5 min")])
def test_durations(seconds, shown):
    assert duration(seconds) == shown


def test_the_estimate_leaves_out_what_was_done_before(monkeypatch):
    now = [100.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    progress = Progress("training", 100, "updates", already=50)
    now[0] += 10
    progress.add(10, "loss 0.5")
    assert progress.line() == "training: 60 of 100 updates, 40 s left, loss 0.5"
    assert progress.line("done") == "training: 60 of 100 updates, done after 10 s, loss 0.5"


def test_the_line_reaches_the_file_and_ends(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv(PROGRESS_FILE, str(tmp_path / "line"))
    with Progress("evaluation", 2, "generations") as progress:
        assert (tmp_path / "line").read_text() == "evaluation: 0 of 2 generations, starting"
        progress.add(2)
    assert "done after" in (tmp_path / "line").read_text()
    assert "evaluation: 2 of 2 generations, done after 0 s" in capsys.readouterr().err


def test_a_failure_is_not_shown_as_done(capsys):
    with pytest.raises(RuntimeError), Progress("x", 2, "y"):
        raise RuntimeError
    assert "stopped after" in capsys.readouterr().err
