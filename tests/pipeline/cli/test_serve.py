"""The options of `serve`."""

import re

import pytest
from click.testing import CliRunner

from contracts.errors import UsageError
from pipeline.cli import serve
from pipeline.config.paths import REPOSITORY
from serving import launch
from serving.batching import BatchingSettings
from serving.limits import RequestLimits
from serving.settings import ServerSettings


@pytest.fixture
def settings(monkeypatch):
    """Runs the command without a server; returns the settings it would have."""
    served = []
    monkeypatch.setattr(launch, "serve", served.append)

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


def test_model_in_a_bucket_is_refused_with_its_address(settings):
    with pytest.raises(UsageError, match="reads a directory of this machine") as error:
        settings("--model", "gs://models/sample")
    assert "--model gs://models/sample: " in str(error.value)


def test_link_to_a_model_that_tensorflow_reads_as_a_pattern_is_refused(
    settings, tmp_path
):
    """The server follows the link, and TensorFlow would find no file."""
    (tmp_path / "models[1]").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "models[1]")
    with pytest.raises(UsageError, match=r"--model /.*models\[1\]: TensorFlow"):
        settings("--model", str(tmp_path / "link"))


@pytest.mark.parametrize("host", ["http://a", "a:80", "a*", ""])
def test_invalid_allowed_host_is_refused(settings, host):
    with pytest.raises(UsageError, match="give a host name") as refused:
        settings("--allowed-host", host)
    assert f"--allowed-host {host}: " in str(refused.value)


@pytest.mark.parametrize(
    "label", ["stable", "=3", "stable=", "stable=new", "stable=²", f"stable={2**63}"]
)
def test_label_without_a_version_is_refused(settings, label):
    with pytest.raises(UsageError, match="write LABEL=VERSION") as refused:
        settings("--label", label)
    assert f"--label {label}: " in str(refused.value)


def test_every_option_is_documented():
    text = (REPOSITORY / "docs" / "serving.md").read_text()
    for option in serve.serve_command.params:
        # In backticks, alone or before its value.
        assert re.search(rf"`{option.opts[0]}[ `]", text), option.opts[0]
