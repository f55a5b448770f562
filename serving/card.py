"""Renders a model card, which may come from anyone: its raw HTML is shown as text."""

from __future__ import annotations

import functools
import html
import re
from collections.abc import Sequence
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.rules_block import StateBlock
from markdown_it.token import Token
from markdown_it.utils import EnvType, OptionsDict

_METADATA = re.compile(r"---\n(.*?)^---$", re.DOTALL | re.MULTILINE)
# A longer card is shown unrendered: a hostile one of 1 MiB takes 12 s to render.
_MAX_CHARACTERS = 1 << 16
_COMMENT = re.compile(r"<!--(?:(?!-->).)*-->\s*")


@functools.lru_cache(maxsize=4)
def render(card: str) -> str:
    """Returns a model card as HTML.

    Args:
      card: Markdown. YAML at its top, as in Hugging Face's cards, is shown unrendered.
    """
    card = card.replace("\r\n", "\n")
    if len(card) > _MAX_CHARACTERS:
        return f"<pre>{html.escape(card)}</pre>\n"
    head = ""
    if metadata := _METADATA.match(card):
        text = html.escape(metadata[1])
        head = f"<details><summary>Metadata</summary><pre>{text}</pre></details>\n"
        card = card[metadata.end() :]
    parser = _Parser(
        "commonmark", {"html": False, "linkify": True}, renderer_cls=_Renderer
    )
    # The page's security policy blocks pictures of other sites.
    parser.enable(["table", "linkify"]).disable("image")
    parser.block.ruler.before(
        "paragraph", "comment", _skip_comment, {"alt": ["paragraph", "blockquote"]}
    )
    assert parser.linkify is not None  # the package that `markdown-it-py[linkify]` adds
    # Otherwise README.md becomes a link, because .md is a top-level domain.
    parser.linkify.set({"fuzzy_link": False, "fuzzy_email": False})
    return head + parser.render(card)


class _Parser(MarkdownIt):
    """Links only to web addresses."""

    def validateLink(self, url: str) -> bool:  # noqa: N802 (markdown-it's name)
        return url.lower().startswith(("https://", "http://"))


class _Renderer(RendererHTML):
    """Writes tables that a keyboard can scroll, and links that send no referrer."""

    def table_open(self, tokens: Any, index: int, options: Any, env: EnvType) -> str:
        env["tables"] = env.get("tables", 0) + 1
        return (
            '<div class="scroll" tabindex="0" role="region" '
            f'aria-label="Table {env["tables"]}"><table>\n'
        )

    def table_close(self, *_: Any) -> str:
        return "</table></div>\n"

    # markdown-it aligns cells by style attributes, which the security policy blocks.
    def th_open(self, *_: Any) -> str:
        return '<th scope="col">'

    def td_open(self, *_: Any) -> str:
        return "<td>"

    def link_open(
        self, tokens: Sequence[Token], index: int, options: OptionsDict, env: EnvType
    ) -> str:
        tokens[index].attrSet("rel", "noreferrer")
        return self.renderToken(tokens, index, options, env)


def _skip_comment(state: StateBlock, line: int, end_line: int, silent: bool) -> bool:
    """Skips a line that is only a comment; a rule of markdown-it."""
    start = state.bMarks[line] + state.tShift[line]
    is_comment = bool(_COMMENT.fullmatch(state.src[start : state.eMarks[line]]))
    if is_comment and not silent:
        state.line = line + 1
    return is_comment
