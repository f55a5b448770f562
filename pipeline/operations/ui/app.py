"""The pages of the web view, which changes no file."""

from __future__ import annotations

import contextlib
import functools
import itertools
import signal
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Annotated, Any

import fastapi
import uvicorn
from fastapi import responses
from starlette.exceptions import HTTPException

from contracts import signals, wording
from contracts.errors import UsageError
from contracts.run_states import MARKS
from pipeline.operations.comparison import LETTERS, Comparison, compare
from pipeline.operations.runs import find_run
from pipeline.operations.ui.entries import Entry, list_entries
from report import curves, page, templates
from serving.access import AccessMiddleware
from serving.head_requests import HeadMiddleware
from serving.launch import listen

POLICY = (
    "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; "
    "img-src data:; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "Cross-Origin-Resource-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}
_DIRECTORY = Path(__file__).parent
_MAX_CURVES = 12
_NEWEST_CURVES = 4
_MAX_COMPARED = 6
_MAX_CHANGED = 200

# Another port of this machine is another origin of the same site.
_OTHER_SITES = ("cross-site", "same-site")

CallNext = Callable[[fastapi.Request], Awaitable[fastapi.Response]]
Keys = Annotated[list[str], fastapi.Query()]


def application(
    outputs: Sequence[Path], host: str = "127.0.0.1", allowed_hosts: Sequence[str] = ()
) -> fastapi.FastAPI:
    """Returns the ASGI application. Every request reads the outputs again."""
    pages = Pages(outputs)
    app = fastapi.FastAPI(openapi_url=None)
    app.add_middleware(AccessMiddleware, host=host, allowed_hosts=allowed_hosts)
    app.middleware("http")(_refuse_other_sites)
    app.middleware("http")(_add_headers)
    app.add_middleware(HeadMiddleware)
    app.get("/")(pages.runs)
    app.get("/live")(pages.live)
    app.get("/curves")(pages.curves)
    app.get("/compare")(pages.compare)
    app.get("/compare/result")(pages.compare_result)
    app.get("/runs/{output}/{run_id}")(pages.run)
    app.get("/runs/{output}/{run_id}/log")(pages.log)
    app.get("/style.css")(_style)
    app.get("/script.js")(_script)
    app.exception_handler(UsageError)(pages.refuse)
    app.exception_handler(HTTPException)(pages.fail)
    app.exception_handler(Exception)(pages.explain_bug)
    return app


def serve(
    outputs: Sequence[Path], host: str, port: int, allowed_hosts: Sequence[str]
) -> None:
    """Serves the runs of output directories until SIGTERM, SIGINT or SIGHUP.

    Raises:
      UsageError: The port cannot be opened.
    """
    with listen(host, port, "port") as socket:
        shown = f"[{host}]" if ":" in host else host
        print(f"http://{shown}:{socket.getsockname()[1]}/", flush=True)
        app = application(outputs, host, allowed_hosts)
        settings = uvicorn.Config(app, log_level="warning", timeout_graceful_shutdown=3)
        server = uvicorn.Server(settings)
        # Uvicorn's own handlers replace ignored signals, too.
        server.capture_signals = contextlib.nullcontext  # type: ignore[assignment]
        for number in signals.not_ignored(signals.STOPPING):
            signal.signal(number, server.handle_exit)
        server.run(sockets=[socket])


