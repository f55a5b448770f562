"""A refused model is pushed once on the word of a person; e2e has the push itself."""

import pytest

from modules.errors import UsageError
from pipeline.releases.override import find_refused


def test_overridden_run_is_not_pushed_again_above_a_newer_version(past, push):
    run = past.run("refused", pushed=str(push(1)))
    push(2)
    with pytest.raises(UsageError, match="was overridden already"):
        find_refused(past.paths, run)
