"""The process that serves one reward model: sequences of token ids in, scores out, batched over all that wait.

Started by `scoring_process`; it ends with its parent, whatever ends that.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from transformers import AutoModelForSequenceClassification, PreTrainedModel

from strop.core.errors import DataError, RewardError, describe_error
from strop.core.types import IntArray

PARENT_CHECK_S = 0.5


def load_scorer(folder: Path, device: str, dtype: str) -> PreTrainedModel:
    """DataError when the folder holds no sequence classifier with exactly one label and all of its weights."""
    chosen = ("cuda" if torch.cuda.is_available() else "cpu") if device == "auto" else device
    try:
        model, found = AutoModelForSequenceClassification.from_pretrained(
            folder, dtype=getattr(torch, dtype), output_loading_info=True
        )
    except (OSError, ValueError, KeyError, SafetensorError) as error:
        raise DataError(f"{folder}: not a sequence classifier that transformers loads: {error}") from error
    if found["missing_keys"]:
        raise DataError(f"{folder}: has no weights for {min(found['missing_keys'])}, so it is no reward model")
    if model.config.num_labels != 1:
        raise DataError(f"{folder}: has {model.config.num_labels} labels; a reward model has one")
    return model.to(chosen).eval()


@torch.inference_mode()
def score(model: PreTrainedModel, sequences: Sequence[IntArray], max_batch_tokens: int) -> list[float]:
    """One score a sequence, each as if it were alone. RewardError for a sequence beyond the model's context."""
    limit = model.config.get_text_config().to_dict().get("max_position_embeddings")  # state-space models have none
    longest = max(map(len, sequences))
    if limit is not None and longest > limit:
        raise RewardError(
            f"a rollout has {longest} tokens and the reward model reads {limit}; lower sampling.max_tokens, or use a "
            "reward model with a longer context"
        )
    scores = [0.0] * len(sequences)
    for numbers in _batches(sequences, max_batch_tokens):
        chosen = [sequences[n] for n in numbers]
        for number, value in zip(numbers, _score_batch(model, chosen), strict=True):
            scores[number] = value
    return scores


def _batches(sequences: Sequence[IntArray], max_batch_tokens: int) -> Iterator[list[int]]:
    """Sequences of similar length together, at least one, their padded area within the bound."""
    batch: list[int] = []
    for number in sorted(range(len(sequences)), key=lambda n: -len(sequences[n])):
        if batch and (len(batch) + 1) * len(sequences[batch[0]]) > max_batch_tokens:
            yield batch
            batch = []
        batch.append(number)
    yield batch


def _score_batch(model: PreTrainedModel, sequences: Sequence[IntArray]) -> list[float]:
    """transformers reads the score at the last id that is not the pad token's, so that must end none of these."""
    ends = {int(ids[-1]) for ids in sequences}
    pad = next(i for i in range(len(ends) + 1) if i not in ends)
    model.config.get_text_config().pad_token_id = pad
    width = max(map(len, sequences))
    ids = torch.full((len(sequences), width), pad, dtype=torch.long)
    seen = torch.zeros((len(sequences), width), dtype=torch.long)
    for row, own in enumerate(sequences):
        ids[row, : len(own)] = torch.as_tensor(own, dtype=torch.long)
        seen[row, : len(own)] = 1
    logits = model(input_ids=ids.to(model.device), attention_mask=seen.to(model.device), use_cache=False).logits
    return [float(value) for value in logits.float().reshape(-1)]


def serve(connection: Connection, model: PreTrainedModel, max_batch_tokens: int) -> None:
    """Answer (number, sequences) with (number, scores), or (number, (kind, message)), until the other side closes."""
    while True:
        try:
            waiting = [connection.recv()]
            while connection.poll() and _num_tokens(waiting) < max_batch_tokens:
                waiting.append(connection.recv())
            for answer in _answers(model, waiting, max_batch_tokens):
                connection.send(answer)
        except (EOFError, OSError):
            return


def _num_tokens(waiting: Sequence[tuple[int, Sequence[IntArray]]]) -> int:
    return sum(len(ids) for _, sequences in waiting for ids in sequences)


def _answers(
    model: PreTrainedModel, waiting: Sequence[tuple[int, Sequence[IntArray]]], max_batch_tokens: int
) -> Iterator[tuple[int, Any]]:
    """All in one go; where that fails each alone, so that one request never spoils another."""
    try:
        scores = iter(score(model, [ids for _, sequences in waiting for ids in sequences], max_batch_tokens))
        yield from [(number, [next(scores) for _ in sequences]) for number, sequences in waiting]
    except Exception as error:  # the reward's border: the other side raises it
        if len(waiting) > 1:
            for request in waiting:
                yield from _answers(model, [request], max_batch_tokens)
        else:
            kind = "reward" if isinstance(error, RewardError) else "infra"
            yield waiting[0][0], (kind, str(error) if kind == "reward" else describe_error(error))


def die_with(parent: int) -> None:
    """End this process once `parent` no longer is its parent. (A death signal would come with its thread's end.)"""
    while os.getppid() == parent:
        time.sleep(PARENT_CHECK_S)
    os._exit(1)


def main(fd: str, parent: str, settings: str) -> None:
    """Load, say ("ready", "") or ("failed", why), and serve."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # an interrupt at the terminal is the parent's to handle
    threading.Thread(target=die_with, args=(int(parent),), daemon=True).start()
    wanted = json.loads(settings)
    connection = Connection(int(fd))
    if wanted["threads"]:
        torch.set_num_threads(wanted["threads"])
    try:
        model = load_scorer(Path(wanted["folder"]), wanted["device"], wanted["dtype"])
    except Exception as error:  # told on the other side, whose error it becomes
        connection.send(("failed", str(error) if isinstance(error, DataError) else describe_error(error)))
        return
    connection.send(("ready", ""))
    serve(connection, model, wanted["max_batch_tokens"])


if __name__ == "__main__":
    main(*sys.argv[1:])
