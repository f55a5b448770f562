"""The options of `serve`."""

import re

import pytest
from click.testing import CliRunner

from pipeline.cli import serve
from pipeline.config.paths import REPOSITORY
from serving.batching import BatchingSettings
from serving.limits import RequestLimits
from serving.saved_models import launch
from serving.settings import ServerSettings
from tests.refusals import refused


@pytest.fixture
def settings(monkeypatch):
    """Runs the command without a server; returns the settings it would have."""
    served = []
    monkeypatch.setattr(launch, "serve", lambda read, parent: served.append(read))

    def settings(*arguments):
        command = ["--model", "models", *arguments]
        CliRunner().invoke(serve.serve_command, command, catch_exceptions=False)
        return served.pop()

    return settings


def test_options_default_to_the_settings(settings, tmp_path):
    assert settings() == ServerSettings(settings().model)


def test_options_become_settings(settings):
    changed = settings(
        *("--name", "bert", "--no-grpc", "--no-batching", "--label", "stable=3"),
        *("--batch-timeout-ms", "5", "--max-queued-mib", "2", "--header-seconds", "1"),
        *("--allowed-host", "a", "--allowed-host", "*.b", "--inference-threads", "4"),
    )
    assert changed == ServerSettings(
        changed.model,
        name="bert",
        grpc_port=None,
        labels={"stable": 3},
        allowed_hosts=("a", "*.b"),
        batching=BatchingSettings(
            timeout_seconds=0.005, threads=4, joins_requests=False
        ),
        limits=RequestLimits(max_queued_bytes=2 << 20, header_seconds=1.0),
    )


def test_link_to_a_model_that_tensorflow_reads_as_a_pattern_is_refused(
    settings, tmp_path
):
    """The server follows the link, and TensorFlow would find no file."""
    (tmp_path / "models[1]").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "models[1]")
    with refused("E-path-pattern"):
        settings("--model", str(tmp_path / "link"))


@pytest.mark.parametrize(
    ("option", "setting", "values"),
    [
        ("--allowed-host", "allowed_hosts", ["http://a", "a:80", "a*", ""]),
        (
            "--label",
            "labels",
            ["stable", "=3", "stable=", "stable=new", "stable=²", f"stable={2**63}"],
        ),
    ],
)
def test_value_of_another_form_is_refused(settings, option, setting, values):
    for value in values:
        with refused("E-settings-refused", setting=setting, got=value):
            settings(option, value)


def test_every_option_is_documented():
    text = (REPOSITORY / "docs" / "serving.md").read_text()
    for option in serve.serve_command.params:
        # In backticks, alone or before its value.
        pattern = rf"`{option.opts[0]}[ `]"
        assert option.hidden or re.search(pattern, text), option.opts[0]
