"""Writes a pushed model as a folder for another runtime."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Literal

import jinja2

from contracts import wording
from contracts.errors import UsageError
from contracts.storage import files, uris
from contracts.task.decision import describe_threshold
from ingest import working_directory
from ingest.working_directory import WorkingDirectory
from modules.encoder_files import TYPES_KEY
from modules.export.onnx import portable_folder
from modules.export.pushed_model import PushedModel, read_pushed
from portable.folder import CARD_FILE, INPUTS, INT8_FILE, LOGITS, ONNX_FILE
from prediction.export import onnx_evaluation, transformers_folder
from prediction.export.onnx_evaluation import Evaluation
from prediction.model_directory import find_model

Format = Literal["huggingface", "onnx"]
Report = Callable[[str], None]

README = "README.md"


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
      UsageError: The version cannot be exported, options contradict each other, the
        destination exists or cannot be written, or the float32 file predicts something
        else than the version.
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
    pushed = read_pushed(find_model(model))
    if target_format == "huggingface":
        transformers_folder.refuse_other_packing(pushed)
    evaluation = None
    with WorkingDirectory.creating(target, report) as working:
        directory = working.path
        if target_format == "onnx":
            names = portable_folder.write(pushed, directory, is_int8=is_int8)
            if examples:
                evaluation = onnx_evaluation.evaluate(
                    pushed, str(directory), names, examples, label_column
                )
                _check(pushed, evaluation)
        else:
            transformers_folder.write(pushed, directory)
            portable_folder.copy_card(pushed, directory)
        _write_readme(pushed, directory, target_format, evaluation)
        files.sync_directory(str(directory))
        working.publish(target)
    report(f"{pushed.name} is exported to {destination}")
    difference = transformers_folder.find_truncation_difference(pushed)
    if difference and target_format == "huggingface":
        report(f"Hugging Face's tokenizer differs in one case: {difference} ({README})")
    return evaluation


def _check(model: PushedModel, evaluation: Evaluation) -> None:
    """Refuses a float32 file that predicts differently from a float32 model."""
    difference = evaluation.differences[ONNX_FILE]
    if model.precision == "float32" and not difference.is_rounding:
        raise UsageError(
            "model",
            f"{ONNX_FILE} predicts something else than {model.directory}: an output "
            f"differs by {difference.largest:.2g}, where {difference.allowed:.2g} is "
            "allowed, and another class is predicted for "
            f"{wording.count(difference.changes or 0, 'row')}",
            advice="nothing is exported; please report the model's encoder and the "
            "version of ONNX Runtime",
            name="E-export-unsupported",
        )


def _write_readme(
    model: PushedModel,
    directory: Path,
    target_format: Format,
    evaluation: Evaluation | None,
) -> None:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent),
        autoescape=False,  # it is Markdown
        trim_blocks=True,
        lstrip_blocks=True,
    )
    budget = transformers_folder.pair_budget(model)
    text = environment.get_template(f"{target_format}.md.jinja").render(
        model=model,
        is_pair=len(model.text_columns) == 2,
        onnx_file=ONNX_FILE if target_format == "onnx" else "",
        inputs=INPUTS,
        logits=LOGITS,
        int8_file=INT8_FILE if (directory / INT8_FILE).exists() else "",
        evaluation=evaluation,
        difference=transformers_folder.find_truncation_difference(model),
        budget=budget,
        half=(budget + 1) // 2,
        ids=model.special_ids,
        second_type=0 if model.config[TYPES_KEY] == 1 else 1,
        card=CARD_FILE if (directory / CARD_FILE).exists() else "",
        describe_threshold=describe_threshold,
    )
    files.write(str(directory / README), text)
