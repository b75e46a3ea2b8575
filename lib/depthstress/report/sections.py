"""The report's sections besides the figures: what each says is computed from the run in front of it."""

from __future__ import annotations

import pandas as pd

from ..analysis import Tables
from ..opcodes import reference_card
from ..published import CITATION, published_coverage, published_summary
from ..runs import Run
from ..stages import LOG_COLUMNS, read_log, read_manifest
from ..tasks import FAMILIES, droppable
from ..theme import FAILURE_WORDS
from .headline import answer, operations
from .html import code, percent
from .page import Page

QUESTION = "Does a language model execute the procedure that it was given?"


def opening(page: Page, run: Run, tables: Tables) -> None:
    """The question, the answer, why it matters."""
    train = run.suite.train
    page.text(
        "Give a language model a procedure, step by step. Does it write the right steps, or a text that only looks like it? And if the steps are a program that a "
        f"deterministic interpreter runs, how much of what the model loses comes back? Here **{run.model.title}** was fine-tuned on {train.examples} procedures of "
        f"{' or '.join(map(operations, train.depths))} and asked for longer ones ({_seeds(tables)}, {len(tables.details)} generations)."
    )
    for sentence in answer(tables.details):
        page.lead(sentence)
    page.text(
        "**Why it matters.** A final answer says whether a model was right, not whether it followed the steps. A program can be checked line by line, and a valid one runs without "
        "slips of calculation. Where the steps are right and the model's own answer is wrong, an interpreter is the cure; where the steps themselves are wrong, it is not."
    )
    page.table(
        beside_published(run, tables, short=True),
        f"This run ({run.model.title}, {_seeds(tables)}) beside the published one, shallowest and deepest standard split; difference in percentage points. Models, sizes and "
        f"recipes differ, so this is no replication test. Published: {CITATION}.",
    )


def method(page: Page, run: Run) -> None:
    """How it was done, with one task as each arm sees it."""
    seed, suite = run.seeds[0], run.suite
    split = suite.splits[min(1, len(suite.splits) - 1)]
    example = run.examples(split.name, seed)[0]
    train, evaluation = suite.train, suite.evaluation
    depths = ", ".join(map(str, train.depths))
    page.text(
        f"**Tasks.** {len(FAMILIES)} families of procedures: {', '.join(FAMILIES)}. Every step changes the value, no answer is empty, and within a seed no gold program stands in two splits. "
        f"Depth is the number of operations. Training is in {train.wording} words; {'the reworded splits use other words and frames' if train.wording == 'standard' else 'the standard splits use other words and frames'}.",
        f"**Training.** One LoRA adapter for each format, training and seed on {run.model.title} ({run.model.weights} weights, {run.model.compute} compute), with loss on the target alone: "
        f"{train.examples} examples of depth {depths}, {train.updates} updates of {train.batch_size * train.grad_accum} with AdamW at a constant {train.lr:g}.{_trainings(run)}",
        f"**Evaluation.** {len(suite.splits)} splits of {evaluation.per_split} tasks a seed, the same for every arm; greedy, at most {_token_limit(run)}.",
        "**Scoring.** Instructions are executed by a deterministic interpreter; its value must equal the gold answer exactly. Answer only is scored by its first written answer.",
    )
    if controls := [run.arm(arm) for arm in run.arms if run.arm(arm).writer != "adapter"]:
        page.text("**Controls**, written without an adapter: " + "; ".join(f"{arm.shown} (`{arm.name}`)" for arm in controls) + ".")
    page.text(f"**To repeat it:** `make study SUITE={suite.name}` in a clone of the repository.")
    formats = {run.arm(arm).format: run.arm(arm).written for arm in run.arms}.values()
    rows = [{"format": form.title, "asked": form.instruction, "target": code(form.target(example))} for form in formats]
    page.text(f"One task of split `{split.name}` (`{example.id}`), and what each format asks for:")
    page.table(pd.DataFrame([{"request": code(example.request), "answer": example.answer}]), "The task", raw=("request",))
    page.table(pd.DataFrame(rows), "The formats differ only in what must be written", raw=("target",))
    page.text("All that the model sees of it, in the last of these formats (the instruction set is not in the prompt):")
    page.table(pd.DataFrame([{"prompt": code(list(formats)[-1].prompt(example))}]), "A prompt", raw=("prompt",))
    if reworded := next((s for s in suite.splits if s.held_out), None):
        other = run.examples(reworded.name, seed)[0]
        page.table(
            pd.DataFrame([{"request": code(other.request), "answer": other.answer}]),
            f"A reworded task, of split {reworded.name}",
            raw=("request",),
        )
    page.table(
        pd.DataFrame([{"instructions": code(reference_card(), limit=10_000)}]),
        "The instruction set",
        raw=("instructions",),
        fold="The instruction set",
    )


