"""Why a model was not pushed, and what AtomicPusher and Report note at artifacts."""

from __future__ import annotations

from collections.abc import Iterable

from contracts.errors import named

# Rows that ServingCheck keeps, for AtomicPusher to push with the model.
SERVING_EXAMPLES_FILE = "examples.json"
# Properties that TFX's Pusher sets on a PushedModel. Champion sets the destination on
# its Model artifact, too: the directory that serves the champion.
PUSHED = "pushed"
PUSHED_DESTINATION = "pushed_destination"
PUSHED_VERSION = "pushed_version"
# Property of a PushedModel that was not pushed: the version under which the same model
# was rolled back.
WITHDRAWN_VERSION = "withdrawn_version"
# Property of a PushedModel: JSON of `contracts.commits.Commits`.
COMMITS = "commits"
# Property of a report's page: the file that could not be written, and the error.
MISSING = "missing"

NOT_BLESSED = named("the Evaluator did not bless the model", "E-not-blessed")


def refusal(
    failures: Iterable[str],
    serving_reasons: Iterable[str],
    check_refusals: Iterable[str],
    withdrawn: str,
) -> list[str]:
    """Returns why a model was not pushed.

    Args:
      failures: The Evaluator's reasons.
      serving_reasons: Why ServingCheck refused the model.
      check_refusals: Why checks refused it.
      withdrawn: The version under which the same model was rolled back, or empty.
    """
    reasons = [*failures, *serving_reasons, *check_refusals]
    if withdrawn:
        reasons.append(named(rolled_back(withdrawn), "E-rolled-back"))
    return reasons or [NOT_BLESSED]


def rolled_back(version: str | int) -> str:
    """Returns why a model that was rolled back is not pushed again."""
    return (
        f"the model is version {version}, which was rolled back; "
        f"`rollback {version}` serves it again"
    )
