"""The made tasks of tools/baseline.py: recipes, rows and an encoder."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import yaml
from safetensors.numpy import save_file

_RECIPES = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text())
TASKS = ("sample", *_RECIPES["tasks"])
_ROWS = {"train": 512, "eval": 128, "test": 128}
_FIXED = {"mixed_precision": "float32", "xla": "off"}  # `auto` measures the machine
_ANIMALS = ["cat", "dog", "bird", "fish"]
_FILLERS = (
    *("the", "a", "house", "tree", "river", "road", "man", "woman", "sees", "likes"),
    *("eats", "finds", "big", "small", "red", "blue", "old", "new"),
)
_WORDS = [*_FILLERS, *_ANIMALS]


def _write_rows(path: Path, count: int, seed: int) -> None:
    """Writes the rows of a split, which have the columns of all made tasks."""
    random = np.random.default_rng(seed)
    with open(path, "w", newline="") as file:
        writer = csv.writer(file, delimiter="\t", lineterminator="\n")
        names = "idx text other long two three labels score weight origin"
        writer.writerow(names.split())
        for index in range(count):
            named = [animal for animal in _ANIMALS if random.random() < 0.3]
            words = [*random.choice(_FILLERS, random.integers(3, 8)), *named, *named]
            words = random.permutation(words).tolist()
            # A tenth of the rows has the labels of other texts.
            animals = _ANIMALS[::2] if random.random() < 0.1 else named
            other = [
                w if random.random() < 0.5 else random.choice(_WORDS) for w in words
            ]
            fillers = random.choice(_FILLERS, random.integers(16, 80)).tolist()
            middle = len(fillers) // 2
            writer.writerow(
                (
                    index,
                    " ".join(words),
                    " ".join(other),
                    " ".join([*fillers[:middle], *words, *words, *fillers[middle:]]),
                    "with" if {"cat", "dog"} & set(animals) else "without",
                    next((a for a in ("cat", "dog") if a in animals), "none"),
                    "|".join(animals),
                    1.25 * len(set(animals) & set(other)),
                    random.choice((0.5, 1.0, 2.0)),
                    random.choice(("web", "mail")),
                )
            )


def _write_encoder(folder: Path) -> None:
    """Writes a BERT of 2 layers with hidden size 16, as Hugging Face does."""
    vocab = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *_WORDS]
    config = {
        "vocab_size": len(vocab),
        "hidden_size": 16,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "intermediate_size": 32,
        "max_position_embeddings": 64,
        "type_vocab_size": 2,
        "hidden_act": "gelu",
    }
    shapes = {
        "embeddings.word_embeddings": (len(vocab), 16),
        "embeddings.position_embeddings": (64, 16),
        "embeddings.token_type_embeddings": (2, 16),
        "embeddings.LayerNorm": (16,),
        "pooler.dense": (16, 16),
    }
    for layer in ("encoder.layer.0", "encoder.layer.1"):
        for name in ("self.query", "self.key", "self.value", "output.dense"):
            shapes[f"{layer}.attention.{name}"] = (16, 16)
        shapes[f"{layer}.attention.output.LayerNorm"] = (16,)
        shapes[f"{layer}.intermediate.dense"] = (32, 16)
        shapes[f"{layer}.output.dense"] = (16, 32)
        shapes[f"{layer}.output.LayerNorm"] = (16,)
    random = np.random.default_rng(0)
    tensors = {}
    for name, shape in shapes.items():
        weight = random.normal(scale=0.3, size=shape) + name.endswith("LayerNorm")
        tensors[f"{name}.weight"] = weight.astype(np.float32)
        if not name.endswith("_embeddings"):
            tensors[f"{name}.bias"] = np.zeros(shape[:1], np.float32)
    folder.mkdir()
    save_file(tensors, folder / "model.safetensors")
    (folder / "vocab.txt").write_text("\n".join(vocab) + "\n")
    (folder / "config.json").write_text(json.dumps(config))


def write(task: str, tree: Path, folder: Path) -> tuple[Path, Path]:
    """Writes the files of a task.

    Args:
      task: One of `TASKS`.
      tree: Has the recipe and the rows of the sample.
      folder: An empty directory.

    Returns:
      The recipe, and the rows to predict with its model.
    """
    shared = _RECIPES["shared"]
    if task == "sample":
        recipe = yaml.safe_load((tree / "configs" / "sample.yaml").read_text())
        recipe["trainer"] |= {"epochs": 1, "steps_per_epoch": 10}
        recipe["evaluator"]["thresholds"] = {"accuracy": 0.4}
        data = tree / "sample_data"
    else:
        recipe = {"name": task, **shared, **_RECIPES["tasks"][task]}
        recipe["trainer"] = {**shared["trainer"], **recipe["trainer"]}
        data = folder / "data"
        data.mkdir()
        for seed, (split, rows) in enumerate(_ROWS.items()):
            _write_rows(data / f"{split}.tsv", rows, seed)
        _write_encoder(folder / "encoder")
    recipe["data"] = {**recipe.get("data", {}), "source": str(data)}
    recipe["trainer"] |= _FIXED
    recipe["serving"] = {"rows": 64}
    recipe["checks"] = {"linear_model": {"action": "warn"}}
    path = folder / "recipe.yaml"
    path.write_text(yaml.safe_dump(recipe, sort_keys=False))
    return path, data / "test.tsv"
