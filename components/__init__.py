"""Our own TFX components, a folder each."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from components.artifacts import HTML as HTML
    from components.artifacts import DataVerdict as DataVerdict
    from components.artifacts import ModelVerdict as ModelVerdict


def __getattr__(name: str) -> Any:
    """Returns an artifact class: a compiled job imports it by `components.NAME`."""
    # Not above, because a recipe reads the settings of checks without TFX.
    from components import artifacts

    try:
        return getattr(artifacts, name)
    except AttributeError:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}") from None
