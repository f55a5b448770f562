"""The progress of a run below the cell of a notebook."""

from __future__ import annotations

import contextlib
import io
import sys
from collections.abc import Iterator
from typing import Any

from rich.console import RenderableType
from rich.live import Live

from pipeline.console import Console

_WIDTH = 100
_FORMAT = (
    '<pre style="font-family:monospace;line-height:normal;white-space:pre-wrap">'
    "{code}</pre>"
)


def is_notebook() -> bool:
    """Returns whether a kernel of Jupyter runs this process, without importing it."""
    module = sys.modules.get("IPython")
    return module is not None and hasattr(module.get_ipython(), "kernel")


@contextlib.contextmanager
def without_interactive_beam() -> Iterator[None]:
    """Keeps Beam's interactive features out of a notebook while the context is open.

    In a kernel, every Beam pipeline adds an output to the cell that loads jQuery and
    DataTables from two other hosts, for tables that a run does not show. Pipelines
    outside of the context, such as a user's own, are unchanged.
    Source: `apache_beam/utils/interactive_utils.py`, `alter_label_if_ipython`.
    """
    if not is_notebook():
        yield
        return
    from apache_beam import pipeline

    original = pipeline.alter_label_if_ipython
    pipeline.alter_label_if_ipython = lambda transform, pvalueish: None
    try:
        yield
    finally:
        pipeline.alter_label_if_ipython = original


class NotebookConsole(Console):
    """A console that prints to the stream of a notebook."""

    def __init__(self, file: Any) -> None:
        super().__init__(
            file=file, width=_WIDTH, force_jupyter=False, force_terminal=False
        )

    @property
    def command(self) -> str:
        """What a user enters to run the same again."""
        return "the same cell"

    def live(self, content: RenderableType) -> Live:
        """Returns a display that updates the content in place."""
        return _NotebookLive(content)


class _NotebookLive(Live):
    """Content in a display of IPython; rich's own needs ipywidgets."""

    def __init__(self, content: RenderableType) -> None:
        from IPython.display import DisplayHandle

        super().__init__(
            content,
            console=Console(file=io.StringIO(), width=_WIDTH, force_jupyter=False),
            refresh_per_second=2,
            redirect_stdout=False,
            redirect_stderr=False,
        )
        self._handle = DisplayHandle()
        self._shown = ""
        self._beam = contextlib.ExitStack()

    def __enter__(self) -> _NotebookLive:
        """Displays the content, and imports Beam, whose notices go to the run's log."""
        super().__enter__()
        self._beam.enter_context(without_interactive_beam())
        return self

    def __exit__(self, *raised: Any) -> None:
        """Displays the content for the last time."""
        self._beam.close()
        super().__exit__(*raised)

    def refresh(self) -> None:
        """Displays the content, if it has changed."""
        recorder = Console(
            file=io.StringIO(), width=_WIDTH, record=True, force_jupyter=False
        )
        recorder.print(self.get_renderable())
        self._show(recorder.export_html(inline_styles=True, code_format=_FORMAT))

    def stop(self) -> None:
        """Displays the content for the last time, or removes it."""
        super().stop()
        if self.transient:
            self._show("<span></span>")

    def _show(self, html: str) -> None:
        from IPython.display import HTML

        if not self._shown:
            self._handle.display(HTML(html))
        elif html != self._shown:
            self._handle.update(HTML(html))
        self._shown = html
