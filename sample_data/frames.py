"""Event frames: what can happen, and the different ways to put it into words."""

import dataclasses
import pathlib
import random
import re
from collections.abc import Mapping, Sequence

from sample_data import fillers

_FRAMES_FILE = pathlib.Path(__file__).with_name("frames.txt")

# How somebody may be named as the source of a sentence; "^" marks a capital.
_SOURCES = (
    "{src} said that {s}",
    "according to {src}, {s}",
    "{s}, {src} said",
    "{s}, according to {src}",
    '"^{s}," {src} said',
    "{src} reported that {s}",
    "as {src} put it, {s}",
)


@dataclasses.dataclass(frozen=True)
class Frame:
    """A kind of event.

    Attributes:
        name: str. Name of the frame.
        flags: frozenset of str. What may be changed besides the fillers.
        slots: mapping of str to str. Name of each slot to the pool that fills it.
        wordings: tuple of str. Ways to tell the event; `frames.txt` has the notation.
    """

    name: str
    flags: frozenset[str]
    slots: Mapping[str, str]
    wordings: tuple[str, ...]

    @property
    def turn(self) -> str | None:
        """Says what turning the event over changes, if it can be turned over."""
        kinds = self.flags & {"direction", "negation", "order"}
        return next(iter(kinds), None)


@dataclasses.dataclass(frozen=True)
class Event:
    """One event, all of whose facts are settled.

    Attributes:
        frame: Frame. The kind of event.
        facts: mapping of str to Filler. What each slot holds; "src" is the source.
        turned: bool. Whether it is turned over, as from "rose" to "fell".
    """

    frame: Frame
    facts: Mapping[str, fillers.Filler]
    turned: bool


@dataclasses.dataclass(frozen=True)
class Manner:
    """Every choice of words that does not change what is said.

    Attributes:
        wording: int. Which of the frame's wordings.
        source: int. Which way to name the source.
        synonyms: sequence of float. One number from 0 to 1 for each further choice.
    """

    wording: int
    source: int
    synonyms: Sequence[float]


def load() -> list[Frame]:
    """Reads the frames.

    Returns:
        All frames, in the order of the file.
    """
    blocks = _FRAMES_FILE.read_text(encoding="utf-8").split("\n== ")[1:]
    return [_parse(block) for block in blocks]


def _parse(block: str) -> Frame:
    header, *wordings = block.strip().splitlines()
    flags, slots = header.split("|")
    name, *rest = flags.split()
    pairs = [slot.split("=") for slot in slots.split()]
    return Frame(name, frozenset(rest), dict(pairs), tuple(wordings))


def draw_manner(frame: Frame, rng: random.Random) -> Manner:
    """Draws a way to tell an event.

    Args:
        frame: Frame. The kind of event.
        rng: random.Random. Source of chance.

    Returns:
        Any of the ways there are.
    """
    return Manner(
        wording=rng.randrange(len(frame.wordings)),
        source=rng.randrange(len(_SOURCES)),
        synonyms=[rng.random() for _ in range(16)],
    )


def tell(event: Event, manner: Manner) -> str:
    """Puts an event into words.

    Args:
        event: Event. What happened.
        manner: Manner. How to say it.

    Returns:
        One sentence.
    """
    text = event.frame.wordings[manner.wording]
    text = re.sub(r"<(.*?)/(.*?)>", r"\2" if event.turned else r"\1", text)
    if "src" in event.facts:
        text = _SOURCES[manner.source].replace("{s}", text)
    choices = iter(manner.synonyms)

    def pick(options: Sequence[str]) -> str:
        return options[int(next(choices) * len(options))]

    text = re.sub(r"\[(.*?)\]", lambda m: pick(m[1].split("|")), text)
    text = re.sub(r"\{(\w+)~\}", lambda m: event.facts[m[1]].texts[0], text)
    text = re.sub(r"\{(\w+)\}", lambda m: pick(event.facts[m[1]].texts), text)
    return _polish(text)


def _polish(text: str) -> str:
    """Settles what depends on the words that met: articles, capitals, possessives."""
    text = re.sub(r"\ba (?=[aeiouAEIOU])", "an ", text)
    text = re.sub(r"\^(\w)", lambda m: m[1].upper(), text)
    text = re.sub(r"^\W*\w", lambda m: m[0].upper(), text)
    return text.replace("s's ", "s' ") + "."
