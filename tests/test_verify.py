"""Committed results stand; what is planted in a copy of them is found, also where its hash was adjusted."""

import json
import shutil

import pytest

from conftest import COMMITTED, FULL
from depthstress import checks
from depthstress.checks import CHECKS, NoResults, Results
from depthstress.files import file_sha256
from depthstress.verify import found, main, verify

DETAILS, REPORT = "analysis/details.csv", "report.html"
STEPWISE = "generations/full_stepwise_kind-s101/generations.jsonl"
TEXTS = "generations/program_stack-s101/generations.jsonl"


@pytest.fixture(scope="module")
def sound(tmp_path_factory):
    """The committed results, everything made again once."""
    results = Results(COMMITTED, tmp_path_factory.mktemp("scratch"))
    assert {check.__name__: check(results) for check in CHECKS} == {check.__name__: [] for check in CHECKS}
    return results


@pytest.mark.slow
def test_the_full_results_stand():
    """In a clone they are without the adapters' weights."""
    assert verify(FULL) == {check.__name__: [] for check in CHECKS}


@pytest.fixture
def copy(tmp_path):
    folder = tmp_path / "outputs" / "local"
    shutil.copytree(COMMITTED, folder, ignore=shutil.ignore_patterns(".*", "stale", "done.json", "adapters"))
    return folder


def edit(name, old, new):
    """Replace the first `old` of a file."""

    def damage(folder):
        text = (folder / name).read_text(encoding="utf-8")
        assert old in text, f"{name} has no {old!r}"
        (folder / name).write_text(text.replace(old, new, 1), encoding="utf-8")

    return damage


def rows(name, change):
    """Change the rows of a JSONL file."""

    def damage(folder):
        content = [json.loads(line) for line in (folder / name).read_text().splitlines()]
        content = change(content) or content
        (folder / name).write_text("".join(json.dumps(row) + "\n" for row in content))

    return damage


def manifest(change):
    def damage(folder):
        content = json.loads((folder / "manifest.json").read_text())
        change(content)
        (folder / "manifest.json").write_text(json.dumps(content))

    return damage


def adjusted(damage):
    """The same, with every hash in the manifest adjusted to what lies there."""

    def both(folder):
        damage(folder)
        content = json.loads((folder / "manifest.json").read_text())
        content["files"] = {
            name: file_sha256(folder / name) if (folder / name).is_file() else digest for name, digest in content["files"].items()
        }
        (folder / "manifest.json").write_text(json.dumps(content, indent=1, sort_keys=True) + "\n")

    return both


def first(**fields):
    return lambda content: content[0].update(fields)


def a_step(content):
    content[0]["steps"][0]["text"] = "PUSH 1\n"


def a_better_outcome(content):
    row = next(row for row in content if row["failure"])
    row.update(failure=None, end="eos")


