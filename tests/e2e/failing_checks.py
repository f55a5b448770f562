"""Checks that the tiny model fails: required rows, and a user's own."""

import contextlib
import sys

import pytest

from tests import tiny

((_, *TEXTS),) = tiny.pairs(1)  # a row of `train`
# Of two rows with the same texts and different labels, any model misses one.
ROWS = f"""\
sentence1,sentence2,label,group,why
{TEXTS[0]},{TEXTS[1]},not_equivalent,animals,one of a pair
{TEXTS[0]},{TEXTS[1]},equivalent,animals,one of a pair
"""
OWN = "own_check_of_e2e:LeastProbability"
OWN_MODULE = "own_check_of_e2e.py"
OWN_LIMITS = "own_limits_of_e2e.py"
# The files beside the recipe.
FILES = {
    "must_pass.csv": ROWS,
    OWN_MODULE: f"""\
from components.model_checks import Check, CheckResult
from own_limits_of_e2e import LEAST


class LeastProbability(Check):
    title = "Least probability"

    def run(self, model, data, settings):
        (prediction,) = model.predict([{TEXTS!r}])
        share = prediction.probability
        status = "passed" if share >= LEAST else settings.failed
        return CheckResult(status=status, sentence=f"{{share:.3f}}, least is {{LEAST}}")
""",
    OWN_LIMITS: "LEAST = 1.1\n",
}


@contextlib.contextmanager
def beside(recipe):
    """Writes the files beside a recipe; removes them, and what they imported."""
    for name, content in FILES.items():
        (recipe.parent / name).write_text(content)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(sys, "path", [*sys.path])
        yield
    for name in FILES:
        (recipe.parent / name).unlink()
        sys.modules.pop(name.removesuffix(".py"), None)
