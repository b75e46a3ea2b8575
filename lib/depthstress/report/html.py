"""Small pieces of HTML. Generated text is untrusted: escaped, made visible where it would not be, bounded."""

from __future__ import annotations

import re
from html import escape

import pandas as pd

_NUMBER = re.compile(r"[+\u2212-]?[0-9][0-9.,]*%?|–")
MAX_SHOWN = 600  # characters of one generated text


def inert(text: str, limit: int = MAX_SHOWN) -> str:
    """A text as HTML that can do nothing: escaped, with control, direction and other invisible characters
    written as code points, cut at `limit` characters."""
    shown = "".join(c if c.isprintable() or c == "\n" else f"\\u{{{ord(c):x}}}" for c in text[:limit])
    return escape(shown) + (f" … ({len(text):,} characters)" if len(text) > limit else "")


def code(text: str, limit: int = MAX_SHOWN) -> str:
    """An untrusted text as a block of code."""
    return f"<pre>{inert(text, limit)}</pre>"


def table(frame: pd.DataFrame, caption: str, raw: tuple[str, ...] = ()) -> str:
    """A data frame as a table; numbers to the right. Cells are escaped, but for the columns in `raw`, which
    hold HTML made by this module."""
    numeric = {column: _is_number(frame[column]) for column in frame}
    head = "".join(f'<th scope="col"{_class(numeric[c])}>{escape(str(c))}</th>' for c in frame)
    rows = "".join(
        "<tr>" + "".join(f"<td{_class(numeric[c])}>{v if c in raw else inert(cell(v))}</td>" for c, v in zip(frame, row)) + "</tr>\n"
        for row in frame.itertuples(index=False, name=None)
    )
    return f'<p class="caption">{escape(caption)}</p><div class="scroll" tabindex="0"><table aria-label="{escape(caption)}"><thead><tr>{head}</tr></thead><tbody>\n{rows}</tbody></table></div>'


def cell(value: object) -> str:
    """A value as a table shows it."""
    if value is None or (isinstance(value, float) and pd.isna(value)):
        return "–"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _is_number(column: pd.Series) -> bool:
    """Whether a column holds numbers, or texts that all read like one ("86.7%", "-3.1", "–")."""
    return (
        pd.api.types.is_numeric_dtype(column)
        or bool(len(column))
        and all(isinstance(value, str) and _NUMBER.fullmatch(value) for value in column)
    )


def _class(number: bool) -> str:
    return ' class="number"' if number else ""


def percent(value: float | None) -> str:
    """A rate as a percentage with one decimal."""
    return "–" if value is None or pd.isna(value) else f"{100 * value:.1f}%"


def folded(summary: str, content: str) -> str:
    """Content behind a line that opens it."""
    return f"<details><summary>{escape(summary)}</summary>\n{content}\n</details>"
