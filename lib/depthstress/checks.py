"""What `verify` checks of a suite's results, each check a function from results to a list of problems.

Everything is made again from the step before it in another folder, and every byte compared.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from functools import cached_property
from itertools import zip_longest
from pathlib import Path

import nbformat

from .analysis import FINISHED, PART, Tables, make_tables, read_rows, read_tables, score_texts, write_tables
from .data import make_data
from .files import file_sha256, write_json, write_text
from .formats import prompt_sha256
from .inputs import Prompt, prompts
from .report.composition import composition_findings
from .report.findings import Finding, findings, save_figure
from .report.whole import whole
from .runs import Run
from .stages import STAGES, stage_files
from .stepwise import Loop
from .suites import Model, SettingsError, Suite, load_suite
from .units import DONE

MAY_LACK = ("data", "adapters")  # folders that a repository need not keep: the first can be made again, the second is what was trained
ROW = {"example_id": str, "arm": str, "seed": int, "split": str, "prompt_sha256": str, "text": str, "end": str, "new_tokens": int}
ENDS = {"eos", "stop", "limit", "failed"}
SHOWN = 100  # characters of a text in a message


class NoResults(ValueError):
    """The folder holds no results that could be checked."""


class Results:
    """What lies in a folder, and what follows from its settings and texts: made again in another folder, `scratch`."""

    def __init__(self, folder: Path, scratch: Path) -> None:
        self.folder = folder
        self.manifest = json_object(folder / "manifest.json")
        part = json_object(folder / "analysis" / PART)
        try:
            suite, model = Suite.model_validate(self.manifest["suite"]), Model.model_validate(self.manifest["model"])
            self.files, self.stages = dict(self.manifest["files"]), dict(self.manifest["stages"])
            self.run = Run(suite, model, part["arms"], part["seeds"], scratch)
        except (KeyError, TypeError, ValueError) as error:
            raise NoResults(f"{folder}: its manifest.json or analysis/{PART} is not one of ours: {error}") from None
        self.run.folder.mkdir(parents=True, exist_ok=True)
        for seed in self.run.seeds:
            make_data(self.run, seed)
        if (folder / "adapters").is_dir():
            (self.run.folder / "adapters").symlink_to((folder / "adapters").resolve())

    @cached_property
    def texts(self) -> dict[tuple[str, int], list[dict]]:
        return {key: read_rows(self.folder / self.run.generations(*key).name) for key in self.run.evaluations}

    @cached_property
    def tables(self) -> Tables:
        """The tables that follow from the texts; those of training, without the adapters' records, as they lie there."""
        tables = make_tables(self.run, score_texts(self.run, self.texts))
        if len(tables.checkpoints) == len(self.run.adapters):
            return tables
        kept = read_tables(Run(self.run.suite, self.run.model, outputs=self.folder.parent))
        return Tables(**{**vars(tables), "training_log": kept.training_log, "checkpoints": kept.checkpoints})

    @cached_property
    def findings(self) -> list[Finding]:
        return [*findings(self.run, self.tables), *composition_findings(self.tables)]


def files_are_as_recorded(results: Results) -> list[str]:
    """Every file has its hash in the manifest, and no file lies there beside them."""
    absent = tuple(f"{name}/" for name in MAY_LACK if not (results.folder / name).is_dir())
    problems = []
    for name, digest in results.files.items():
        path = results.folder / name
        if path.is_file():
            problems += [] if file_sha256(path) == digest else [f"{name} was changed"]
        elif not name.startswith(absent or ("\0",)) and not name.endswith(".safetensors"):
            problems.append(f"{name} is missing")
    here = Run(results.run.suite, results.run.model, outputs=results.folder.parent)
    there = {path.relative_to(results.folder).as_posix() for stage in STAGES for path in stage_files(here, stage)}
    return problems + [f"{name} is not in the manifest" for name in sorted(there - set(results.files))]


