"""What a notebook shows of the objects of this package."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from contracts.records.checks import STATUS_MARKS
from contracts.run_states import MARKS
from report import templates


def render(name: str, **content: Any) -> str:
    """Returns a part of a page from a template of this package; texts are escaped."""
    environment = templates.environment(Path(__file__).parent / "templates")
    template = environment.get_template(name)
    return template.render(marks=MARKS, check_marks=STATUS_MARKS, **content)
