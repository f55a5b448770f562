"""The progress of a run below the cell of a notebook."""

from __future__ import annotations

import io
import sys
from typing import Any

from rich.console import RenderableType
from rich.live import Live

from pipeline.console import Console

_WIDTH = 100
_FORMAT = '<pre style="line-height:normal;white-space:pre-wrap">{code}</pre>'


def is_notebook() -> bool:
    """Returns whether a kernel of Jupyter runs this process, without importing it."""
    module = sys.modules.get("IPython")
    return module is not None and hasattr(module.get_ipython(), "kernel")


class NotebookConsole(Console):
    """A console that prints to the outputs of a cell.

    Args:
      file: The stream of the notebook.
    """

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
