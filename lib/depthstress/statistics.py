"""Comparisons of arms and of tasks: bootstrap over seeds, paired tests, the split by coverage.

Pure: details (a row a scored generation, see `tables.detail`) in, data frames out. A task is a seed and an
example id, since example ids may repeat from seed to seed (the published run's do); all arms get the same tasks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np
import pandas as pd
from scipy import stats
from statsmodels.stats.multitest import multipletests

from .intervals import LEVEL, difference, paired_difference
from .tables import rate_of

TASK = ["seed", "example_id"]
REPLICATES = 10_000


def bootstrap_rate(
    details: pd.DataFrame, by: Sequence[str] = (), column: str = "primary_correct", within: bool = False, replicates: int = REPLICATES
) -> pd.DataFrame:
    """The rate of a 0/1 column with a cluster bootstrap interval, one row a cell of `by`.

    Whole seeds are drawn with replacement and their examples kept as they are: that alone reproduces the
    variance of clustered data (Davison & Hinkley, 1997, Bootstrap Methods, section 3.8; Field & Welsh, 2007, JRSS B
    69). `within` draws the examples of a drawn seed anew as well; it counts the variance within seeds twice and so
    gives wider intervals. The interval is the expanded percentile one (Hesterberg, 2015, American Statistician 69),
    which makes up for the narrowness of percentiles in small samples; BCa would need an acceleration that a
    jackknife of five seeds can't give (Cameron, Gelbach & Miller, 2008, Rev. Econ. Stat. 90, found little gain).

    Limits with few seeds: no interval reaches beyond the worst and the best seed, and so it holds the middle of the
    distribution of seeds with at most 1 - 2^(1 - seeds): 94% for five seeds, 75% for three, 50% for two. Prefer
    `intervals.rate`, which `score_low` and `score_high` show.

    Columns: the cell, n, seeds, rate, low, high, score_low, score_high, resampled. The last says what was drawn: "seeds"
    (with `within`, "seeds and examples"); "examples" with one seed, or where all seeds have the same rate; "nothing" where
    all rows are equal, and then low and high are the score interval. Deterministic: same rows, same interval.
    Raises ValueError where a column or a value of it is missing.
    """
    need(details, [*by, *TASK, column])
    rows = []
    for cell, part in cells(details, by):
        counts = part.groupby(TASK)[column].agg(["sum", "size"]).droplevel("example_id")
        score = rate_of(part, column)
        low, high, resampled = _bootstrap(counts, _rate, within, replicates) or (score.low, score.high, "nothing")
        rows.append({**cell, "n": score.n, "seeds": counts.index.nunique(), "rate": score.value, "low": low, "high": high,
                     "score_low": score.low, "score_high": score.high, "resampled": resampled})  # fmt: skip
    return pd.DataFrame(rows)


def bootstrap_difference(
    details: pd.DataFrame,
    first: str,
    second: str,
    by: Sequence[str] = (),
    column: str = "primary_correct",
    within: bool = False,
    replicates: int = REPLICATES,
) -> pd.DataFrame:
    """The difference of two arms' rates, first - second, with a cluster bootstrap interval, one row a cell of `by`.

    As `bootstrap_rate`; a drawn seed brings the generations of both arms, and a drawn task both its generations, so
    that the arms stay paired. Seeds that only one arm has are left out and counted in `dropped` (generations). The
    score interval, and the one where nothing varies, is `intervals.difference`.
    """
    need(details, [*by, "arm", *TASK, column])
    rows = []
    for cell, part in cells(details[details["arm"].isin([first, second])], by):
        counts = part.groupby([*TASK, "arm"])[column].agg(["sum", "size"]).unstack("arm", fill_value=0)
        counts = counts.reindex(columns=[(what, arm) for arm in (first, second) for what in ("sum", "size")], fill_value=0)
        both = counts.groupby("seed").sum()
        seeds = both.index[(both["size"] > 0).all(axis=1)]
        kept = part[part["seed"].isin(seeds)]
        row = {**cell, "first": first, "second": second, "n": len(kept), "dropped": len(part) - len(kept), "seeds": len(seeds)}
        if len(seeds):
            rates = [rate_of(kept[kept["arm"] == arm], column) for arm in (first, second)]
            score = difference(*rates)
            counts = counts[counts.index.get_level_values("seed").isin(seeds)].droplevel("example_id")
            low, high, resampled = _bootstrap(counts, _difference, within, replicates) or (*score, "nothing")
            row |= {"difference": rates[0].value - rates[1].value, "low": low, "high": high, "score_low": score[0], "score_high": score[1],
                    "resampled": resampled}  # fmt: skip
        rows.append(row)
    return pd.DataFrame(rows)


def _rate(totals: np.ndarray) -> np.ndarray:
    return totals[:, 0] / totals[:, 1]


def _difference(totals: np.ndarray) -> np.ndarray:
    with np.errstate(invalid="ignore"):  # a draw of examples may leave an arm without any
        return totals[:, 0] / totals[:, 1] - totals[:, 2] / totals[:, 3]


def _bootstrap(counts: pd.DataFrame, statistic: Callable, within: bool, replicates: int) -> tuple[float, float, str] | None:
    """The interval and what was drawn for it; None where no draw differs from another. counts: a row a task, its seed as index, sorted."""
    tasks = np.split(counts.to_numpy(), np.flatnonzero(~counts.index.duplicated())[1:])
    seeds, rng = len(tasks), np.random.default_rng(0)
    attempts = [("seeds and examples" if within else "seeds", seeds), ("examples", len(counts))]
    for resampled, units in attempts:
        if units < 2:
            continue
        if resampled == "seeds":
            totals = _draw(np.full(replicates, seeds), np.stack([rows.sum(axis=0) for rows in tasks]), rng)
        elif resampled == "examples":
            totals = _draw_examples(tasks, np.ones((replicates, seeds), int), rng)
        else:
            totals = _draw_examples(tasks, rng.multinomial(seeds, np.full(seeds, 1 / seeds), replicates), rng)
        # normal quantiles of the percentiles, widened to those of t and by the bias of the variance
        tail = stats.norm.cdf(stats.t.ppf((1 - LEVEL) / 2, units - 1) * np.sqrt(units / (units - 1)))
        low, high = np.nanquantile(statistic(totals), [tail, 1 - tail])
        if high - low > 1e-9:
            return float(low), float(high), resampled
    return None


def _draw_examples(tasks: list[np.ndarray], weights: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Totals of replicates that draw each seed's tasks as often as its weight says times their number; seeds whose tasks
    are the same are drawn from together."""
    pools: dict[bytes, list] = {}
    for rows, weight in zip(tasks, weights.T):
        pool = pools.setdefault(rows[np.lexsort(rows.T)].tobytes(), [rows, 0])
        pool[1] = pool[1] + weight * len(rows)
    return sum(_draw(number, rows, rng) for rows, number in pools.values())