def settings_are_the_suites(results: Results) -> list[str]:
    """The results were made with the suite and the model as their files are now."""
    problems = [f"stage {stage} is not recorded as run" for stage in STAGES if stage not in results.stages]
    run = results.run
    try:
        now = Run(load_suite(run.suite.name), run.model.name)
    except SettingsError as error:
        return [*problems, str(error)]
    for what, made, there in (("suite", run.suite, now.suite), ("model", run.model, now.model)):
        made, there = made.model_dump(), there.model_dump()
        problems += [f"{what}.{field} is another one now" for field in there if made.get(field) != there[field]]
    return problems + ([] if results.folder.name == now.name else [f"the folder of this run is {now.name}, not {results.folder.name}"])


def data_follow(results: Results) -> list[str]:
    """The data are what the settings make."""
    if not (results.folder / "data").is_dir():
        return []
    problems = []
    for seed in results.run.seeds:
        unit = results.run.data(seed)
        problems += _differing(unit.folder, results.folder / unit.name, unit.name)
    return problems


def generations_are_whole(results: Results) -> list[str]:
    """Every task has one generation of the right form, from the prompt that the data give; loops follow from their steps."""
    problems = []
    for (name, seed), rows in results.texts.items():
        where = f"generations/{name}-s{seed}"
        if not (results.folder / where / FINISHED).is_file():
            problems.append(f"{where}: unfinished")
        wanted = {prompt.example_id: prompt for prompt in prompts(results.run, name, seed)}
        ids = [row.get("example_id") for row in rows if isinstance(row, dict)]
        if ids != list(wanted):
            problems.append(
                f"{where}: {len(ids)} generations, {len(set(wanted) & set(ids))} of the {len(wanted)} tasks, or in another order"
            )
            continue
        found = (
            f"{where}: {shown(row['example_id'])}: {problem}"
            for row in rows
            for problem in _row(row, name, seed, wanted[row["example_id"]])
        )
        problems += list(found)
        problems += [] if problems else _replayed(results, name, seed, rows, where)
    return problems


def _row(row: dict, arm: str, seed: int, prompt: Prompt) -> list[str]:
    wrong = [field for field, kind in ROW.items() if type(row.get(field)) is not kind]
    if wrong:
        return [f"{', '.join(wrong)}: missing, or of another type"]
    expected = {"arm": arm, "seed": seed, "split": prompt.split, "prompt_sha256": prompt_sha256(prompt.text)}
    problems = [f"{field} is {shown(row[field])}, not {shown(value)}" for field, value in expected.items() if row[field] != value]
    problems += [] if row["end"] in ENDS else [f"end is {shown(row['end'])}"]
    return problems + ([] if row["new_tokens"] >= 0 else ["new_tokens is negative"])


def _replayed(results: Results, name: str, seed: int, rows: list[dict], where: str) -> list[str]:
    """A loop, given its answers again, asks the same questions and comes to the same outcome."""
    arm = results.run.arm(name)
    if not arm.stepwise:
        return []
    by_id = {example.id: example for split in results.run.suite.splits for example in results.run.examples(split.name, seed)}
    problems = []
    for row in rows:
        loop = Loop(by_id[row["example_id"]], arm)
        try:
            for step in row["steps"]:
                loop.take(loop.ask(), step["text"], step["end"], step["tokens"])
            same = loop.outcome() == {field: row.get(field) for field in loop.outcome()}
        except (KeyError, TypeError, IndexError):
            same = False
        problems += [] if same else [f"{where}: {shown(row['example_id'])}: its steps do not lead to its outcome"]
    return problems


def tables_follow(results: Results) -> list[str]:
    """Every table is what the texts, scored again, make; training's are what the adapters recorded."""
    write_tables(results.run, results.tables)
    write_json(results.run.analysis.folder / PART, {"arms": results.run.arms, "seeds": results.run.seeds})
    return _differing(results.run.analysis.folder, results.folder / "analysis", "analysis") + _training(results)