def coverage_section(page: Page, run: Run, tables: Tables) -> None:
    """Accuracy split by whether training contained every opcode."""
    page.text(
        "A procedure can be lost because it is long, or because one of its opcodes was never trained. The published training data could not contain `TAKE_PREFIX`, `TAKE_SUFFIX`, `SLICE`, "
        "`ADD_LOOKUP` and `STRIP_EXT`, and in the published run deeper tasks use them more often. So executed accuracy is split by that, over all arms that write instructions."
    )
    for table, where in ((tables.coverage, "In this run"), (published_coverage(), "In the published run")):
        page.text(f"{coverage_sentence(table, where)} {trained_sentence(table)}")
    page.text(
        "n counts generations: each task is written once by every one of these arms, so the rows of a cell are not independent, and the intervals are somewhat too narrow."
    )
    if len(tables.coverage):
        page.table(_coverage_table(tables.coverage), "This run")
    page.table(_coverage_table(published_coverage()), f"The published run, re-scored from its generations. {CITATION}")


def coverage_sentence(table: pd.DataFrame, where: str) -> str:
    """The deepest standard depth that has both kinds, in words."""
    standard = table[table["wording"] == "standard"]
    standard = standard.assign(depth=standard["depth"].astype(int))
    both = [depth for depth, rows in standard.groupby("depth") if len(rows) == 2]
    if not both:
        return f"{where} no depth has both kinds of procedures."
    rows = standard[standard["depth"] == both[-1]].set_index("every_opcode_trained")
    yes, no = rows.loc[1], rows.loc[0]
    text = f"{where}, at depth {both[-1]}: {_of(yes)} where every opcode was trained, {_of(no)} where one was not."
    return text if yes.low > no.high or no.low > yes.high else text + " The intervals overlap."


def trained_sentence(table: pd.DataFrame) -> str:
    """How procedures made of trained opcodes alone do by depth: what coverage can't explain."""
    rows = table[(table["wording"] == "standard") & (table["every_opcode_trained"] == 1)]
    if rows.empty:
        return ""
    by_depth = ", ".join(f"{row.exec_accuracy:.0%} of {row.n} at depth {row.depth}" for row in rows.itertuples())
    return f"With every opcode trained: {by_depth}."


def wrong_generations(tables: Tables) -> pd.DataFrame:
    """For each arm, the first wrong text at the shallowest and the deepest standard depth that has one, and the first reworded one."""
    rows = []
    for title, cell in tables.details.groupby("title", sort=False):
        wrong = cell[cell["primary_correct"] == 0]
        standard = wrong[wrong["template_shift"] == 0].sort_values("depth", kind="stable")
        deepest = standard[standard["depth"] == standard["depth"].max()]
        for part in (standard.head(1), deepest.head(1), wrong[wrong["template_shift"] == 1].head(1)):
            for row in part.itertuples():
                why = (
                    row.failure
                    or row.exec_error
                    or ("wrong answer" if row.failure_type == "n/a_answer_only" else FAILURE_WORDS[row.failure_type])
                )
                rows.append(
                    {
                        "arm": title,
                        "example": row.example_id,
                        "written": code(row.generated),
                        "target": code(row.target),
                        "why wrong": why,
                    }
                )
    return pd.DataFrame(rows).drop_duplicates(["arm", "example"]) if rows else pd.DataFrame()


def full_table(run: Run, tables: Tables) -> pd.DataFrame:
    """Every arm and split: n, seeds, primary accuracy with its interval, and the other rates; – where an arm is not asked for it."""
    summary = tables.summary
    programs = summary["arm"].map(lambda arm: run.arm(arm).written.reads_program)
    answers = summary["arm"].map(lambda arm: run.arm(arm).format in ("answer_only", "trace_stack_final", "state_trace"))

    def rates(column: str, asked: pd.Series) -> list[str]:
        return [percent(value) if wanted else "–" for value, wanted in zip(summary[f"{column}_mean"], asked)]

    return pd.DataFrame(
        {
            "arm": summary["arm"].map(lambda arm: run.arm(arm).shown),
            "split": summary["split"],
            "n": summary["n_total"],
            "primary": summary["primary_accuracy_mean"].map(percent),
            "95% interval": [
                f"{low:.0%} to {high:.0%}" for low, high in zip(summary["primary_accuracy_low"], summary["primary_accuracy_high"])
            ],
            "deviation": [percent(std) if runs > 1 else "–" for std, runs in zip(summary["primary_accuracy_std"], summary["runs"])],
            "valid": rates("valid_exec_rate", programs),
            "exact program": rates("exact_program_rate", programs),
            "prefix": rates("prefix_accuracy", programs),
            "written answer": rates("final_accuracy", answers),
            "cut off": summary["truncated_rate_mean"].map(percent),
        }
    )


