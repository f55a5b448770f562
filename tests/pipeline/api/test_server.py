"""A server as long as a block of code runs; tests/e2e/ predicts with one."""

import contextlib
import re
import subprocess
import sys
import urllib.error

import pandas as pd
import psutil
import pytest

from pipeline import Server, serve
from pipeline.config.paths import REPOSITORY
from tests.refusals import refused
from tests.serving import small_models
from tests.serving.conftest import PATIENCE_SECONDS


@pytest.mark.slow
def test_server_that_ends_raises_its_last_line(tmp_path, monkeypatch):
    small_models.save_half_plus_three(tmp_path / "model" / "1")
    monkeypatch.setenv("PYTHONHASHSEED", "no number")
    got = re.compile("^the server ended: .*Python")
    with refused("E-port-unavailable", got=got), serve(tmp_path / "model"):
        pass


@pytest.mark.slow
def test_model_of_any_name_that_the_server_accepts_is_reached(tmp_path, monkeypatch):
    monkeypatch.setenv("LC_ALL", "C")
    name = "My serving Modell-\xfc at 50% %2F, gRPC \u96ea"
    small_models.save_half_plus_three(tmp_path / name / "1")
    with serve(tmp_path / name) as server:
        assert server.name == name
        assert server.predict([1.0]) == [3.5]
        with pytest.raises(urllib.error.HTTPError, match=r"400.*cut .*allowed"):
            server.predict(["cut \ud83d"])
        for rows in ("text", {"text": ["a"]}, pd.DataFrame({"text": ["a"]}), [b"a"]):
            with refused("E-text-refused", setting="instances"):
                server.predict(rows)


KERNEL = """
import sys, time
from pipeline import serve
with serve(sys.argv[1]) as server:
    print(server.url, flush=True)
    time.sleep(600)
"""


@pytest.mark.slow
def test_server_of_a_kernel_that_is_killed_ends(tmp_path):
    small_models.save_half_plus_three(tmp_path / "model" / "1")
    kernel = subprocess.Popen(
        [sys.executable, "-c", KERNEL, tmp_path / "model"],
        cwd=REPOSITORY,
        stdout=subprocess.PIPE,
        text=True,
    )
    with kernel, contextlib.ExitStack() as killed:
        killed.callback(kernel.kill)
        assert kernel.stdout.readline().startswith("http://127.0.0.1:")
        family = psutil.Process(kernel.pid).children(recursive=True)
        assert len(family) == 3  # the server, what forks, and a version's process
    _, alive = psutil.wait_procs(family, timeout=PATIENCE_SECONDS)
    assert alive == []


@pytest.mark.parametrize("name", ["", "..", "a/b", "a:b", "a\ud800"])
def test_name_that_no_url_can_reach_is_refused(name):
    with refused("E-settings-refused"):
        Server("http://127.0.0.1:8501", name)
