"""The server of exported models as a process."""

import socket

import pytest
from click.testing import CliRunner

from bert_runtime.cli.serve import serve_command
from pipeline.cli import serve
from serving import launch
from serving.settings import ServerSettings
from tests.serving import plain_models
from tests.serving.conftest import wait_until
from tests.serving.processes import started

PROGRAM = "tests.bert_runtime.cli.plain_program"


def test_options_default_to_the_settings_without_grpc(monkeypatch):
    served = []
    monkeypatch.setattr(launch, "serve", lambda *arguments: served.append(arguments))
    CliRunner().invoke(serve_command, ["--model", "a"], catch_exceptions=False)
    ((settings, _, main_file),) = served
    assert settings == ServerSettings(settings.model, grpc_port=None)
    assert main_file == "model.json"


def test_options_are_those_of_the_pipelines_server_but_grpc():
    ours, theirs = (
        {option.name for option in command.params}
        for command in (serve_command, serve.serve_command)
    )
    assert theirs - ours == {"grpc_port", "no_grpc"}
    assert ours - theirs == {"int8", "threads"}


@pytest.mark.slow
def test_versions_change_and_sigterm_drains(tmp_path):
    root = tmp_path / "echo"
    plain_models.save(root / "1")
    with started(root, program=PROGRAM) as server:
        assert server.rpc == "off"
        assert server.predict("a", "echo") == (200, {"echo": "a", "version": 1})
        plain_models.save(root / "2")
        wait_until(lambda: server.predict("a", "echo")[1]["version"] == 2)
        assert server.metric("serving_loaded_versions") == 1
        (root / "3").mkdir()
        (root / "3" / "model.json").write_text("broken")
        plain_models.write_manifest(root / "3")
        wait_until(lambda: "cannot load" in server.read())
        assert server.predict("a", "echo") == (200, {"echo": "a", "version": 2})
        port = server.http.base_url.port
        assert server.stop() == 0
        assert "draining: 0 requests in flight" in server.read()
        with socket.socket() as client:
            assert client.connect_ex(("127.0.0.1", port)) != 0
