"""Hooks of MkDocs: pages from outside of docs/, notebooks, folders in the navigation.

They run in .venv-docs, without this project's packages.
"""

from __future__ import annotations

import os
import posixpath
import re
from pathlib import Path
from typing import Any

import jupytext
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

_ROOT = Path(__file__).resolve().parents[2]
# Files outside of docs/ that are pages, too. A link to any other file is text.
_PAGES = {
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
    "benchmarks/README.md": "benchmarks.md",
}
_SOURCES = {page: source for source, page in _PAGES.items()}
_LINK = re.compile(r"(?<!!)\[([^\]]*)\]\(([\w./-]+)(#[\w-]*)?\)")
_MERMAID = "javascripts/mermaid.min.js"


def _expand(nav: list[Any], docs: Path) -> list[Any]:
    """Replaces `FOLDER/` by its pages, and leaves out what has none."""
    entries: list[Any] = []
    for entry in nav:
        ((title, target),) = entry.items() if isinstance(entry, dict) else [("", entry)]
        if isinstance(target, list):
            entries.append({title: _expand(target, docs)})
        elif target.endswith("/"):
            pages = [*docs.glob(f"{target}*.md"), *docs.glob(f"{target}*.py")]
            names = sorted(f"{target}{page.stem}.md" for page in pages)
            names.sort(key=lambda name: not name.endswith("/index.md"))
            if title and names:
                entries.append({title: names})
            else:
                entries += names
        elif target not in _SOURCES or (_ROOT / _SOURCES[target]).exists():
            entries.append(entry)
    return entries


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Completes the navigation."""
    config.nav = _expand(config.nav, Path(config.docs_dir))
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds the pages from outside of docs/, and the notebooks without their outputs."""
    for page, source in _SOURCES.items():
        if (_ROOT / source).exists():
            files.append(File.generated(config, page, abs_src_path=str(_ROOT / source)))
    for file in list(files):
        if file.src_uri.startswith("notebooks/") and file.src_uri.endswith(".py"):
            notebook = jupytext.read(file.abs_src_path)
            for part in (notebook, *notebook.cells):
                part.metadata = {}
            text = jupytext.writes(notebook, "md").split("---\n", 2)[-1]
            files.remove(file)
            name = f"{file.src_uri.removesuffix('.py')}.md"
            files.append(File.generated(config, name, content=text))
    script = str(_ROOT / "build" / "mermaid" / "mermaid.min.js")
    files.append(File.generated(config, _MERMAID, abs_src_path=script))
    return files


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:
    """Points links to files of the repository to their pages."""
    uri = page.file.src_uri
    source = _SOURCES.get(uri, f"docs/{uri}")

    def resolve(link: re.Match[str]) -> str:
        text, target, anchor = link.groups(default="")
        path = posixpath.normpath(posixpath.join(posixpath.dirname(source), target))
        found = _PAGES.get(path)
        if path.startswith("docs/"):
            found = path.removeprefix("docs/")
            found = re.sub(r"^(notebooks/.*)\.py$", r"\1.md", found)
        if found is None:
            return text
        relative = os.path.relpath(found, posixpath.dirname(uri) or ".")
        return f"[{text}]({relative}{anchor})"

    return _LINK.sub(resolve, markdown)


def on_page_content(html: str, page: Page, **_: Any) -> str:
    """Loads Mermaid where a page has a graph; Material would use another host."""
    if 'class="mermaid"' not in html:
        return html
    start = os.path.relpath(_MERMAID, posixpath.dirname(page.file.src_uri) or ".")
    return f'<script src="{start}"></script>\n{html}'
