"""A server as long as a block of code runs; tests/e2e/ predicts with one."""

import pytest

from modules.errors import UsageError
from pipeline import serve


@pytest.mark.slow
def test_server_that_is_refused_raises_the_error_of_the_command(tmp_path):
    with pytest.raises(UsageError) as refused, serve(tmp_path):
        pass
    assert str(refused.value).count("[E-") == 1
    assert refused.value.name != "E-serve-not-ready"
    assert str(tmp_path) in refused.value.message
