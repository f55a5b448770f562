"""The settings of a check that are files of labelled rows, and its failure."""

import pytest

from contracts.settings.checks import CheckSettings, LabelledRows


class MySettings(CheckSettings):
    file: LabelledRows
    other: LabelledRows | None = None
    name: str | None = None
    words: list[str] | None = None


def test_settings_that_are_files_of_labelled_rows_are_known():
    assert MySettings.rows_settings() == ["file", "other"]
    assert CheckSettings.rows_settings() == []


@pytest.mark.parametrize(
    ("action", "status"), [("refuse", "refused"), ("warn", "warning")]
)
def test_action_decides_the_status_of_a_failed_check(action, status):
    assert CheckSettings(action=action).failed == status
