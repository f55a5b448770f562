"""Takes the pictures of the README from a finished run.

    python -m tools.screenshots --output output/sample

It opens the report of the run, the web view of runs and the page of `serve` in the
system's Chromium, and writes `docs/pictures/*.png`.
"""

from __future__ import annotations

import contextlib
import dataclasses
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import click
from PIL import Image
from playwright.sync_api import Browser, Error, Page, sync_playwright

from pipeline.config.paths import REPOSITORY

PICTURES = REPOSITORY / "docs" / "pictures"
_WIDE, _PHONE = (1280, 1100), (390, 844)
_SECONDS = 120  # to start a server


@dataclasses.dataclass(frozen=True)
class Picture:
    """A picture.

    Attributes:
      page: The page: `report`, `runs` or `serve`.
      view: `light`, `dark` or `phone`; the phone's is light.
      section: The section at the top of the picture; empty for the top of the page.
    """

    page: str
    view: str
    section: str = ""

    @property
    def file(self) -> str:
        """The file's name."""
        return f"{self.page}-{self.view}.png"


ALL = [
    Picture("report", "light"),
    Picture("report", "dark", "training"),
    Picture("report", "phone", "rows"),
    Picture("runs", "light"),
    Picture("runs", "phone"),
    Picture("serve", "light"),
    Picture("serve", "dark"),
    Picture("serve", "phone"),
]


@click.command()
@click.option(
    "--output",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    required=True,
    help="Output directory of a finished run.",
)
@click.option(
    "--pictures",
    type=click.Path(file_okay=False, path_type=Path),
    default=PICTURES,
    show_default="docs/pictures",
    help="Where the pictures are written.",
)
def main(output: Path, pictures: Path) -> None:
    """Write the pictures of the README."""
    pictures.mkdir(parents=True, exist_ok=True)
    reports = sorted(output.glob("runs/*/report.html"))
    models = sorted(output.glob("serving/*"))
    if not reports or not models:
        raise click.ClickException(f"{output} has no finished run; see `make run`")
    with contextlib.ExitStack() as stack:
        serve = ("serve", "--model", str(models[0]), "--no-grpc")
        ui = ("ui", "--output", str(output))
        addresses = {
            "report": reports[-1].absolute().as_uri(),
            "runs": stack.enter_context(_server(8598, *ui)),
            "serve": stack.enter_context(_server(8599, *serve)),
        }
        browser = stack.enter_context(_chromium())
        for picture in ALL:
            path = pictures / picture.file
            take(browser, picture, addresses[picture.page], path)
            click.echo(f"{path} {path.stat().st_size // 1000} kB")


@contextlib.contextmanager
def _chromium() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path="/usr/bin/chromium", args=["--no-sandbox"]
        )
        yield browser
        browser.close()


@contextlib.contextmanager
def _server(port: int, *arguments: str) -> Iterator[str]:
    """Runs a server of the command line until the context ends; yields its address."""
    command = [sys.executable, "-m", "pipeline", *arguments, "--port", str(port)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait()


def take(browser: Browser, picture: Picture, address: str, path: Path) -> None:
    """Takes a picture.

    Args:
      browser: Chromium.
      picture: The picture.
      address: Address of its page, whose server may still be starting.
      path: The PNG file.
    """
    width, height = _PHONE if picture.view == "phone" else _WIDE
    context = browser.new_context(
        viewport={"width": width, "height": height},
        color_scheme="dark" if picture.view == "dark" else "light",
        reduced_motion="reduce",
    )
    page = context.new_page()
    _open(page, f"{address}#{picture.section}" if picture.section else address)
    if picture.page == "runs":
        # Selected runs are drawn in one plot of curves.
        for box in page.locator("input[name=run]").all()[:2]:
            box.check()
        page.wait_for_load_state("networkidle")
    elif picture.page == "serve":
        _predict(page)
    page.screenshot(path=path)
    context.close()
    with Image.open(path) as image:  # a third of the bytes
        image.quantize(256).save(path, optimize=True)


def _open(page: Page, address: str) -> None:
    """Opens a page, whose server may still be starting."""
    end = time.monotonic() + _SECONDS
    while True:
        try:
            page.goto(address)
            return
        except Error:
            if time.monotonic() > end:
                raise
            time.sleep(1)


def _predict(page: Page) -> None:
    """Predicts an example, and computes the effects of its words."""
    page.locator("#predict:enabled").wait_for(timeout=1000 * _SECONDS)
    example = page.locator("#examples button").first
    if example.is_visible():
        example.click()
    else:
        for field in page.locator("#fields textarea").all():
            field.fill("The company reported higher earnings on Thursday.")
    page.locator("#predict").click()
    page.locator("#explain").click()
    page.locator("#explain").wait_for(state="hidden", timeout=1000 * _SECONDS)
    page.evaluate("scrollTo(0, 0)")


if __name__ == "__main__":
    main()
