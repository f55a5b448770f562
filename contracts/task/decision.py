"""How a class of two, or a label of several, is chosen from its probability."""

from __future__ import annotations

from pydantic import Field, model_validator

from contracts.errors import SettingError
from contracts.section import Settings

# A label of several is decided on as two classes: rows without it, and with it.
ONE_LABEL = ("without", "with")
# The metric of several labels that one threshold for all of them maximizes.
MICRO_F1 = "micro_f1"


def describe_threshold(threshold: float) -> str:
    """Returns when a class or a label is predicted, after "is" or "are".

    Args:
      threshold: Of its probability; above 1 never predicts it, and 0 always.
    """
    if threshold > 1:
        return "never predicted"
    if threshold <= 0:
        return "always predicted"
    # High thresholds have more digits, so that none below 1 is shown as 1.
    text = f"{threshold:.4g}"
    if text == "1" and threshold < 1:
        text = f"{threshold:.7g}"
    return f"predicted from a probability of {text} on"


class Costs(Settings):
    """What a wrong prediction costs, in any unit.

    Attributes:
      false_positive: The positive class is predicted for a row of the other.
      false_negative: The other class is predicted for a row of the positive one.
    """

    false_positive: float = Field(gt=0, allow_inf_nan=False)
    false_negative: float = Field(gt=0, allow_inf_nan=False)

    @property
    def highest(self) -> float:
        """The cost of the more expensive error."""
        return max(self.false_positive, self.false_negative)


class DecisionConfig(Settings):
    """What the threshold is chosen by, on `eval`. One of these is set.

    Attributes:
      maximize: The metric that is highest, such as f1, accuracy or matthews. With
        several labels, `micro_f1` gives all of them one threshold, and another metric
        gives each its own.
      costs: The costs whose sum is lowest.
      min_precision: The least precision of the positive class, at which its recall is
        highest.
    """

    maximize: str | None = None
    costs: Costs | None = None
    min_precision: float | None = Field(default=None, gt=0, le=1, allow_inf_nan=False)

    @model_validator(mode="after")
    def _check_one(self) -> DecisionConfig:
        kind = (self.maximize or "").partition("/")[0]
        if kind in ("precision", "recall"):
            raise SettingError(
                "maximize",
                f"{self.maximize!r}, which is highest if the class is predicted for "
                f"{'all' if kind == 'recall' else 'few'} rows",
                advice="set min_precision, such as 0.9, for the highest recall with "
                "that precision, or set maximize to f1",
            )
        names = [name for name in type(self).model_fields if getattr(self, name)]
        if len(names) != 1:
            raise SettingError(
                got=f"{' and '.join(names) or 'nothing'} is set",
                advice="set one of maximize, costs and min_precision",
            )
        return self

    @property
    def value_name(self) -> str:
        """The name of what the threshold of two classes is chosen by."""
        if self.maximize == MICRO_F1:  # of one label, it is the F1
            return "f1"
        return self.maximize or ("mean cost" if self.costs else "recall")

    def describe(self) -> str:
        """Returns what the threshold is chosen by, in words."""
        if self.maximize:
            return f"the highest {self.maximize}"
        if self.costs:
            return (
                f"the lowest cost, {self.costs.false_positive:g} for a false positive "
                f"and {self.costs.false_negative:g} for a false negative"
            )
        return f"the highest recall with a precision of at least {self.min_precision:g}"
