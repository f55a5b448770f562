"""The comparison of a window of requests as one HTML file."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from typing import Protocol

from markupsafe import Markup

from report import templates


class Check(Protocol):
    """A difference of two windows."""

    @property
    def is_alarm(self) -> bool:
        """Whether it is an alarm."""


def render(
    checks: Mapping[str, Sequence[Check]],
    rows: Mapping[str, int],
    metrics: Mapping[str, float],
) -> str:
    """Returns the page.

    Args:
      checks: Checks by what the window was compared with. The template reads their
        `name`, `value`, `limit` and `p`.
      rows: The rows of each window.
      metrics: Metrics of the labelled rows.
    """
    alarms = sum(check.is_alarm for compared in checks.values() for check in compared)
    verdict = f"alarms: {alarms}" if checks else "not compared"
    style = templates.style()
    page = templates.environment().get_template("monitor.html.jinja")
    return page.render(
        checks=checks,
        rows=rows,
        metrics=metrics,
        verdict=verdict,
        created=datetime.datetime.now(datetime.timezone.utc).isoformat("T", "seconds"),
        style=Markup(style),
        policy=templates.policy(style, ""),
    )
