"""Compares the time of a request with that of the champion."""

from __future__ import annotations

import numpy as np
from pydantic import PositiveFloat, PositiveInt

from components.model_checks.check import Check, Data, Model, NotApplicable
from contracts.records.checks import CheckResult
from contracts.settings.checks import CheckSettings


class LatencyCheck(Check):
    """Finds a model that is slower than the champion."""

    class Settings(CheckSettings):
        """The longest time of a request.

        Attributes:
          max_ratio: The model fails if its median time of a request with one row,
            divided by the champion's, exceeds this, such as 1.5. Both are loaded in one
            process and timed in turn. None does not compare them.
          rows: Rows to send, one in each request.
        """

        max_ratio: PositiveFloat | None = None
        rows: PositiveInt = 64

    title = "Latency"

    def run(self, model: Model, data: Data, settings: Settings) -> CheckResult:
        """Times both models in turn."""
        if settings.max_ratio is None:
            raise NotApplicable("checks.latency.max_ratio is not set")
        if data.champion is None:
            raise NotApplicable(data.facts.not_compared or "no other version is served")
        if data.task.is_tokenized:
            raise NotApplicable("the rows are token ids: requests with texts are timed")
        texts = data.rows(most=settings.rows).texts
        try:
            seconds = data.time_in_turn(
                {"model": (model, texts), "champion": (data.champion, texts)}
            )
        except RuntimeError as error:
            return CheckResult(
                status=settings.failed,
                sentence=f"the model and the champion cannot be timed in turn: {error}",
                advice="to push without a comparison, set "
                "checks.latency.max_ratio=null",
                error="E-serving-failed",
            )
        own, other = (
            float(np.median(seconds[key])) * 1000 for key in ("model", "champion")
        )
        sentence = (
            f"a request of one row takes {own:.1f} ms with the model and "
            f"{other:.1f} ms with the champion, in turn on this machine (medians): "
            f"{own / other:.2f} times as long"
        )
        is_slow = own > settings.max_ratio * other
        if is_slow:
            sentence += f", but checks.latency.max_ratio allows {settings.max_ratio:g}"
        return CheckResult(
            status=settings.failed if is_slow else "passed",
            sentence=sentence,
            advice="if the model shall be slower, raise the setting" if is_slow else "",
            figures={"model (ms)": own, "champion (ms)": other, "ratio": own / other},
            error="E-serving-slow",
        )
