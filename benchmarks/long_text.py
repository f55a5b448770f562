"""Compares a training step of texts in windows with one of a truncated window.

    python -m benchmarks.long_text

All peers train MiniLM on the same number of texts: on the first window only, and on all
windows, with the activations of all in memory and of some. Prints a table in Markdown.
"""

from __future__ import annotations

import click

from benchmarks import rounds
from benchmarks.rounds import Peer
from contracts.packing import LongTextConfig
from pipeline.config.paths import DEFAULT_CONFIG
from pipeline.config.recipe import load_config
from pipeline.inputs.encoder_source import resolve_encoder

TRUNCATED = "truncated to a window"


def measure(
    encoder: str, windows: LongTextConfig, tokens: int, rows: int, count: int
) -> str:
    """Returns a table in Markdown.

    Args:
      encoder: The encoder's directory.
      windows: The windows.
      tokens: Tokens of each text.
      rows: Texts of a step.
      count: Number of rounds.
    """
    number = windows.most_windows(tokens)
    total = number * rows

    def of(name: str, **settings: object) -> Peer:
        return Peer(
            name, "long_text_step.py", {"encoder": encoder, "rows": rows, **settings}
        )

    model = {"window": windows.window, "pool": windows.pool}
    packed = number * windows.window
    peers = [of(TRUNCATED, tokens=windows.window, model={})]
    in_memory = min(total, windows.windows_in_memory)
    for kept in sorted({total, in_memory}, reverse=True):
        settings = {**model, "windows_in_memory": kept}
        name = f"{number} windows, {kept} of {total} at a time"
        peers.append(of(name, tokens=packed, model=settings))
    results = rounds.run_rounds(peers, count)
    base = results[TRUNCATED]
    lines = []
    for peer in peers:
        figures = results[peer.name]
        # The peak of a process does not change from round to round.
        lines.append(
            [
                peer.name,
                rounds.spread(figures, "seconds").format(2),
                rounds.ratio(figures, base, "seconds").format(1),
                f"{figures[-1]['gigabytes']:.2f}",
            ]
        )
    head = ["texts", "seconds", "÷ truncated", "memory of a step, GiB"]
    return rounds.table(head, lines)


@click.command(help=__doc__)
@click.option("--tokens", default=2000, help="Tokens of each text.")
@click.option("--rows", default=2, help="Texts of a step.")
@click.option("--in-memory", default=16, help="Windows at a time.")
@click.option("--rounds", "count", default=3, help="Rounds.")
def main(tokens: int, rows: int, in_memory: int, count: int) -> None:
    """Measures MiniLM with windows of 128 tokens, one every 64."""
    encoder = resolve_encoder(load_config(DEFAULT_CONFIG)).directory
    windows = LongTextConfig(windows_in_memory=in_memory)
    print(rounds.describe_machine())
    print(measure(encoder, windows, tokens, rows, count))


if __name__ == "__main__":
    main()