class Pages:
    """Handles requests."""

    def __init__(self, outputs: Sequence[Path]) -> None:
        self._outputs = list(outputs)
        self._templates = templates.environment(_DIRECTORY / "templates")
        self._templates.globals |= {
            "letters": LETTERS,
            "marks": MARKS,
            "outputs": self._outputs,
        }

    def runs(self) -> fastapi.Response:
        """The table of runs."""
        entries, problems = list_entries(self._outputs)
        content = {"entries": entries, "problems": problems, **_running(entries)}
        return self._page("runs.html.jinja", **content)

    def live(self) -> fastapi.Response:
        """The runs that are running, as a part of a page."""
        entries, _ = list_entries(self._outputs)
        return self._page("live.html.jinja", **_running(entries))

    def curves(self, run: Keys = []) -> fastapi.Response:  # noqa: B006 (FastAPI)
        """The curves of several runs in one figure, as a part of a page."""
        entries, _ = list_entries(self._outputs)
        chosen = [entry for entry in entries if entry.key in run][:_MAX_CURVES]
        if not chosen:
            with_curve = (entry for entry in entries if entry.losses)
            chosen = list(itertools.islice(with_curve, _NEWEST_CURVES))
        return self._page("curves.html.jinja", figures=_overlays(chosen), runs=chosen)

    def compare(self, run: Keys = []) -> fastapi.Response:  # noqa: B006 (FastAPI)
        """The page of a comparison; a script loads the result."""
        return self._page("compare.html.jinja", entries=self._chosen(run))

    def compare_result(
        self,
        run: Keys = [],  # noqa: B006 (FastAPI)
    ) -> fastapi.Response:
        """The comparison of runs, as a part of a page."""
        chosen = self._chosen(run)
        comparison = _compare(tuple((entry.paths, entry.id) for entry in chosen))
        return self._page(
            "comparison.html.jinja",
            comparison=comparison,
            changed=comparison.changed[:_MAX_CHANGED],
        )

    def run(self, output: str, run_id: str) -> fastapi.Response:
        """The report of a run, or its progress if it has no report."""
        entry = self._find(f"{output}/{run_id}")
        report = entry.report
        if report is None:
            return self._page("run.html.jinja", entry=entry, **_running([entry]))
        text = page.render(report, home="/", problems=entry.problems)
        response = responses.HTMLResponse(text)
        # A page cannot set `frame-ancestors` itself.
        policy = f"{page.policy()}; frame-ancestors 'none'"
        response.headers["Content-Security-Policy"] = policy
        return response

    def log(self, output: str, run_id: str) -> fastapi.Response:
        """The end of the log of a run."""
        return responses.PlainTextResponse(self._find(f"{output}/{run_id}").log)

    def refuse(self, request: fastapi.Request, error: Exception) -> fastapi.Response:
        """The page of an error that a user can correct."""
        del request
        return self._page("error.html.jinja", 400, message=str(error))

    def fail(self, request: fastapi.Request, error: Exception) -> fastapi.Response:
        """The page of an HTTP error, such as a missing run."""
        del request
        assert isinstance(error, HTTPException)
        return self._page("error.html.jinja", error.status_code, message=error.detail)

    def explain_bug(
        self, request: fastapi.Request, error: Exception
    ) -> fastapi.Response:
        """The page of an unexpected error."""
        del request
        message = f"{type(error).__name__}; the terminal of `ui` has the traceback."
        return self._page("error.html.jinja", 500, message=message)

    def _find(self, key: str) -> Entry:
        entries, _ = list_entries(self._outputs)
        for entry in entries:
            if entry.key == key:
                return entry
        raise HTTPException(404, f"There is no run {key}.")

    def _chosen(self, keys: Sequence[str]) -> list[Entry]:
        if not 2 <= len(keys) <= _MAX_COMPARED:
            raise UsageError(
                "run",
                wording.count(len(keys), "run"),
                f"2 to {_MAX_COMPARED}",
                "tick them in the table",
                name="E-settings-refused",
            )
        # The oldest first: the others are tested against the first.
        return sorted(map(self._find, keys), key=lambda entry: entry.id)

    def _page(self, name: str, status: int = 200, **content: Any) -> fastapi.Response:
        text = self._templates.get_template(name).render(**content)
        return responses.HTMLResponse(text, status, HEADERS)


def _running(entries: Sequence[Entry]) -> dict[str, Any]:
    """Returns the content of the list of running runs."""
    running = [
        {"entry": entry, "progress": entry.progress}
        for entry in entries
        if entry.state == "running"
    ]
    return {"running": running, "now": time.time()}


def _overlays(entries: Sequence[Entry]) -> dict[str, Any]:
    """Returns a figure of the losses, and one of each metric that decides."""
    losses = {e.name: curve for e in entries if (curve := e.losses)}
    figures = {}
    if losses:
        figures["Training loss"] = curves.overlay(
            "figure-loss", "Training loss of runs by step", losses, "loss"
        )
    for metric in dict.fromkeys(entry.record.metric for entry in entries):
        evaluations = {
            entry.name: curve
            for entry in entries
            if entry.record.metric == metric and (curve := entry.evaluations)
        }
        if evaluations:
            name = "figure-" + "".join(c if c.isalnum() else "-" for c in metric)
            title = f"{metric} of the evaluation split"
            figures[title] = curves.overlay(
                name, f"{title}, of runs by step", evaluations, metric
            )
    return figures


@functools.lru_cache(maxsize=16)
def _compare(runs: tuple[tuple[Any, str], ...]) -> Comparison:
    """Compares runs. Finished runs do not change, so the result is cached."""
    return compare([find_run(paths, run_id) for paths, run_id in runs])


async def _refuse_other_sites(
    request: fastapi.Request, call_next: CallNext
) -> fastapi.Response:
    """Refuses requests that pages of other sites send: a comparison takes seconds.

    Links to the web view are allowed. Clients other than browsers do not send these
    headers (https://www.w3.org/TR/fetch-metadata/).
    """
    site, mode, destination = (
        request.headers.get(f"sec-fetch-{name}") for name in ("site", "mode", "dest")
    )
    is_link = mode == "navigate" and destination == "document"
    if site in _OTHER_SITES and not is_link:
        error = f"a page of another site sent this request (Sec-Fetch-Site: {site})"
        return responses.JSONResponse({"error": error}, 403)
    return await call_next(request)


async def _add_headers(
    request: fastapi.Request, call_next: CallNext
) -> fastapi.Response:
    response = await call_next(request)
    for name, value in HEADERS.items():
        response.headers.setdefault(name, value)
    return response


def _style() -> fastapi.Response:
    text = templates.style() + (_DIRECTORY / "ui.css").read_text("utf-8")
    return fastapi.Response(text, media_type="text/css")


def _script() -> fastapi.Response:
    text = templates.script("tables.js") + (_DIRECTORY / "ui.js").read_text("utf-8")
    return fastapi.Response(text, media_type="text/javascript")
