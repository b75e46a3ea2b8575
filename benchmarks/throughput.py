"""How fast the study is around the model: scoring, data, analysis, start-up.

Every measurement runs in a fresh process, so that none finds another's caches, imports or memory. Rates count the
processor's time of one core; start-up counts the clock's.
"""

from __future__ import annotations

import ast
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from statistics import median

from depthstress.suites import ROOT

from .results import ROWS, Results

RESULTS = ROOT / "outputs"
PUBLISHED = ROOT.parent / "shared" / "published" / "main_v1"
REPETITIONS = 5


def score_rate() -> dict[str, float]:
    """Texts scored a second: the real ones for the first time and again, and texts of new tasks for the first time.

    The real ones are the committed generations and, where they are beside the project, the published run's 1,920.
    """
    return _fresh(_score_rate)


def data_rate(count: int = 100_000) -> dict[str, float]:
    """Examples made a second, over all families and depths 1 to 8, and the memory that they take."""
    return _fresh(_data_rate, count)


def analysis_cost(rows: int) -> dict[str, float]:
    """Seconds and peak memory of everything that the analysis makes of so many scored generations, its CSVs included."""
    return _fresh(_analysis_cost, rows)


def import_seconds() -> dict[str, float]:
    """What each notebook imports, and what `make study` imports, in a fresh Python; the median of some."""
    imports = {path.stem: _imports(path) for path in sorted((ROOT / "notebooks").glob("*.ipynb"))} | {"study": "import depthstress.study"}
    return {f"import_{name}_seconds": median(_seconds(code) for _ in range(REPETITIONS)) for name, code in imports.items()}


def load_seconds(model: str = "smollm2-135m") -> dict[str, float]:
    """Loading a base model from the cache, its libraries imported before; the median of some."""
    return {"load_seconds": median(_fresh(_load_seconds, model) for _ in range(REPETITIONS))}


def _score_rate() -> dict[str, float]:
    from depthstress.scoring import score

    def rate(rows: list[tuple]) -> float:
        started = time.process_time()
        for row in rows:
            score(*row)
        return len(rows) / (time.process_time() - started)

    real = _real_texts()
    programs = [row for row in real if row[0]]
    first = rate(real)
    return {
        "score_texts": len(real), "score_programs": len(programs), "score_first_per_second": first,
        "score_per_second": median(rate(real) for _ in range(REPETITIONS)),
        "score_programs_per_second": median(rate(programs) for _ in range(REPETITIONS)),
        "score_new_per_second": rate(_new_texts(5_000)),
    }  # fmt: skip


def _real_texts() -> list[tuple]:
    """The arguments of `score` for every real generation that there is."""
    from depthstress.analysis import read_tables
    from depthstress.formats import FORMATS
    from depthstress.rescore import read_published
    from depthstress.runs import Run, read_examples

    run = Run("local", outputs=RESULTS)
    gold = {
        e.id: e.program for seed in run.seeds for s in run.suite.splits for e in read_examples(run.data(seed).folder / f"{s.name}.jsonl")
    }
    rows = [(r.format, r.generated, r.answer, gold[r.example_id]) for r in read_tables(run).details.itertuples()]
    if PUBLISHED.is_dir():
        rows += [(r.arm, r.generated, r.answer, r.target) for r in read_published(PUBLISHED, "details.csv").itertuples()]
    return [(FORMATS[form].reads_program, *rest) for form, *rest in rows]


def _new_texts(count: int) -> list[tuple]:
    """Texts of new tasks in every arm, by turns the target and the target without its last instruction, the commonest failure."""
    from depthstress.formats import FORMATS
    from depthstress.tasks import make_split

    rows = []
    for number, example in enumerate(make_split("throughput", "new", 1, count, list(range(1, 9)), "standard", "full", set())):
        for form in FORMATS.values():
            lines = form.target(example).splitlines()
            text = "\n".join(lines[: len(lines) - number % 2])
            rows.append((form.reads_program, text, example.answer, example.program))
    return rows


def _data_rate(count: int) -> dict[str, float]:
    from depthstress.tasks import make_split

    started = time.process_time()
    examples = make_split("throughput", "data", 1, count, list(range(1, 9)), "standard", "full", set())
    seconds = time.process_time() - started
    return {"data_examples": len(examples), "data_seconds": seconds, "data_per_second": count / seconds, "data_peak_gib": _peak_gib()}


def _analysis_cost(rows: int) -> dict[str, float]:
    from depthstress.analysis import make_tables, write_tables
    from depthstress.runs import Run

    details = _details(rows)
    with tempfile.TemporaryDirectory() as folder:
        run = Run("local", outputs=Path(folder))
        started = time.monotonic()
        write_tables(run, make_tables(run, details))
        seconds = time.monotonic() - started
    return {"analysis_rows": rows, "analysis_seconds": seconds, "analysis_peak_gib": _peak_gib()}


def _details(rows: int):
    """The committed details over and over: each time another seed, with texts of its own, as those of a real run are."""
    import pandas as pd

    from depthstress.analysis import TEXTS, read_tables
    from depthstress.runs import Run

    real = read_tables(Run("local", outputs=RESULTS)).details
    turn = pd.Series(range(rows)) // len(real)
    details = real.take([row % len(real) for row in range(rows)]).reset_index(drop=True)
    details["seed"] += turn
    details["example_id"] = [f"{name}-{seed}" for name, seed in zip(details["example_id"], details["seed"])]
    for column in details.columns.intersection(TEXTS):
        if details[column].nunique() > 20:
            details[column] = [f"{text} "[:-1] for text in details[column]]
    return details


def _load_seconds(model: str) -> float:
    import peft  # noqa: F401
    from transformers import AutoModelForCausalLM, AutoTokenizer  # noqa: F401

    from depthstress.models import load_base
    from depthstress.suites import load_model

    started = time.monotonic()
    load_base(load_model(model))
    return time.monotonic() - started


def _imports(notebook: Path) -> str:
    """The import statements of a notebook, in order."""
    cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    trees = (ast.parse("".join(cell["source"])) for cell in cells if cell["cell_type"] == "code")
    return "\n".join(ast.unparse(node) for tree in trees for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom))


def _seconds(code: str) -> float:
    timed = f"import time\nstarted = time.monotonic()\n{code}\nprint(time.monotonic() - started)"
    return float(subprocess.run([sys.executable, "-c", timed], check=True, capture_output=True, text=True).stdout)


def _fresh(work: Callable, *arguments):
    """What a function returns in a process of its own."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as process:
        return process.submit(work, *arguments).result()


def _peak_gib() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def measure(results: Results, quick: bool) -> None:
    """A repetition: everything once; of the analysis the smaller sizes alone where it is only tried."""
    for _ in results.missing("around"):
        sample = score_rate() | data_rate(1_000 if quick else 100_000) | import_seconds() | load_seconds()
        for rows in ROWS[:2] if quick else ROWS:
            cost = analysis_cost(rows)
            sample |= {f"analysis_{rows}_{what}": cost[f"analysis_{what}"] for what in ("seconds", "peak_gib")}
        results.add("around", sample)