def _draw(number: np.ndarray, rows: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Totals of replicates that draw so many of the rows, with replacement. Equal rows are exchangeable, so that a draw is one
    multinomial over the few kinds of row."""
    kinds, times = np.unique(rows, axis=0, return_counts=True)
    return rng.multinomial(number, times / len(rows)) @ kinds.astype(float)


def paired(
    details: pd.DataFrame, pairs: Iterable[tuple[str, str]], by: Sequence[str] = (), column: str = "primary_correct", of: str = "arm"
) -> pd.DataFrame:
    """Two arms on the same tasks: McNemar's exact test, Tango's interval, Holm's correction; one row a pair and cell of `by`.

    pairs: values of the column `of` ("arm"; "decoding", say, with the arm in `by`).
    Columns: the cell, first, second, n (tasks of both), dropped (generations whose task only one of the two has),
    rate_first, rate_second, b (only the first right), c (only the second), difference, low, high, p, p_holm.

    p is two-sided and binomial on the discordant pairs (McNemar, 1947, Psychometrika 12; exact: Fagerland, Lydersen &
    Laake, 2013, BMC Med. Res. Methodol. 13:91), the interval Tango's score interval (`intervals.paired_difference`). Holm
    (1979, Scand. J. Statist. 6) takes the rows of one call as the family. Tasks count as independent, so that the
    result speaks about the adapters that were trained, not about others with new seeds: for those, see
    `bootstrap_difference`. Without a common task, n is 0 and the rest is missing.
    Raises ValueError where a column or a value of it is missing, or a task occurs twice in a cell.
    """
    need(details, [*by, of, *TASK, column])
    by, tables = list(by), []
    for first, second in pairs:
        ours = details[details[of].isin([first, second])]
        if (twice := ours.duplicated([*by, *TASK, of])).any():
            example = ours.loc[twice, [*by, *TASK, of]].iloc[0].to_dict()
            raise ValueError(f"{example} occurs twice; add the column that tells its generations apart to by={by}")
        wide = ours.set_index([*by, *TASK, of])[column].unstack(of).reindex(columns=[first, second])
        whole = wide.notna().all(axis=1)
        a, b = wide[first].where(whole), wide[second].where(whole)
        flags = pd.DataFrame({"n": whole, "dropped": ~whole, "rate_first": a == 1, "rate_second": b == 1, "b": a > b, "c": b > a})
        table = (flags.groupby(by).sum() if by else flags.sum().to_frame().T).astype(int).reset_index(drop=not by)
        table.insert(len(by), "first", first)
        table.insert(len(by) + 1, "second", second)
        tables.append(table)
    return _tested(pd.concat(tables, ignore_index=True))


def _tested(table: pd.DataFrame) -> pd.DataFrame:
    """Counts with their rates, differences and tests."""
    n, b, c = table["n"].where(table["n"] > 0), table["b"], table["c"]
    intervals = [paired_difference(*map(int, row)) if row[2] else (np.nan, np.nan) for row in zip(b, c, table["n"])]
    p = np.minimum(2 * stats.binom.cdf(np.minimum(b, c), b + c, 0.5), 1)
    table = table.assign(
        rate_first=table["rate_first"] / n,
        rate_second=table["rate_second"] / n,
        difference=(b - c) / n,
        low=[low for low, _ in intervals],
        high=[high for _, high in intervals],
        p=np.where(n.notna(), p, np.nan),
        p_holm=np.nan,
    )
    if n.notna().any():
        table.loc[n.notna(), "p_holm"] = multipletests(table.loc[n.notna(), "p"], method="holm")[1]
    return table


def coverage_split(details: pd.DataFrame, by: Sequence[str] = ("template_shift", "depth"), column: str = "exec_correct") -> pd.DataFrame:
    """Success where the training data had every opcode of the gold program, against where it lacked one; a row a cell of `by`.

    Give it the arms to pool. Columns: the cell; n, rate, low and high, each _trained and _untrained; difference
    (trained - untrained), low, high (`intervals.difference`). What a cell lacks is missing. Raises
    ValueError where a column or a value of it is missing.
    """
    need(details, [*by, "coverage", *TASK, column])
    rows = []
    for cell, part in cells(details, by):
        row, rates = dict(cell), []
        for covered, name in ((1, "trained"), (0, "untrained")):
            group = part[part["coverage"] == covered]
            row[f"n_{name}"] = len(group)
            if len(group):
                rates.append(rate := rate_of(group, column))
                row |= {f"rate_{name}": rate.value, f"low_{name}": rate.low, f"high_{name}": rate.high}
        if len(rates) == 2:
            low, high = difference(*rates)
            row |= {"difference": rates[0].value - rates[1].value, "low": low, "high": high}
        rows.append(row)
    sides = [f"{what}_{name}" for name in ("trained", "untrained") for what in ("n", "rate", "low", "high")]
    return pd.DataFrame(rows, columns=[*by, *sides, "difference", "low", "high"])


def cells(details: pd.DataFrame, by: Sequence[str]) -> Iterator[tuple[dict, pd.DataFrame]]:
    """The cells of `by`, in order, each with its key; all rows as one cell where `by` is empty."""
    if by:
        for key, part in details.groupby(list(by)):
            yield dict(zip(by, key)), part
    elif len(details):
        yield {}, details


def need(details: pd.DataFrame, columns: Iterable[str], may_be_empty: Sequence[str] = ()) -> None:
    """Raise ValueError where a column is not there, or is empty in some row (groupby would drop that row unsaid)."""
    columns = list(dict.fromkeys(columns))
    if missing := [column for column in (*columns, *may_be_empty) if column not in details]:
        raise ValueError(f"details lack the columns {', '.join(missing)}")
    if empty := [column for column in columns if details[column].isna().any()]:
        raise ValueError(f"details have rows without a value in {', '.join(empty)}; leave those rows out")
