"""Compares the exported model with other ways to serve the same weights.

    python -m benchmarks.serving --config configs/mrpc_minilm.yaml --data DIR --model
    OUTPUT/serving/mrpc-minilm

The rows are those of the evaluation split, in its order, 32 at a time and one at a
time, from one thread. The peers are the SavedModel of the Model Garden's tutorial
("Fine-tuning a BERT model"), which pads every pair to the longest length that is
allowed, and Transformers' pipeline on PyTorch. All three must give the same
probabilities. Prints tables in Markdown.
"""

from __future__ import annotations

import itertools
import json
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from benchmarks import latency, peer_environment, rounds
from benchmarks.peer import Figures
from benchmarks.rounds import Peer
from modules import environment
from pipeline.cli import options
from pipeline.config import recipe
from pipeline.config.errors import UsageError
from pipeline.inputs import examples
from serving import discovery

if TYPE_CHECKING:
    import numpy as np

    from modules.config.task import TaskConfig

OURS = "our `serving_default`"
TUTORIAL = "the tutorial's `ExportModel`"
TRANSFORMERS = "Transformers' pipeline"
BATCH = 32
TOLERANCE = 1e-4  # of a probability
_FIGURES = (
    (latency.at(latency.ROWS_PER_SECOND, BATCH), 1),
    (latency.at(latency.P50, 1), 1),
    (latency.at(latency.P99, 1), 1),
)
_SHORT_ROWS = 96


def read_rows(
    config: recipe.Config, limit: int | None
) -> tuple[list[list[str]], list[int]]:
    """Returns the texts and the classes of the evaluation split.

    Args:
      config: Names the TSV files and their columns.
      limit: Rows, at most; None takes all.

    Raises:
      UsageError: There is no such file.
    """
    task = config.task
    path = examples.find_tables(config.data_source).get("eval")
    if path is None or task.classes is None:
        raise UsageError(
            f"data {config.data_source} of task {task.name} has no TSV of classes "
            "for the split eval; give a directory with --data DIR"
        )
    table = itertools.islice(examples.read_table(path, task), limit)
    rows = [row for _, row in table]
    texts = [[row[name] for name in task.text_columns] for row in rows]
    return texts, [_class_id(row[task.label_column], task.classes) for row in rows]


def _class_id(label: str, classes: Sequence[str]) -> int:
    return classes.index(label) if label in classes else int(label)


def prepare_peers(
    config: recipe.Config, model: Path, rows: Path, directory: Path
) -> list[Peer]:
    """Writes the models of the others, with the weights of ours.

    Args:
      config: Names the task and the encoder.
      model: The SavedModel.
      rows: A JSON file of the texts of each row.
      directory: Where the models are written, and the answers will be.
    """
    environment.set_up()
    from benchmarks import same_weights
    from modules import encoder as encoder_lib
    from pipeline.inputs.encoder_source import resolve_encoder

    python = peer_environment.build()
    task, length = config.task, config.preprocessing.max_seq_length
    encoder = encoder_lib.open_encoder(resolve_encoder(config).directory)
    restored = same_weights.restore(model, encoder, task)
    tutorial, hugging_face = directory / "tutorial", directory / "hugging_face"
    same_weights.write_tutorial(
        restored, encoder, task, tutorial, max_seq_length=length
    )
    same_weights.write_hugging_face(restored, encoder, task, hugging_face)

    def describe(name: str, served: Path) -> dict[str, Any]:
        return {
            "model": str(served),
            "rows": str(rows),
            "columns": task.text_columns,
            "max_seq_length": length,
            "sizes": [1, BATCH],
            "answers": str(answers_of(directory, name)),
        }

    return [
        Peer(OURS, "saved_model.py", describe(OURS, model)),
        Peer(TUTORIAL, "saved_model.py", describe(TUTORIAL, tutorial)),
        Peer(
            TRANSFORMERS,
            "transformers_pipeline.py",
            describe(TRANSFORMERS, hugging_face),
            python,
        ),
    ]


