"""The whole report at once, as 05_report builds it section by section: what `verify` compares a report with."""

from __future__ import annotations

import contextlib
import io

from ..analysis import Tables
from ..runs import Run
from . import sections
from .composition import comparisons_section
from .findings import Finding
from .page import Page


def whole(run: Run, tables: Tables, found: list[Finding]) -> Page:
    """The page with every section; found: the figures, in order. Nothing is shown or written."""
    with contextlib.redirect_stdout(io.StringIO()):  # outside a notebook, what is displayed would be printed
        page = Page(run, sections.QUESTION)
        sections.opening(page, run, tables)
        page.section("Method")
        sections.method(page, run)
        page.section("Configuration")
        page.table(sections.configuration(run), "Every setting of this run", fold="Every setting of this run")
        page.section("Figures")
        for finding in found:
            page.figure(finding)
        page.section("Never taught, or not composed?")
        sections.coverage_section(page, run, tables)
        comparisons_section(page, run, tables)
        page.section("Full table")
        page.table(sections.full_table(run, tables), sections.FULL_TABLE, fold="Every arm and split")
        page.section("Beside the published run")
        page.table(sections.beside_published(run, tables), sections.CITATION)
        page.section("Wrong generations")
        page.table(
            sections.wrong_generations(tables),
            "Wrong texts of each arm: the first at the shallowest and at the deepest standard depth, and the first reworded one",
            raw=("written", "target"),
            fold="Wrong texts of each arm",
        )
        page.section("Limits")
        sections.limits(page, run, tables)
        page.section("Provenance")
        sections.provenance(page, run, tables)
    return page
