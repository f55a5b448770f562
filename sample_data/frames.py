"""Event frames: kinds of events, and the wordings that describe them."""

import dataclasses
import pathlib
import random
import re
from collections.abc import Mapping, Sequence

from sample_data import fillers

_FRAMES_FILE = pathlib.Path(__file__).with_name("frames.txt")

# Ways to name the source of a sentence; "^" marks a capital.
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
      name: Name of the frame.
      flags: The changes that it allows besides those of fillers.
      slots: Pool of each slot by the slot's name.
      wordings: Equivalent descriptions; `frames.txt` explains the notation.
    """

    name: str
    flags: frozenset[str]
    slots: Mapping[str, str]
    wordings: tuple[str, ...]

    @property
    def turn(self) -> str | None:
        """The kind of change if the event is turned over; None if it cannot be."""
        kinds = self.flags & {"direction", "negation", "order"}
        return next(iter(kinds), None)


@dataclasses.dataclass(frozen=True)
class Event:
    """An event with all its facts.

    Attributes:
      frame: The kind of event.
      facts: Filler of each slot; "src" is the source.
      turned: Whether the event is turned over, as from "rose" to "fell".
    """

    frame: Frame
    facts: Mapping[str, fillers.Filler]
    turned: bool


@dataclasses.dataclass(frozen=True)
class Manner:
    """The choices of words, which do not change the meaning.

    Attributes:
      wording: Index of the frame's wording.
      source: Index of the way to name the source.
      synonyms: A number from 0 to 1 for each further choice.
    """

    wording: int
    source: int
    synonyms: Sequence[float]


def load() -> list[Frame]:
    """Reads all frames, in the order of the file."""
    blocks = _FRAMES_FILE.read_text(encoding="utf-8").split("\n== ")[1:]
    return [_parse(block) for block in blocks]


def _parse(block: str) -> Frame:
    header, *wordings = block.strip().splitlines()
    flags, slots = header.split("|")
    name, *rest = flags.split()
    pairs = [slot.split("=") for slot in slots.split()]
    return Frame(name, frozenset(rest), dict(pairs), tuple(wordings))


def draw_manner(frame: Frame, rng: random.Random) -> Manner:
    """Draws the choices of words for an event.

    Args:
      frame: The kind of event.
      rng: Random generator.
    """
    return Manner(
        wording=rng.randrange(len(frame.wordings)),
        source=rng.randrange(len(_SOURCES)),
        synonyms=[rng.random() for _ in range(16)],
    )


def tell(event: Event, manner: Manner) -> str:
    """Describes an event in a sentence.

    Args:
      event: The event.
      manner: The choices of words.
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
    """Corrects articles, capitals and possessives, which depend on adjacent words."""
    text = re.sub(r"\ba (?=[aeiouAEIOU])", "an ", text)
    text = re.sub(r"\^(\w)", lambda m: m[1].upper(), text)
    text = re.sub(r"^\W*\w", lambda m: m[0].upper(), text)
    return text.replace("s's ", "s' ") + "."
