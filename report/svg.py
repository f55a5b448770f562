"""Figures of Matplotlib as SVG elements that take their colours from the page."""

from __future__ import annotations

import html
import io
import re
import threading
import warnings
from collections.abc import Callable, Iterable
from typing import Any
from xml.etree import ElementTree

import matplotlib
from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure, FigureBase

from report.formatting import printable, shorten

# Placeholders for the page's colours, which depend on the reader's light or dark mode.
# None is black, which Matplotlib leaves out.
INK, MUTED, LINE, ACCENT, BAND = (f"#00000{digit}" for digit in range(1, 6))
SERIES = tuple(f"#0000{digit}0" for digit in range(1, 7))
LEGEND_ABOVE: dict[str, Any] = {
    "loc": "lower left",
    "bbox_to_anchor": (0, 1),
    "borderaxespad": 0.2,
}
# Lines differ in more than colour.
DASHES = ("-", (0, (5, 2)), (0, (1, 1.2)), (0, (5, 1.5, 1, 1.5)), (0, (8, 2)))
_PAGE_COLOURS = {
    INK: "currentColor",
    MUTED: "var(--muted)",
    LINE: "var(--line)",
    ACCENT: "var(--accent)",
    BAND: "var(--band)",
    **{colour: f"var(--series-{index})" for index, colour in enumerate(SERIES, 1)},
}
# Inches; as wide as a phone, so that 10 units are 10 pixels there.
WIDTH, SMALL_WIDTH = 4.9, 3.7
_STYLE: dict[str, Any] = {
    "svg.fonttype": "none",
    "text.parse_math": False,  # class names with a dollar
    "font.size": 10,
    "axes.titlesize": 10,
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.titlecolor": INK,
    "axes.edgecolor": MUTED,
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": LINE,
    "axes.axisbelow": True,
    "figure.facecolor": "none",
    "axes.facecolor": "none",
    "patch.edgecolor": INK,
    "legend.frameon": False,
    "legend.fontsize": 10,
    "lines.linewidth": 1.8,
}
_NO_METADATA = dict.fromkeys(("Date", "Creator", "Format", "Type"))
_SVG, _LINK = "http://www.w3.org/2000/svg", "{http://www.w3.org/1999/xlink}href"
_REFERENCE = re.compile(r"#([\w-]+)")
_DECIMALS = re.compile(r"-?\d+\.\d+")
_FONTS = ("font", "font-family")  # the page sets them
# Matplotlib's settings are global, and a server draws in several threads.
_lock = threading.Lock()
_LABEL_LENGTH = 26
_WORD_JOINER = "\u2060"  # has no width


def draw(
    name: str,
    title: str,
    description: str,
    plot: Callable[[Figure], object],
    height: float = 3.1,
    width: float = WIDTH,
) -> Markup:
    """Returns a figure as an SVG element; equal arguments give equal bytes.

    Args:
      name: Its id on the page.
      title: Its accessible name.
      description: The figure in words, for readers who cannot see it.
      plot: Draws into the figure.
      height: Of the figure, in inches.
      width: Of the figure, in inches.
    """
    settings: Any = {**_STYLE, "svg.hashsalt": name}
    with _lock, matplotlib.rc_context(settings), warnings.catch_warnings():
        # About scripts that Matplotlib's font lacks; the page's font has them.
        warnings.filterwarnings("ignore", ".*[Gg]lyph.*")
        warnings.filterwarnings("ignore", "Matplotlib currently does not support")
        figure = Figure(figsize=(width, height), layout="constrained")
        FigureCanvasSVG(figure)
        plot(figure)
        output = io.StringIO()
        figure.savefig(output, format="svg", metadata=_NO_METADATA)
    svg = _fit_to_page(ElementTree.fromstring(output.getvalue()))
    head, _, content = svg.partition(">")
    return Markup(
        f'{head} role="img" aria-labelledby="{name}-title" '
        f'aria-describedby="{name}-text"><title id="{name}-title">'
        f'{html.escape(printable(title))}</title><desc id="{name}-text">'
        f"{html.escape(printable(description))}</desc>{content}"
    )


def _fit_to_page(root: ElementTree.Element) -> str:
    """Removes what the page's policy or its ids forbid, and rounds coordinates."""
    used = {
        name
        for element in root.iter()
        for value in (element.get(_LINK), element.get("clip-path"))
        for name in _REFERENCE.findall(value or "")
    }
    for parent in list(root.iter()):
        for child in list(parent):
            if child.tag == f"{{{_SVG}}}style":
                parent.remove(child)
    for element in root.iter():
        element.tag = element.tag.removeprefix(f"{{{_SVG}}}")
        if element.tag != "text":
            element.text = None
        element.tail = None
        _fit_attributes(element, used)
    for name in ("width", "height", "version"):
        root.attrib.pop(name, None)
    return ElementTree.tostring(root, encoding="unicode", short_empty_elements=True)


def _fit_attributes(element: ElementTree.Element, used: set[str]) -> None:
    attributes = element.attrib
    if attributes.get("id") not in used:
        attributes.pop("id", None)
    if _LINK in attributes:
        attributes["href"] = attributes.pop(_LINK).replace("\n", "")
    # The page forbids style attributes, but not the same presentation attributes.
    for declaration in attributes.pop("style", "").split(";"):
        key, _, value = (part.strip() for part in declaration.partition(":"))
        if key and key not in _FONTS:
            attributes[key] = _PAGE_COLOURS.get(value, value)
    if attributes.get("transform", "").startswith("rotate(-0 "):
        del attributes["transform"]
    for key in ("d", "x", "y", "width", "height", "transform"):
        if key in attributes:
            text = " ".join(attributes[key].split())
            attributes[key] = _DECIMALS.sub(
                lambda match: f"{float(match[0]):.2f}".rstrip("0").rstrip("."), text
            )


def axes_of(figure: FigureBase, x_label: str, y_label: str) -> Axes:
    """Returns the axes of a figure that has one pair."""
    axes = figure.subplots()
    axes.set_xlabel(label_of(x_label))
    axes.set_ylabel(label_of(y_label))
    return axes


def label_of(text: str, length: int = _LABEL_LENGTH) -> str:
    """Returns a text of the data, cut to `length` so that it fits into a figure."""
    label = printable(shorten(text, length))
    # Matplotlib leaves labels that begin with an underscore out of legends.
    return f"{_WORD_JOINER}{label}" if label.startswith("_") else label


def sentence(parts: Iterable[str]) -> str:
    """Returns the parts of a description as one sentence."""
    text = "; ".join(parts)
    return f"{text[:1].upper()}{text[1:]}." if text else "No values."
