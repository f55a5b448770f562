"""Writes a pushed model as a folder for another runtime."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Literal

import jinja2

from contracts.errors import UsageError
from contracts.storage import files, uris
from contracts.task.decision import describe_threshold
from contracts.versions import served_versions
from ingest import working_directory
from ingest.working_directory import WorkingDirectory
from modules.encoder_files import TYPES_KEY
from prediction.portable import (
    bert_graph,
    onnx_environment,
    onnx_evaluation,
    transformers_folder,
)
from prediction.portable.onnx_evaluation import Evaluation
from prediction.portable.pushed_model import PushedModel, read_pushed

Format = Literal["huggingface", "onnx"]
Report = Callable[[str], None]

README = "README.md"
CARD = "MODEL_CARD.md"  # the version's own README.md
ONNX_FILE = "model.onnx"
INT8_FILE = "model.int8.onnx"

_TOLERANCE = 1e-4  # of a float32 output; relative to the largest one if that is above 1


def export(
    model: str,
    destination: str,
    report: Report,
    *,
    target_format: Format = "huggingface",
    is_int8: bool = False,
    examples: str | None = None,
    label_column: str = "label",
) -> Evaluation | None:
    """Writes a pushed version as a folder for Transformers or ONNX Runtime.

    Args:
      model: A pushed version, or a directory of versions, whose newest is taken.
      destination: A new local directory. It appears when it is complete.
      report: Called with a line for the user.
      target_format: The runtime.
      is_int8: Whether to write a second ONNX file with weights in int8.
      examples: TFRecords of labelled Examples, on which the ONNX files are compared
        with the version. None compares nothing.
      label_column: The feature with the label.

    Returns:
      The comparison.

    Raises:
      UsageError: The version cannot be exported, options contradict each other, or the
        destination exists or cannot be written.
      RuntimeError: The float32 file predicts differently from the version.
    """
    if target_format != "onnx" and (is_int8 or examples):
        raise UsageError(
            "target_format",
            target_format,
            advice="use `target_format=onnx`, or leave `is_int8` and `examples` out",
            name="E-options-conflict",
        )
    if is_int8 and not examples:
        raise UsageError(
            "is_int8",
            "it changes predictions",
            advice="give the TFRecords of the split that measures them with "
            "`examples=FILES`",
            name="E-option-missing",
        )
    if not uris.is_local(destination):
        raise UsageError(
            "destination",
            destination,
            "a local directory",
            name="E-local-path-required",
        )
    target = Path(destination).absolute()
    working_directory.refuse_existing(target)
    if examples:
        onnx_evaluation.find_files(examples)
    pushed = read_pushed(model)
    python = onnx_environment.find_python(report) if examples else ""
    evaluation = None
    with WorkingDirectory.creating(target, report) as working:
        directory = working.path
        if target_format == "onnx":
            transformers_folder.write_config(pushed, directory)
            transformers_folder.write_tokenizer(pushed, directory)
            paths = [directory / ONNX_FILE, *([directory / INT8_FILE] * is_int8)]
            for path in paths:
                bert_graph.write(pushed, path, is_int8=path.name == INT8_FILE)
            if examples:
                evaluation = onnx_evaluation.evaluate(
                    pushed, paths, examples, label_column, python
                )
                _check(pushed, evaluation)
        else:
            transformers_folder.write(pushed, directory)
        _write_readme(pushed, directory, target_format, evaluation)
        files.sync_directory(str(directory))
        working.publish(target)
    report(f"{pushed.name} is exported to {destination}")
    if difference := find_truncation_difference(pushed):
        report(f"Hugging Face's tokenizer differs in one case: {difference} ({README})")
    return evaluation


def find_truncation_difference(model: PushedModel) -> str:
    """Returns when Hugging Face's tokenizer cuts a pair differently; empty if never.

    Both cut the longest text first. If both texts are cut to an odd number of tokens
    in all, ours gives the odd one to the first text, Hugging Face's to the longer one,
    and of two of the same length to the second. It has no setting for this.
    """
    if len(model.text_columns) == 1 or model.budget % 2 == 0:
        return ""
    half = model.budget // 2
    return (
        f"if both texts have more than {half} tokens and the second is at least as "
        f"long as the first, it keeps {half} of the first and {half + 1} of the "
        f"second, and the served model {half + 1} and {half}"
    )


def _check(model: PushedModel, evaluation: Evaluation) -> None:
    """Refuses a float32 file that predicts differently from a float32 model."""
    difference = evaluation.differences[ONNX_FILE]
    allowed = _TOLERANCE * max(evaluation.largest, 1)
    if model.precision == "float32" and not difference <= allowed:
        raise RuntimeError(
            f"{ONNX_FILE} differs by {difference:.2g} from {model.directory}, more "
            f"than {allowed:.2g}, so nothing is exported; please report the model's "
            "encoder and ONNX Runtime's version"
        )


def _write_readme(
    model: PushedModel,
    directory: Path,
    target_format: Format,
    evaluation: Evaluation | None,
) -> None:
    card = files.read(uris.join(model.directory, served_versions.CARD_FILE))
    if card is not None:
        files.write(str(directory / CARD), card)
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent),
        autoescape=False,  # it is Markdown
        trim_blocks=True,
        lstrip_blocks=True,
    )
    text = environment.get_template("readme.md.jinja").render(
        model=model,
        is_onnx=target_format == "onnx",
        is_pair=len(model.text_columns) == 2,
        onnx_file=ONNX_FILE,
        int8_file=INT8_FILE if (directory / INT8_FILE).exists() else "",
        evaluation=evaluation,
        difference=find_truncation_difference(model),
        half=(model.budget + 1) // 2,
        ids=model.special_ids,
        second_type=0 if model.config[TYPES_KEY] == 1 else 1,
        has_card=card is not None,
        card=CARD,
        describe_threshold=describe_threshold,
    )
    files.write(str(directory / README), text)
