"""A person can push a refused model once; `e2e` tests the push itself."""

import pytest

from modules.errors import UsageError
from pipeline.releases.override import find_refused


def test_overridden_run_is_not_pushed_again_above_a_newer_version(past, push):
    run = past.run("refused", pushed=str(push(1)))
    push(2)
    with pytest.raises(UsageError, match="was overridden already"):
        find_refused(past.paths, run)
