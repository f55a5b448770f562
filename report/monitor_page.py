"""The comparison of a window of requests as one HTML file."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Protocol

from markupsafe import Markup

from report import templates


class Check(Protocol):
    """A difference of two windows, or a metric."""

    @property
    def is_alarm(self) -> bool:
        """Whether it is an alarm."""


def render(
    checks: Mapping[str, Sequence[Check]],
    rows: Mapping[str, int],
    metrics: Sequence[Check],
    compared: Sequence[Check] = (),
    history: Sequence[Check] = (),
    correlation: tuple[float, float] | None = None,
) -> str:
    """Returns the page.

    Args:
      checks: Checks by what the window was compared with. The template reads their
        `name`, `label`, `value`, `limit` and `p`.
      rows: The rows of each window.
      metrics: Metrics of the labelled rows. The template reads their `name`, `value`
        and `threshold`.
      compared: Metrics of each version, live and at the gate. The template reads the
        fields of a `GateComparison`.
      history: The last comparison of each version, also by earlier calls.
      correlation: The rank correlation of gate and live in it, and its p-value.
    """
    judged = chain(metrics, compared, *checks.values())
    alarms = sum(check.is_alarm for check in judged)
    verdict = f"alarms: {alarms}" if checks or alarms else "not compared"
    style = templates.style()
    page = templates.environment().get_template("monitor.html.jinja")
    return page.render(
        checks=checks,
        rows=rows,
        metrics=metrics,
        compared=compared,
        history=history,
        correlation=correlation,
        verdict=verdict,
        created=datetime.datetime.now(datetime.timezone.utc).isoformat("T", "seconds"),
        style=Markup(style),
        policy=templates.policy(style, ""),
    )
