"""The report: sentences and tables from a run's results, rendered by nbconvert to one HTML file."""

from .page import Page

__all__ = ["Page"]
