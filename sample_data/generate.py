"""Writes the sample data: `python -m sample_data.generate`."""

import argparse
import dataclasses
import pathlib
import random
from collections.abc import Iterator, Sequence

from sample_data import fillers, frames

SPLITS = {"train": 1200, "eval": 200, "test": 200}
SEED = 0

# Probability that the second sentence keeps the wording of the first, by kind of
# change. With these values word overlap hardly predicts the label, and most words that
# are turned over keep their position.
_KEEP_WORDING = {
    "none": 0.5,
    "direction": 0.8,
    "negation": 0.8,
    "order": 0.8,
    "swap": 0.7,
    "number": 0.6,
    "entity": 0.5,
    "date": 0.6,
}
_SOURCED = 0.3
# Probability that a name changes as well. A small encoder learns changed names within
# an epoch, but events that are turned over or swapped only after many. With a changed
# name in most negatives, four epochs are enough.
_NAME_TOO = 0.7
_MIN_WORDS, _MAX_WORDS = 10, 25

# Relative frequency of each kind of change, among those that a frame allows.
_WEIGHTS = {
    "direction": 2.5,
    "negation": 2.5,
    "order": 3.0,
    "swap": 1.5,
    "number": 2.5,
    "entity": 3.5,
    "date": 0.7,
}


@dataclasses.dataclass(frozen=True)
class Pair:
    """Two sentences, and whether they are equivalent.

    Attributes:
      label: 1 if they are equivalent, 0 if not.
      first: The first sentence.
      second: The second sentence.
      kind: The kind of change, or "none".
    """

    label: int
    first: str
    second: str
    kind: str


def generate(seed: int = SEED) -> dict[str, list[Pair]]:
    """Generates all pairs.

    Args:
      seed: Random seed.

    Returns:
      The pairs of each split in random order, with balanced labels and frames. No
      sentence occurs twice.
    """
    rng = random.Random(seed)
    kinds = frames.load()
    seen: set[str] = set()
    splits = {}
    for split, size in SPLITS.items():
        order = [frame for frame in kinds for _ in range(2)]
        pairs = [
            _new_pair(order[row % len(order)], row % 2, seen, rng)
            for row in range(size)
        ]
        rng.shuffle(pairs)
        splits[split] = pairs
    return splits


def _new_pair(
    frame: frames.Frame, label: int, seen: set[str], rng: random.Random
) -> Pair:
    while True:
        pair = _pair(frame, label, rng)
        sentences = {pair.first, pair.second}
        lengths = [len(sentence.split()) for sentence in sentences]
        fits = min(lengths) >= _MIN_WORDS and max(lengths) <= _MAX_WORDS
        if fits and len(sentences) == 2 and not sentences & seen:
            seen |= sentences
            return pair


def _pair(frame: frames.Frame, label: int, rng: random.Random) -> Pair:
    event = draw_event(frame, rng)
    manner = frames.draw_manner(frame, rng)
    other, kind = (event, "none") if label else change_event(event, rng)
    if rng.random() < _KEEP_WORDING[kind]:
        second = _vary(frame, manner, rng)
    else:
        second = _reword(frame, manner, rng)
    return Pair(label, frames.tell(event, manner), frames.tell(other, second), kind)


def draw_event(frame: frames.Frame, rng: random.Random) -> frames.Event:
    """Draws an event whose facts cannot be confused with each other.

    Args:
      frame: The kind of event.
      rng: Random generator.
    """
    pools = dict(frame.slots)
    if "source" in frame.flags and rng.random() < _SOURCED:
        pools["src"] = "analyst"
    facts: dict[str, fillers.Filler] = {}
    for slot, pool in pools.items():
        facts[slot] = fillers.draw(pool, facts.values(), rng)
    turned = frame.turn is not None and rng.random() < 0.5
    return frames.Event(frame, facts, turned)


def _vary(
    frame: frames.Frame, manner: frames.Manner, rng: random.Random
) -> frames.Manner:
    """Returns the same wording with other synonyms and another place of the source."""
    fresh = frames.draw_manner(frame, rng)
    synonyms = [
        new if rng.random() < 0.5 else old
        for old, new in zip(manner.synonyms, fresh.synonyms, strict=True)
    ]
    return frames.Manner(manner.wording, fresh.source, synonyms)


def _reword(
    frame: frames.Frame, manner: frames.Manner, rng: random.Random
) -> frames.Manner:
    while True:
        fresh = frames.draw_manner(frame, rng)
        if fresh.wording != manner.wording:
            return fresh


def change_event(event: frames.Event, rng: random.Random) -> tuple[frames.Event, str]:
    """Changes one fact of an event, and often a name as well.

    Args:
      event: The event.
      rng: Random generator.

    Returns:
      The changed event, and the kind of the first change.
    """
    changed, kind = _change_one(event, event, rng)
    if rng.random() < _NAME_TOO:
        changed, _ = _change_one(changed, event, rng, kinds=("entity",))
    return changed, kind


def _change_one(
    event: frames.Event,
    first: frames.Event,
    rng: random.Random,
    kinds: Sequence[str] = tuple(_WEIGHTS),
) -> tuple[frames.Event, str]:
    slots: dict[str, list[str]] = {}
    for slot, filler in event.facts.items():
        slots.setdefault(filler.kind, []).append(slot)
    flags = event.frame.flags
    possible = [kind for kind in kinds if kind in slots or kind in flags]
    kind = rng.choices(possible, [_WEIGHTS[kind] for kind in possible])[0]
    facts = dict(event.facts)
    if kind == "swap":
        facts["a"], facts["b"] = facts["b"], facts["a"]
    elif kind in slots:
        slot = rng.choice(slots[kind])
        pool = "analyst" if slot == "src" else event.frame.slots[slot]
        # A second change must not undo the first.
        taken = [*event.facts.values(), *first.facts.values()]
        facts[slot] = fillers.draw(pool, taken, rng)
    turned = event.turned != (kind == event.frame.turn)
    return frames.Event(event.frame, facts, turned), kind


def _rows(splits: dict[str, list[Pair]]) -> Iterator[tuple[str, str]]:
    """Yields the split and the line of each pair, numbered over all splits."""
    index = 0
    for split, pairs in splits.items():
        for pair in pairs:
            yield split, f"{index}\t{pair.label}\t{pair.first}\t{pair.second}\n"
            index += 1


def write(directory: pathlib.Path, seed: int = SEED) -> None:
    """Writes train.tsv, eval.tsv and test.tsv.

    Args:
      directory: The directory; created if it does not exist.
      seed: Random seed.
    """
    directory.mkdir(parents=True, exist_ok=True)
    texts = dict.fromkeys(SPLITS, "idx\tlabel\tsentence1\tsentence2\n")
    for split, row in _rows(generate(seed)):
        texts[split] += row
    for split, text in texts.items():
        # newline="" keeps the bytes the same on every system.
        path = directory / f"{split}.tsv"
        path.write_text(text, encoding="utf-8", newline="")


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs the command line.

    Args:
      arguments: The arguments; None takes those of the process.
    """
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=SEED, help="random seed")
    parser.add_argument(
        "--output",
        type=pathlib.Path,
        default=pathlib.Path(__file__).parent,
        help="directory to write to",
    )
    options = parser.parse_args(arguments)
    write(options.output, options.seed)


if __name__ == "__main__":
    main()