PLANTED = {
    "a byte of a table": (checks.files_are_as_recorded, edit(DETAILS, "program_stack", "program_stacc")),
    "a lost figure": (checks.files_are_as_recorded, lambda f: (f / "figures/costs.svg").unlink()),
    "a file too many": (checks.files_are_as_recorded, lambda f: (f / "generations/x.jsonl").write_text("{}\n")),
    "another learning rate": (checks.settings_are_the_suites, manifest(lambda m: m["suite"]["train"].update(lr=0.5))),
    "another model": (checks.settings_are_the_suites, manifest(lambda m: m["model"].update(weights="fp32"))),
    "a stage that never ran": (checks.settings_are_the_suites, manifest(lambda m: m["stages"].pop("03_eval"))),
    "another answer": (checks.data_follow, adjusted(rows("data/s101/eval_comp_d2.jsonl", first(answer="7")))),
    "a split too many": (checks.data_follow, lambda f: shutil.copy(f / "data/s101/train.jsonl", f / "data/s101/more.jsonl")),
    "a dropped generation": (checks.generations_are_whole, adjusted(rows(TEXTS, lambda c: c[1:]))),
    "a doubled generation": (checks.generations_are_whole, adjusted(rows(TEXTS, lambda c: [c[0], *c]))),
    "another order": (checks.generations_are_whole, adjusted(rows(TEXTS, lambda c: c[::-1]))),
    "another seed": (checks.generations_are_whole, adjusted(rows(TEXTS, first(seed=102)))),
    "another arm": (checks.generations_are_whole, adjusted(rows(TEXTS, first(arm="full")))),
    "another prompt": (checks.generations_are_whole, adjusted(rows(TEXTS, first(prompt_sha256="0" * 64)))),
    "tokens as text": (checks.generations_are_whole, adjusted(rows(TEXTS, first(new_tokens="9")))),
    "an end that there is not": (checks.generations_are_whole, adjusted(rows(TEXTS, first(end="done")))),
    "a row that is none": (checks.generations_are_whole, adjusted(rows(TEXTS, lambda c: [7, *c[1:]]))),
    "a changed step": (checks.generations_are_whole, adjusted(rows(STEPWISE, a_step))),
    "an outcome that its steps do not have": (checks.generations_are_whole, adjusted(rows(STEPWISE, a_better_outcome))),
    "a better text": (checks.tables_follow, adjusted(rows("generations/full-s101/generations.jsonl", first(text="PUSH 1\n")))),
    "a table of fewer arms": (checks.tables_follow, adjusted(edit("analysis/part.json", '"full",', ""))),
    "a score": (checks.tables_follow, adjusted(edit(DETAILS, ",1,", ",0,"))),
    "a mean": (checks.tables_follow, adjusted(edit("analysis/metrics.csv", "0.", "0.0"))),
    "a p value": (checks.tables_follow, adjusted(edit("analysis/comparisons.csv", "1.0", "0.01"))),
    "a last loss": (checks.tables_follow, adjusted(edit("analysis/checkpoints.csv", ",22,", ",21,"))),
    "another adapter": (checks.tables_follow, adjusted(edit("analysis/checkpoints.csv", 'program_stack-s101",22', 'program_stack-s101",23'))),
    "a figure's number": (checks.figures_follow, adjusted(edit("figures/execution_by_depth.csv", "0.", "0.0"))),
    "a figure's line": (checks.figures_follow, adjusted(edit("figures/execution_by_depth.svg", "L ", "L 1"))),
    "a figure of nothing": (checks.figures_follow, lambda f: (f / "figures/more.csv").write_text("a\n")),
    "a number in a sentence": (checks.report_follows, adjusted(edit(REPORT, "648 generations", "684 generations"))),
    "a hash in the report": (checks.report_follows, adjusted(edit(REPORT, "source code sha256 <code>", "source code sha256 <code>0"))),
    "a row of the log": (checks.report_follows, adjusted(edit("log.md", "| 648 |", "| 640 |"))),
    "a failed notebook": (checks.notebooks_ran, edit("notebooks/03_eval.ipynb", '"output_type": "stream"', '"output_type": "error", "ename": "E", "evalue": "", "traceback": []')),
    "no notebook": (checks.notebooks_ran, lambda f: (f / "notebooks/02_train.ipynb").unlink()),
}  # fmt: skip


@pytest.mark.parametrize("planted", PLANTED)
def test_what_is_planted_is_found(sound, copy, planted):
    check, damage = PLANTED[planted]
    damage(copy)
    results = Results(copy, sound.run.folder.parent)
    if check not in (checks.generations_are_whole, checks.tables_follow):  # what was planted leaves these as they are
        results.__dict__ |= {"tables": sound.tables, "findings": sound.findings}
    assert found(check, results)


def test_a_sound_copy_stands_and_a_damaged_one_is_told_from_it(copy, capsys):
    assert main([str(copy)]) == 0
    assert capsys.readouterr().out.endswith("the results stand; not there, and so not checked: adapters\n")
    adjusted(rows(TEXTS, first(text="\x1b[2Jgone\n")))(copy)
    assert main([str(copy)]) == 1
    shown = capsys.readouterr().out
    assert "tables follow: NO" in shown and "analysis/details.csv, line" in shown and "DO NOT STAND" in shown
    assert "\x1b" not in shown


@pytest.mark.parametrize(("damage", "message"), [
    (lambda f: shutil.rmtree(f), "no results to check: manifest.json"),
    (lambda f: (f / "manifest.json").write_text("{"), "no results to check: manifest.json"),
    (lambda f: (f / "manifest.json").write_text("[]"), "holds no JSON object"),
    (lambda f: (f / "manifest.json").write_text("{}"), "is not one of ours"),
    (manifest(lambda m: m["suite"].update(seeds="all")), "is not one of ours"),
    (lambda f: (f / "analysis/part.json").write_text('{"arms": ["none"], "seeds": [101]}'), "is not one of ours"),
])  # fmt: skip
def test_a_folder_without_results_is_refused_with_a_sentence(copy, damage, message, capsys):
    damage(copy)
    with pytest.raises(NoResults, match=message):
        verify(copy)
    assert main([str(copy)]) == 2
    assert message in capsys.readouterr().out
