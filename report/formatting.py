"""Numbers and texts as a person reads them."""

from __future__ import annotations

import datetime
import math
import re
from typing import Any

from contracts.records.checks import Cell
from contracts.records.evaluation import Estimate

# Characters that HTML and SVG refuse, and halves of surrogate pairs.
_UNPRINTABLE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")
_CONTROL_PICTURES = 0x2400  # U+2400 is the picture of NUL
_BYTES_PER_UNIT = 1024
_LARGE = 100
_MINUS, _NO_VALUE = "\u2212", "\u2013"


def printable(text: str) -> str:
    """Replaces each control character of a text with its picture."""
    return _UNPRINTABLE.sub(_picture, text)


def _picture(match: re.Match[str]) -> str:
    code = ord(match[0])
    return chr(_CONTROL_PICTURES + code) if code < ord(" ") else "\ufffd"


def shorten(text: str, length: int) -> str:
    """Returns a text of at most `length` characters, cut ones with an ellipsis."""
    return text if len(text) <= length else text[: length - 1] + "…"


def number(value: float | None) -> str:
    """Returns a number with 4 significant digits; whole numbers have all digits."""
    if value is None:
        return _NO_VALUE
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else "∞" if value > 0 else f"{_MINUS}∞"
    is_whole = value == int(value) and abs(value) < 1e15
    text = f"{value:,.0f}" if is_whole else f"{value:.4g}"
    return re.sub(r"e-0?", "e-", text).replace("-", _MINUS)


def cell(value: Cell) -> str:
    """Returns the cell of a table; an estimate has its interval."""
    if isinstance(value, str):
        return value
    if not isinstance(value, Estimate):
        return number(value)
    if value.interval is None:
        return score(value.value)
    return f"{score(value.value)} ({interval(value)})"


def interval(estimate: Estimate) -> str:
    """Returns the interval of an estimate; empty if it is undefined."""
    return " to ".join(map(score, estimate.interval or ()))


def threshold(value: float) -> str:
    """Returns the threshold of a probability; one above 1 is never reached."""
    # One just below 1 is reached.
    return "> 1" if value > 1 else f"{value:.7g}" if value > 0.9999 else number(value)


def setting_value(value: Any) -> str:
    """Returns the value of a setting."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return number(value) if is_number else str(value)


def score(value: float | None) -> str:
    """Returns a metric with 3 digits after the point, a large value as a number."""
    if value is None or not math.isfinite(value) or abs(value) >= _LARGE:
        return number(value)
    return f"{value:.3f}".replace("-", _MINUS)


def difference(value: float) -> str:
    """Returns a difference of metrics with its sign."""
    if not math.isfinite(value):
        return number(value)
    text = score(abs(value))
    if float(text) == 0:
        return "±0.000"
    return f"{'+' if value > 0 else _MINUS}{text}"


def percent(share: float | None) -> str:
    """Returns a share in percent."""
    if share is None or not math.isfinite(share):
        return number(share)
    return f"{100 * share:.1f} %"


def duration(seconds: float) -> str:
    """Returns a duration in the units that fit it."""
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02} min" if hours else f"{minutes} min {rest:02} s"


def local_time(time: datetime.datetime) -> str:
    """Returns a time in the time zone of this machine, with the zone's name."""
    return f"{time.astimezone():%Y-%m-%d %H:%M:%S %Z}"


def sentence(text: str) -> str:
    """Returns a text with a capital letter and a period."""
    return f"{text[:1].upper()}{text[1:].rstrip('.')}."


def size(count: float) -> str:
    """Returns a number of bytes in the unit that fits it."""
    for unit in ("bytes", "KiB", "MiB"):
        if count < _BYTES_PER_UNIT:
            return f"{count:.0f} {unit}"
        count /= _BYTES_PER_UNIT
    return f"{count:.2f} GiB"
