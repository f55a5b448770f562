"""A plain loop of Hugging Face Transformers on PyTorch, with one of three paddings."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import numpy as np
import torch
from transformers import AutoModelForSequenceClassification
from transformers.trainer_pt_utils import LengthGroupedSampler

from benchmarks import peer


def prepare(settings: peer.Settings) -> Callable[[int], peer.Figures]:
    """Loads the model; see `benchmarks.training` for the settings."""
    torch.set_num_threads(settings["threads"])
    torch.manual_seed(0)
    model = AutoModelForSequenceClassification.from_pretrained(
        settings["encoder"], num_labels=2, attn_implementation="sdpa"
    )
    device = {"cpu": "cpu", "gpu": "cuda"}[settings["device"]]
    model.to(device).train()
    # The default of Transformers' Trainer.
    optimizer = torch.optim.AdamW(
        model.parameters(), settings["learning_rate"], weight_decay=0.01, fused=True
    )
    is_bfloat16 = settings["precision"] == "bfloat16"
    batches = _batches(settings)
    compute = torch.compile(model, dynamic=True) if settings["is_compiled"] else model

    def take_steps(count: int) -> int:
        rows = 0
        for _ in range(count):
            batch = {
                name: tensor.to(device, non_blocking=True)
                for name, tensor in next(batches).items()
            }
            with torch.autocast(device, torch.bfloat16, enabled=is_bfloat16):
                loss = compute(**batch).loss
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
            rows += len(batch["labels"])
        loss.item()  # waits for the last step
        return rows

    take_steps(settings["warmup"])

    def run_round(_: int) -> peer.Figures:
        started = time.perf_counter()
        rows = take_steps(settings["steps"])
        return {"rows_per_second": rows / (time.perf_counter() - started)}

    return run_round


def _batches(settings: peer.Settings) -> Iterator[dict[str, torch.Tensor]]:
    arrays = np.load(settings["arrays"])
    lengths, labels = arrays["lengths"], arrays["labels"]
    ends = np.cumsum(lengths)[:-1]
    word_ids, type_ids = (
        np.split(arrays[name], ends) for name in ("word_ids", "type_ids")
    )
    size = settings["batch_size"]
    while True:
        if settings["padding"] == "group":
            order = list(LengthGroupedSampler(size, lengths=lengths.tolist()))
        else:
            order = torch.randperm(len(lengths)).tolist()
        for start in range(0, len(order), size):
            rows = order[start : start + size]
            longest = int(lengths[rows].max())
            width = settings["length"] if settings["padding"] == "longest" else longest
            padded = np.zeros([3, len(rows), width], np.int64)
            for index, row in enumerate(rows):
                padded[0, index, : lengths[row]] = word_ids[row]
                padded[1, index, : lengths[row]] = type_ids[row]
                padded[2, index, : lengths[row]] = 1
            tensors = torch.from_numpy(padded)
            yield {
                "input_ids": tensors[0],
                "token_type_ids": tensors[1],
                "attention_mask": tensors[2],
                "labels": torch.from_numpy(labels[rows]),
            }


if __name__ == "__main__":
    peer.serve(prepare)
