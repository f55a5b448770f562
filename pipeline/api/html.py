"""What a notebook shows of the objects of this package."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from contracts.run_states import MARKS
from pipeline.runs.comparison import LETTERS, Comparison
from report import page, templates
from report.content import Report

_MAX_CHANGED = 10


def render(name: str, **content: Any) -> str:
    """Returns a part of a page, in which all texts are escaped.

    Args:
      name: A template of this package.
      **content: What it shows.
    """
    environment = templates.environment(Path(__file__).parent / "templates")
    return environment.get_template(name).render(marks=MARKS, **content)


def render_comparison(comparison: Comparison) -> str:
    """Returns a comparison, with the first of its changed rows."""
    return render(
        "compared.html.jinja",
        comparison=comparison,
        letters=LETTERS,
        changed=comparison.changed[:_MAX_CHANGED],
    )


def frame(report: Report) -> str:
    """Returns the page of a report in a frame of its own."""
    return render("frame.html.jinja", page=page.render(report))
