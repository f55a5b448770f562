"""Writes a pushed model as a folder for another runtime."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import jinja2

from ingest import working_directory
from ingest.working_directory import WorkingDirectory
from modules import files, served_versions, uris
from modules.encoder_files import TYPES_KEY
from modules.errors import UsageError
from prediction.portable import transformers_folder
from prediction.portable.pushed_model import PushedModel, read_pushed

README = "README.md"
CARD = "MODEL_CARD.md"  # the version's own README.md

Report = Callable[[str], None]


def export(model: str, destination: str, report: Report) -> None:
    """Writes a pushed version as a folder for Hugging Face's Transformers.

    Args:
      model: A pushed version, or a directory of versions, whose newest is taken.
      destination: A new local directory. It appears when it is complete.
      report: Called with a line for the user.

    Raises:
      UsageError: The version cannot be exported, or the destination exists or cannot be
        written.
    """
    if not uris.is_local(destination):
        raise UsageError(f"--output {destination} is remote; name a local directory")
    target = Path(destination)
    working_directory.refuse_existing(target)
    pushed = read_pushed(model)
    with WorkingDirectory.creating(target, report) as working:
        transformers_folder.write(pushed, working.path)
        _write_readme(pushed, working.path)
        files.sync_directory(str(working.path))
        working.publish(target)
    report(f"{pushed.name} is exported to {target}")
    if difference := find_truncation_difference(pushed):
        report(
            f"Transformers' tokenizer differs in one case: {difference}; see {README}"
        )


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


def _write_readme(model: PushedModel, directory: Path) -> None:
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
        is_pair=len(model.text_columns) == 2,
        difference=find_truncation_difference(model),
        half=(model.budget + 1) // 2,
        ids=model.special_ids,
        second_type=0 if model.config[TYPES_KEY] == 1 else 1,
        has_card=card is not None,
        card=CARD,
    )
    files.write(str(directory / README), text)
