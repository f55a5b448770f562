"""The progress of a run in a notebook."""

import io

import pytest
from rich.text import Text

from pipeline.api.notebook import (
    NotebookConsole,
    is_notebook,
    without_interactive_beam,
)


@pytest.fixture
def shell(monkeypatch):
    """IPython's shell in this process."""
    shell_lib = pytest.importorskip("IPython.core.interactiveshell")
    from traitlets.config import Config

    shell = shell_lib.InteractiveShell(
        config=Config({"HistoryManager": {"enabled": False}})
    )
    monkeypatch.setattr(shell_lib.InteractiveShell, "_instance", shell)
    return shell


@pytest.fixture
def published(shell, monkeypatch):
    """What IPython publishes: content, and whether it replaces earlier content."""
    outputs = []

    def publish(data, metadata=None, *, transient, update=False, **_):
        outputs.append((transient["display_id"], update, data["text/html"]))

    monkeypatch.setattr(shell.display_pub, "publish", publish)
    return outputs


class Progress:
    """Content that a run changes."""

    text = "Transform <b>"

    def __rich__(self):
        return Text(self.text)


def test_progress_is_updated_in_place_and_escaped(published):
    progress = Progress()
    with NotebookConsole(io.StringIO()).live(progress):
        progress.text = "Trainer"
    identifiers, updates, html = zip(*published, strict=True)
    assert len(set(identifiers)) == 1
    assert updates == (False, *[True] * (len(updates) - 1))
    assert "Transform &lt;b&gt;" in html[0]
    assert "font-family:monospace" in html[0]  # the columns of the list are aligned
    assert "Trainer" in html[-1]


def test_progress_of_a_run_that_did_not_start_is_removed(published):
    with NotebookConsole(io.StringIO()).live(Progress()) as live:
        live.transient = True
    assert "Transform" not in published[-1][2]
    assert not is_notebook()


def test_beam_adds_scripts_of_other_hosts_only_to_cells_of_users(shell, monkeypatch):
    import apache_beam as beam
    from apache_beam.runners.interactive import interactive_environment

    monkeypatch.setattr(interactive_environment, "_interactive_beam_env", None)
    monkeypatch.setattr(
        interactive_environment, "register_ipython_log_handler", lambda: None
    )
    # Beam and we tell a kernel of Jupyter by different marks.
    monkeypatch.setattr(shell, "kernel", object(), raising=False)
    monkeypatch.setitem(shell.config, "IPKernelApp", type(shell.config)())
    outputs = []

    def publish(data, metadata=None, **_):
        outputs.append(str(data))

    monkeypatch.setattr(shell.display_pub, "publish", publish)
    assert is_notebook()
    with without_interactive_beam():
        _ = beam.Pipeline() | beam.Create([1])
    assert outputs == []
    _ = beam.Pipeline() | beam.Create([1])
    assert "code.jquery.com" in "".join(outputs)
