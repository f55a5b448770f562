"""The words of a text."""

from __future__ import annotations

import re

# Chinese and Japanese do not separate words: each character is one.
_CJK = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff"
_WORD = re.compile(rf"[{_CJK}]|[^\W{_CJK}]+")


def split_words(text: str) -> list[str]:
    """Returns the words of a text in lower case."""
    return _WORD.findall(text.lower())