FULL_TABLE = (
    "Primary: the executed program is right (Answer only: the written answer). Deviation: sample standard deviation over seeds, – with one seed. Valid: the program has a value. "
    "Exact program: the gold instructions. Prefix: leading instructions that match gold, over the longer of the two. Written answer: the first FINAL is right. Cut off: reached the token limit."
)


def beside_published(run: Run, tables: Tables, short: bool = False) -> pd.DataFrame:
    """Our primary accuracy of the arms that the published study has, its own, and the difference in percentage points; `short` keeps the
    shallowest and the deepest standard split of Answer only and Program."""
    same = ["arm", "split", "depth", "template_shift"]
    merged = tables.summary.merge(published_summary(), on=same, how="left", suffixes=("", "_published"))
    if short:
        standard = merged[merged["template_shift"] == 0]
        merged = standard[standard["depth"].isin([standard["depth"].min(), standard["depth"].max()])]
    merged = merged[merged["arm"].isin(published_summary()["arm"])]
    difference = 100 * (merged["primary_accuracy_mean"] - merged["primary_accuracy_mean_published"])
    table = pd.DataFrame(
        {
            "arm": merged["arm"].map(lambda arm: run.arm(arm).shown),
            "requests": [
                f"depth {depth}, {'reworded' if shift else 'standard'}" for depth, shift in zip(merged["depth"], merged["template_shift"])
            ],
            "split": merged["split"],
            "this run": merged["primary_accuracy_mean"].map(percent),
            "95% interval": [
                f"{low:.0%} to {high:.0%}" for low, high in zip(merged["primary_accuracy_low"], merged["primary_accuracy_high"])
            ],
            "n": merged["n_total"],
            "published": merged["primary_accuracy_mean_published"].map(percent),
            "n, published": merged["n_total_published"].map(lambda n: "–" if pd.isna(n) else int(n)),
            "difference": difference.map(lambda points: "–" if pd.isna(points) else f"{points + 0:+.1f}".replace("-", "\u2212")),
        }
    )
    return table.drop(columns="split") if short else table


def limits(page: Page, run: Run, tables: Tables) -> None:
    """What this run can't say, and how it deviates from the published one."""
    missing = tables.completeness[tables.completeness["generations"] < tables.completeness["expected"]]
    truncated = int((tables.details["end"] == "limit").sum())
    absent = [arm for arm in run.suite.arm_names if arm not in set(tables.details["arm"])]
    points = [
        f"Each cell holds {run.suite.evaluation.per_split} tasks a seed and this run has {_seeds(tables)}; read the intervals, not the points."
        + (" With one seed nothing is known about how much another adapter would differ." if tables.details["seed"].nunique() == 1 else ""),
        f"{truncated} of {len(tables.details)} generations reached their limit of {_token_limit(run)}. They are scored as they stand; the full table has their share.",
        _droppable_share(run, tables),
        "Depth and coverage are mixed in the splits as published; the section on coverage takes them apart as far as the data allow.",
        "No reworded split has depth 1 in the published design, so the cost of wording alone is not measured." if not any(s.held_out and s.depth == 1 for s in run.suite.splits) else "",
        "Deviations from the published protocol: the requests are in our own words; starting texts come in both cases; a step that changes nothing and an empty answer are excluded "
        "(108 of the 1,920 published gold answers are empty, where a wrong program can score); a seed without a failure type counts as 0 in that type's mean, where the published tables skip the seed.",
        "" if any(run.arm(arm).writer == "base" for arm in run.arms) else "The model was not tried without fine-tuning.",
        "" if any(run.arm(arm).format == "state_trace" for arm in run.arms) else "No arm writes the value after each step.",
        "Stepwise arms with oracle segmentation are handed one step at a time in a frame that training had: they measure a compiler of single steps, not a reader of the whole request."
        if any(run.arm(arm).stepwise and run.arm(arm).format == "program_stack" for arm in run.arms) else "",
        f"The weights are those of {run.model.source.member.rsplit('/', 1)[-1]}, dequantised, then held as {run.model.weights}: what the first quantisation lost is not measured." if run.model.source.member else "",
        f"The base is {run.model.title} in {run.model.weights}, the published one Qwen3-4B in nf4: differences between the two columns are differences of model, size and recipe together."
        if run.model.name != "qwen3-4b" else "",
        f"Not run, though the suite has it: {', '.join(absent)}." if absent else "",
        f"Unfinished: {', '.join(f'{row.arm}, seed {row.seed} ({row.generations} of {row.expected})' for row in missing.itertuples())}." if len(missing) else "",
    ]  # fmt: skip
    page.text("\n".join(f"- {point}" for point in points if point))


