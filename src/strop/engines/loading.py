"""From a model folder to a running engine."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from peft import PeftConfig, PeftModel
from safetensors import SafetensorError
from torch import Tensor
from transformers import AutoModelForCausalLM, PreTrainedModel

from strop.config.machine import on_this_machine
from strop.config.schema import EngineConfig
from strop.core.errors import ConfigError, DataError
from strop.engines.attention import use_grouped_attention
from strop.engines.kv_cache import RowCache
from strop.engines.prefill import compute_prefixes, forward
from strop.engines.renderer import ChatRenderer
from strop.engines.torch_engine import TorchEngine

SHORTEST_PROBE = 24
TOLERANCE = {"float32": 1e-3, "float64": 1e-3, "bfloat16": 0.25}  # mean difference of logprobs; misfits differ by more


def load_engine(
    folder: Path, config: EngineConfig, renderer: ChatRenderer, *, max_context: int | None = None
) -> TorchEngine:
    """An engine over the transformers model in `folder`, on the configured device and in its dtype."""
    config = on_this_machine(config)
    try:
        model = _load_merged(folder, getattr(torch, config.dtype))
    except (OSError, ValueError, KeyError, RuntimeError, SafetensorError) as error:
        raise DataError(f"{folder}: not a causal language model that transformers loads: {error}") from error
    limit = _longest_context(model) or max_context
    if limit is None:
        raise ConfigError(f"{folder}: its config names no longest context; set model.max_context")
    if max_context is not None and max_context > limit:
        raise ConfigError(f"model.max_context is {max_context}, but the model in {folder} allows {limit}")
    model = model.to(torch.device(config.device)).eval()
    if not fits(model, _probe_length(model, max_context or limit), TOLERANCE[config.dtype]):
        raise DataError(f"{folder}: this architecture gives other logits under the engine's cache; use another model")
    return TorchEngine(
        model,
        end_ids=renderer.end_ids,
        decode=renderer.decode,
        config=config,
        max_context=max_context or limit,
    )


def _load_merged(folder: Path, dtype: torch.dtype) -> PreTrainedModel:
    """The model in `folder`, an adapter merged in float32, as the learner's are when they are published."""
    if not (folder / "adapter_config.json").is_file():
        return _load_whole(folder, dtype)
    base = PeftConfig.from_pretrained(str(folder)).base_model_name_or_path
    return PeftModel.from_pretrained(_load_whole(base, torch.float32), str(folder)).merge_and_unload().to(dtype)


def _load_whole(folder: Path | str, dtype: torch.dtype) -> PreTrainedModel:
    """DataError where weights are missing: transformers would fill them with random numbers."""
    model, found = AutoModelForCausalLM.from_pretrained(folder, dtype=dtype, output_loading_info=True)
    if found["missing_keys"]:
        first = min(found["missing_keys"])
        raise DataError(f"{folder}: has no weights for {first} and {len(found['missing_keys']) - 1} more; copy it anew")
    return model


def _longest_context(model: PreTrainedModel) -> int | None:
    try:
        return int(model.config.max_position_embeddings)
    except AttributeError:  # relative positions, or a state
        return None


@torch.inference_mode()
def fits(model: PreTrainedModel, length: int, tolerance: float) -> bool:
    """Whether prefill and one decode step over `length` ids give what transformers gives; sets the attention.

    DataError when what transformers gives is not finite.
    Decided by equality, never by name: state-space layers, chunked attention and the like do not fit.
    """
    ids = np.random.default_rng(0).integers(0, model.config.vocab_size, length).astype(np.int32)
    given = torch.from_numpy(ids.astype(np.int64))[None]
    try:
        model.set_attn_implementation("eager")  # the one that knows all that a family does, capped scores included
        plain = model(input_ids=given.to(model.device), use_cache=False, logits_to_keep=2).logits[0].float()
        use_grouped_attention(model)
        (prefix,) = compute_prefixes(model, [ids[:-1]], [(None, 0)], max_rows=1)
        cache = RowCache(model.config.num_hidden_layers, 1)
        cache.write(0, prefix.keys, prefix.values)
        last = forward(model, cache, given[:, -1:], torch.tensor([[length - 1]]), length)
    except torch.OutOfMemoryError:
        raise
    except (ValueError, TypeError, RuntimeError, IndexError):  # takes no attention, cache or mask of ours
        return False
    if not torch.isfinite(plain).all():
        raise DataError("the model's logits are not finite: its weights hold NaN or infinity; use another checkpoint")
    return _distance(torch.cat([prefix.logits[None], last]), plain) <= tolerance


def _distance(ours: Tensor, theirs: Tensor) -> float:
    return float((torch.log_softmax(ours, -1) - torch.log_softmax(theirs, -1)).abs().mean())


def _probe_length(model: PreTrainedModel, max_context: int) -> int:
    """Longer than any window or chunk that the model's config speaks of, so that its limits show."""
    limits = [v for k, v in model.config.to_dict().items() if ("window" in k or "chunk" in k) and type(v) is int]
    return min(max([SHORTEST_PROBE, *(limit + SHORTEST_PROBE // 2 for limit in limits)]), max_context)