def _training(results: Results) -> list[str]:
    """The adapters' table against the manifest, the suite and the losses."""
    log, adapters, run = results.tables.training_log, results.tables.checkpoints, results.run
    problems = []
    if sorted(zip(adapters["adapter"], adapters["seed"])) != sorted(run.adapters):
        problems.append("analysis/checkpoints.csv: other adapters than the suite's")
    for row in adapters.itertuples():
        own = log[(log["adapter"] == row.adapter) & (log["seed"] == row.seed)]
        where = f"analysis/checkpoints.csv: {shown(row.adapter)}, seed {row.seed}"
        if not len(own) == row.updates == own["step"].max() or own["loss"].iloc[-1] != row.last_loss:
            problems.append(f"{where}: updates or last loss are not those of training_log.csv")
        elif (row.adapter, row.seed) in run.adapters and row.updates != run.suite.training(run.trained_as(row.adapter).training).updates:
            problems.append(f"{where}: {row.updates} updates are not those of the suite")
        if results.files.get(f"{row.folder}/adapter_model.safetensors") != row.sha256:
            problems.append(f"{where}: its hash is not the manifest's")
    return problems


def figures_follow(results: Results) -> list[str]:
    """Every figure, and the data beside it, is what the tables make."""
    for finding in results.findings:
        save_figure(results.run, finding)
    return _differing(results.run.folder / "figures", results.folder / "figures", "figures")


def report_follows(results: Results) -> list[str]:
    """The report is, to the byte, what tables, manifest and log make."""
    log = (results.folder / "log.md").read_text(encoding="utf-8").splitlines(keepends=True)
    write_text(results.run.folder / "log.md", "".join(log[:-1]))  # its own row was written after it
    shutil.copy(results.folder / "manifest.json", results.run.folder / "manifest.json")
    write_text(results.run.folder / "report.html", whole(results.run, results.tables, results.findings).render())
    return _difference(results.run.folder / "report.html", results.folder / "report.html", "report.html")


def notebooks_ran(results: Results) -> list[str]:
    """An executed copy of every notebook lies there, without an error in it."""
    problems = []
    for stage in STAGES:
        copies = sorted((results.folder / "notebooks").glob(f"{stage}*.ipynb"))
        problems += [] if copies else [f"notebooks/: no executed copy of {stage}"]
        for path in copies:
            try:
                cells = [cell for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == "code"]
            except Exception as error:  # nbformat raises many kinds
                problems.append(f"notebooks/{path.name} can't be read: {shown(str(error))}")
                continue
            if not all(cell.execution_count for cell in cells) or any(out.output_type == "error" for cell in cells for out in cell.outputs):
                problems.append(f"notebooks/{path.name}: a cell did not run, or failed")
    return problems


Check = Callable[[Results], list[str]]
CHECKS: tuple[Check, ...] = (
    files_are_as_recorded, settings_are_the_suites, data_follow, generations_are_whole, tables_follow, figures_follow, report_follows,
    notebooks_ran,
)  # fmt: skip


def _differing(made: Path, there: Path, where: str) -> list[str]:
    """Files that differ between what was made again and what lies there, or that only one of them has."""
    names, others = ({path.name for path in folder.glob("[!.]*") if path.is_file() and path.name != DONE} for folder in (made, there))
    problems = [f"{where}/{name}: {'missing' if name in names else 'follows from nothing'}" for name in sorted(names ^ others)]
    return problems + [problem for name in sorted(names & others) for problem in _difference(made / name, there / name, f"{where}/{name}")]


def _difference(made: Path, there: Path, name: str) -> list[str]:
    ours, theirs = (path.read_bytes() for path in (made, there))
    if ours == theirs:
        return []
    pairs = zip_longest(ours.decode(errors="replace").split("\n"), theirs.decode(errors="replace").split("\n"))
    line, one, other = next((n, *pair) for n, pair in enumerate(pairs, 1) if pair[0] != pair[1])
    place = next(n for n, (a, b) in enumerate(zip_longest(one or "", other or "")) if a != b)
    start = max(place - SHOWN // 2, 0)
    return [f"{name}, line {line}, character {place + 1}: {shown((other or '')[start:])}, made again {shown((one or '')[start:])}"]


def shown(value: object) -> str:
    """A value in a message: cut, and without anything that a terminal would obey."""
    return ascii(value if isinstance(value, int) else str(value)[:SHOWN])


def json_object(path: Path) -> dict:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise NoResults(f"{path.parent}: no results to check: {path.name}: {error}. A run of all five notebooks makes them.") from None
    if not isinstance(content, dict):
        raise NoResults(f"{path}: holds no JSON object")
    return content
