"""Which model a candidate is compared with."""

import pytest
from tfx import v1 as tfx
from tfx.components.evaluator import constants

from components.champion import LatestBlessedOtherModelStrategy


def model(number):
    artifact = tfx.types.standard_artifacts.Model()
    artifact.id = number
    return artifact


def blessing(number, blessed):
    artifact = tfx.types.standard_artifacts.ModelBlessing()
    artifact.set_int_custom_property(
        constants.ARTIFACT_PROPERTY_CURRENT_MODEL_ID_KEY, number
    )
    artifact.set_int_custom_property(
        constants.ARTIFACT_PROPERTY_BLESSED_KEY, int(blessed)
    )
    return artifact


@pytest.mark.parametrize(
    ("blessed", "candidate", "champion"),
    [
        ({}, 1, None),
        ({1: True}, 1, None),  # a candidate is not its own champion
        ({1: True}, 2, 1),
        ({1: True, 2: False}, 3, 1),
        ({1: True, 2: True}, 2, 1),
        ({1: True, 2: True}, 1, 2),
    ],
)
def test_champion_is_the_latest_blessed_model_other_than_the_candidate(
    blessed, candidate, champion
):
    resolved = LatestBlessedOtherModelStrategy().resolve_artifacts(
        None,
        {
            "model": [model(n) for n in {*blessed, candidate}],
            "model_blessing": [blessing(n, b) for n, b in blessed.items()],
            "candidate": [model(candidate)],
        },
    )
    assert [m.id for m in resolved["model"]] == ([champion] if champion else [])
