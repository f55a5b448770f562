"""A server as long as a block of code runs; tests/e2e/ predicts with one."""

import urllib.error

import pandas as pd
import pytest

from contracts.errors import UsageError
from pipeline import Server, serve
from tests.serving import saved_models


@pytest.mark.slow
def test_server_that_is_refused_raises_the_error_of_the_command(tmp_path):
    with pytest.raises(UsageError) as refused, serve(tmp_path):
        pass
    assert str(refused.value).count("[E-") == 1
    assert refused.value.name != "E-port-unavailable"
    assert str(tmp_path) in refused.value.message


@pytest.mark.slow
def test_model_of_any_name_that_the_server_accepts_is_reached(tmp_path, monkeypatch):
    monkeypatch.setenv("LC_ALL", "C")
    name = "My serving Modell-\xfc at 50% %2F, gRPC \u96ea"
    saved_models.save_half_plus_three(tmp_path / name / "1")
    with serve(tmp_path / name) as server:
        assert server.name == name
        assert server.predict([1.0]) == [3.5]
        with pytest.raises(urllib.error.HTTPError, match=r'400.*Input .*has \\"cut'):
            server.predict(["cut \ud83d"])
        for rows in ("text", {"text": ["a"]}, pd.DataFrame({"text": ["a"]}), [b"a"]):
            with pytest.raises(UsageError, match=r"^instances: "):
                server.predict(rows)


@pytest.mark.parametrize("name", ["", "..", "a/b", "a:b", "a\ud800"])
def test_name_that_no_url_can_reach_is_refused(name):
    with pytest.raises(UsageError, match="no URL can reach") as refused:
        Server("http://127.0.0.1:8501", name)
    assert repr(name) in str(refused.value)