def answers_of(directory: Path, name: str) -> Path:
    """Returns where a peer writes its probabilities."""
    order = (OURS, TUTORIAL, TRANSFORMERS).index(name)
    return directory / f"answers-{order}.json"


def find_differences(answers: dict[str, np.ndarray]) -> dict[str, float]:
    """Returns how far each peer's probabilities are from ours, at most.

    Args:
      answers: Probabilities float[rows, classes] by peer.

    Raises:
      ValueError: They are further away than the same weights explain.
    """
    found = {
        name: float(abs(values - answers[OURS]).max())
        for name, values in answers.items()
    }
    for name, difference in found.items():
        if not difference <= TOLERANCE:
            raise ValueError(
                f"{name} gives a probability that is {difference:.3g} from ours, more "
                f"than {TOLERANCE}: it is not the same model, and does not compare"
            )
    return found


def quality_table(
    task: TaskConfig, labels: Sequence[int], answers: dict[str, np.ndarray]
) -> str:
    """Returns the quality of all peers, and how far they are from ours."""
    import numpy as np

    from modules.evaluation import metrics

    differences = find_differences(answers)
    lines = []
    for name, values in answers.items():
        real = np.asarray(labels)
        losses = -np.log(values[np.arange(len(real)), real])
        found = metrics.compute(
            task, metrics.Predictions(np.arange(len(real)), real, values, losses)
        )
        cells = [f"{found[metric]:.4f}" for metric in ("accuracy", "f1")]
        lines.append([name, *cells, f"{differences[name]:.1e}"])
    head = ["what", "accuracy", "F1", "largest difference of a probability"]
    return rounds.table(head, lines)


def speed_table(results: dict[str, list[Figures]]) -> str:
    """Returns all figures, and ours divided by theirs within a round."""
    lines = []
    for name, theirs in results.items():
        line = [name]
        for figure, digits in _FIGURES:
            line.append(rounds.spread(theirs, figure).format(digits))
            ratio = rounds.ratio(results[OURS], theirs, figure)
            line.append("" if name == OURS else ratio.format(2))
        lines.append(line)
    head = ["what"]
    for figure, _ in _FIGURES:
        head += [figure, "ours ÷ theirs"]
    return rounds.table(head, lines)


@click.command(help=__doc__)
@options.CONFIG
@options.SET
@click.option("--data", "source", help="Directory of TSV splits, as of `run`.")
@click.option(
    "--model",
    type=click.Path(path_type=Path, exists=True),
    required=True,
    help="What a run pushed, as of `serve`.",
)
@click.option("--rounds", "count", type=int, default=5, show_default=True)
@click.option("--short", is_flag=True, help=f"{_SHORT_ROWS} rows, 1 round.")
def main(
    config_file: Path,
    settings: tuple[str, ...],
    source: str | None,
    model: Path,
    count: int,
    short: bool,
) -> None:
    """Runs the command line."""
    environment.set_up(quiet=True)
    overrides = dict(recipe.parse_override(text) for text in settings)
    if source is not None:
        overrides["data.source"] = source
    config = recipe.load_config(config_file, overrides)
    texts, labels = read_rows(config, _SHORT_ROWS if short else None)
    versions = discovery.find_model(model).scan()
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        rows = directory / "rows.json"
        rows.write_text(json.dumps(texts))
        peers = prepare_peers(config, versions[max(versions)], rows, directory)
        results = rounds.run_rounds(peers, 1 if short else count)
        answers = _read_answers(directory, peers)
    print(f"{len(texts)} rows, {rounds.describe_machine()}\n", file=sys.stderr)
    print(speed_table(results), quality_table(config.task, labels, answers), sep="\n\n")


def _read_answers(directory: Path, peers: Sequence[Peer]) -> dict[str, np.ndarray]:
    import numpy as np

    return {
        peer.name: np.array(json.loads(answers_of(directory, peer.name).read_text()))
        for peer in peers
    }


if __name__ == "__main__":
    main()
