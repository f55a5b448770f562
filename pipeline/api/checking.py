"""The checks of a pushed model."""

from __future__ import annotations

from pathlib import Path

from contracts import wording
from contracts.records import checks
from pipeline.api import html
from pipeline.api.arguments import checked
from pipeline.api.looking import Run
from pipeline.api.quiet import quiet
from pipeline.api.recipes import Recipe
from pipeline.operations import checking
from prediction.model_directory import find_model


class ChecksReport(checks.ChecksReport):
    """The results of checks, in the order of their names.

    Attributes:
      results: The result of each check.
    """

    def __repr__(self) -> str:
        count = wording.count(len(self.results), "check")
        refused, warned = len(self.refusals), len(self.warnings)
        return f"ChecksReport({count}: {refused} refused, {warned} warned)"

    __str__ = __repr__

    def _repr_html_(self) -> str:
        return html.render("checks.html.jinja", results=self.results)


@checked
def check(
    model: Run | str | Path, recipe: Recipe | str | Path | None = None
) -> ChecksReport:
    """Runs the checks of a recipe on a pushed model, without training.

    Args:
      model: A run that pushed a model, or the directory of a pushed model or of its
        versions, of which the newest is checked.
      recipe: The recipe with the data and the checks, or its file; None takes the
        settings of the run that pushed the model.

    Returns:
      The results. `refusals` is empty if no check refuses the model.

    Raises:
      UsageError: There is no such model, it is damaged, its recipe is unknown or has
        another task, or a setting or a row is not allowed.
    """
    if isinstance(model, Run):
        model = model.require_pushed()
    if recipe is not None and not isinstance(recipe, Recipe):
        recipe = Recipe(recipe)
    directory = find_model(str(model))
    config = recipe.settings if recipe else checking.find_recipe(directory)
    with quiet():
        return ChecksReport(results=checking.check_version(directory, config))
