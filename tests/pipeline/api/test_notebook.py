"""The progress of a run in a notebook."""

import io

import pytest
from rich.text import Text

from pipeline.api.notebook import NotebookConsole, is_notebook


@pytest.fixture
def published(monkeypatch):
    """What IPython publishes: content, and whether it replaces earlier content."""
    shell_lib = pytest.importorskip("IPython.core.interactiveshell")
    from traitlets.config import Config

    shell = shell_lib.InteractiveShell(
        config=Config({"HistoryManager": {"enabled": False}})
    )
    monkeypatch.setattr(shell_lib.InteractiveShell, "_instance", shell)
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
    assert "Trainer" in html[-1]


def test_progress_of_a_run_that_did_not_start_is_removed(published):
    with NotebookConsole(io.StringIO()).live(Progress()) as live:
        live.transient = True
    assert "Transform" not in published[-1][2]
    assert not is_notebook()