def _token_limit(run: Run) -> str:
    evaluation = run.suite.evaluation
    if evaluation.max_new_tokens:
        return f"{evaluation.max_new_tokens} new tokens"
    return f"{evaluation.gold_ratio:g} times the new tokens of the gold target and {evaluation.limit(0)} more"


def _trainings(run: Run) -> str:
    """What the trainings of this run's adapters change, in words."""
    said = []
    for name in dict.fromkeys(run.arm(arm).training for arm in run.arms):
        if changes := run.suite.trainings.get(name):
            words = ", ".join(f"{field} {value}" for field, value in changes.items())
            said.append(f"“{name}” has {words}".replace("_", " "))
    return f" Of the trainings that differ, {'; '.join(said)}." if said else ""


def _droppable_share(run: Run, tables: Tables) -> str:
    """How many of the deepest standard tasks an incomplete program would solve too."""
    deepest = max((s for s in run.suite.splits if not s.held_out), key=lambda s: s.depth, default=None)
    if deepest is None:
        return ""
    tasks = [example for seed in sorted(tables.details["seed"].unique()) for example in run.examples(deepest.name, int(seed))]
    count = sum(map(droppable, tasks))
    return (
        f"Every step changes the value, but not every step is necessary: in {count} of {len(tasks)} tasks of split {deepest.name} some operation can be left out with the same answer "
        "(UPPER before LOWER, say), so that an incomplete program would score; the full table has exact programs beside executed ones."
    )


def configuration(run: Run) -> pd.DataFrame:
    """The suite and the model, a row a setting."""
    settings = pd.json_normalize({"suite": run.suite.model_dump(exclude={"splits"}), "model": run.model.model_dump()}).iloc[0]
    rows = [{"setting": name, "value": str(value)} for name, value in settings.items()]
    rows += [
        {"setting": f"suite.splits.{s.name}", "value": f"depth {s.depth}, {s.wording} wording, {s.primitives} primitives"}
        for s in run.suite.splits
    ]
    return pd.DataFrame(rows)


def provenance(page: Page, run: Run, tables: Tables) -> None:
    """Versions, code, hardware, durations, hashes."""
    manifest = read_manifest(run)
    stages = [
        {
            "stage": name,
            "commit": record.get("commit", "not recorded"),
            **record.get("versions", {}),
            **{
                what: ", ".join(value) or "none" if isinstance(value, list) else value for what, value in record.get("hardware", {}).items()
            },
        }
        for name, record in sorted(manifest.get("stages", {}).items())
        if name != "05_report"  # which is being written
    ]
    page.text(
        f"Run `{run.name}`, source code sha256 `{str(manifest.get('code_sha256'))[:16]}`. Each stage before this report, as it last ran:"
    )
    page.table(
        pd.DataFrame(stages).set_index("stage").T.reset_index(names="what") if stages else pd.DataFrame(), "Code, versions and machine"
    )
    log = pd.DataFrame(read_log(run), columns=list(LOG_COLUMNS))
    page.table(log, "Every time a stage ran; what is done already is not done again, so a repeated stage is short")
    if len(tables.checkpoints):
        page.table(tables.checkpoints, "Adapters", fold="Adapters and their hashes")
    files = [{"file": name, "sha256": digest} for name, digest in manifest.get("files", {}).items() if name != "report.html"]
    page.table(pd.DataFrame(files, columns=["file", "sha256"]), "Files", fold="Every file and its hash")


def _coverage_table(table: pd.DataFrame) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "wording": table["wording"],
            "depth": table["depth"].astype(str),
            "every opcode trained": table["every_opcode_trained"].map({1: "yes", 0: "no"}),
            "n": table["n"],
            "executed": table["exec_accuracy"].map(percent),
            "95% interval": [f"{low:.0%} to {high:.0%}" for low, high in zip(table["low"], table["high"])],
        }
    )


def _of(row) -> str:
    return f"{percent(row.exec_accuracy)} of {int(row.n)} (95% interval {row.low:.0%} to {row.high:.0%})"


def _seeds(tables: Tables) -> str:
    count = tables.details["seed"].nunique()
    return "one seed" if count == 1 else f"{count} seeds"
