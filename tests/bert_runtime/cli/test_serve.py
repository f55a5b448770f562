"""The options of the server of portable models."""

from click.testing import CliRunner

from bert_runtime.cli.serve import serve_command
from pipeline.cli import serve
from serving import launch
from serving.settings import ServerSettings


def test_options_default_to_the_settings_without_grpc(monkeypatch):
    served = []
    monkeypatch.setattr(launch, "serve", lambda *arguments: served.append(arguments))
    CliRunner().invoke(serve_command, ["--model", "a"], catch_exceptions=False)
    ((settings, _, main_file),) = served
    assert settings == ServerSettings(settings.model, grpc_port=None)
    assert main_file == "model.json"


def test_options_are_those_of_the_pipelines_server_but_grpc():
    ours, theirs = (
        {option.name for option in command.params if not option.hidden}
        for command in (serve_command, serve.serve_command)
    )
    assert theirs - ours == {"grpc_port", "no_grpc"}
    assert ours - theirs == {"int8", "threads"}
