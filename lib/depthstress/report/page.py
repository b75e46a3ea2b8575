"""The page under construction: what 05_report adds is shown in the notebook, and rendered to HTML at the end.

The notebook's own cells can't be rendered while it still runs, so the page keeps a notebook of its own (text,
figures, tables; no code), and nbconvert renders that with the project's template. The result is the same in
JupyterLab and under papermill.
"""

from __future__ import annotations

import re
from html import escape
from pathlib import Path

import pandas as pd
from IPython.display import HTML, Markdown, display

from ..files import write_text
from ..runs import Run
from ..theme import svg
from .findings import Finding
from .html import folded, table

TEMPLATE = Path(__file__).parent / "template"


class Page:
    """The report of one run."""

    def __init__(self, run: Run, title: str) -> None:
        self.run = run
        self.title = title
        self.parts: list[tuple[str, str]] = []  # each "markdown" or "html", and its source
        self.sections: list[dict[str, str]] = []
        self._html(f"<h1>{escape(title)}</h1>")

    def section(self, title: str) -> None:
        """Begin a section; it stands in the contents."""
        name = re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")
        self.sections.append({"id": name, "title": title})
        self._html(f'<h2 id="{name}">{escape(title)}</h2>')

    def text(self, *paragraphs: str) -> None:
        """Paragraphs in Markdown. Never give it generated text: that belongs into a table, which escapes it."""
        source = "\n\n".join(paragraph for paragraph in paragraphs if paragraph)
        self.parts.append(("markdown", source))
        display(Markdown(source))

    def lead(self, text: str) -> None:
        """The answer in a sentence or two, set larger."""
        self._html(f'<p class="lead">{escape(text)}</p>')

    def table(self, frame: pd.DataFrame, caption: str, raw: tuple[str, ...] = (), fold: str = "") -> None:
        """A table with its caption; `fold` puts it behind a line that opens it."""
        content = table(frame, caption, raw)
        self._html(folded(fold, content) if fold else content)

    def figure(self, finding: Finding) -> None:
        """A figure with its title (what it shows), how to read it, the takeaway, a technical framing, and its data."""
        drawing = svg(finding.figure)
        labelled = drawing.replace(
            "<svg ", f'<svg role="img" aria-label="{escape(f"{finding.title} {finding.takeaway}".partition(chr(10))[0])}" ', 1
        )
        entries = (("How to read it", finding.reading), ("Takeaway", finding.takeaway), ("Technical framing", finding.framing))
        notes = "".join(f"<dt>{term}</dt><dd>{_lines(words)}</dd>" for term, words in entries)
        self._html(
            f'<h3 id="figure-{finding.name}">{escape(finding.title)}</h3>\n'
            f'<figure>{labelled}<figcaption><dl class="reading">{notes}</dl></figcaption></figure>\n'
            + folded("The data of this figure", table(finding.data, f"figures/{finding.name}.csv"))
        )

    def write(self) -> Path:
        """Render everything added so far to `report.html`."""
        path = self.run.folder / "report.html"
        write_text(path, self.render())
        return path

    def render(self) -> str:
        """The page as one HTML text."""
        from nbconvert import HTMLExporter  # seconds, which only the rendering should take
        from nbformat.v4 import new_notebook

        cells = [_cell(kind, source) for kind, source in self.parts]
        notebook = new_notebook(cells=cells, metadata={"title": self.title, "sections": self.sections})
        exporter = HTMLExporter(template_name=TEMPLATE.name, extra_template_basedirs=[str(TEMPLATE.parent)])
        style = (TEMPLATE / "style.css").read_text(encoding="utf-8")
        content, _ = exporter.from_notebook_node(notebook, resources={"style": style})
        return content

    def _html(self, content: str) -> None:
        self.parts.append(("html", content))
        display(HTML(content))


def _lines(words: str) -> str:
    """A text as it is; several lines as a list."""
    lines = [escape(line) for line in words.split("\n")]
    return lines[0] if len(lines) == 1 else f"<ul>{''.join(f'<li>{line}</li>' for line in lines)}</ul>"


def _cell(kind: str, source: str):
    from nbformat.v4 import new_code_cell, new_markdown_cell, new_output

    if kind == "markdown":
        return new_markdown_cell(source)
    return new_code_cell(outputs=[new_output("display_data", {"text/html": source})])
