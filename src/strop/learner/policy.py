"""The trained model behind one face: plain weights or a LoRA adapter, hidden states and head."""

from __future__ import annotations

import copy
import shutil
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import torch
from peft import LoraConfig as PeftConfig
from peft import PeftModel, get_peft_model
from torch import Tensor, nn
from transformers import AutoModelForCausalLM, PreTrainedModel

from strop.config.schema import LearnerConfig, LoraConfig
from strop.core.errors import ConfigError, DataError

TOKENIZER_FILES = (
    "tokenizer.json",
    "tokenizer_config.json",
    "chat_template.jinja",
    "special_tokens_map.json",
    "tokenizer.model",
    "vocab.json",
    "merges.txt",
    "added_tokens.json",
    "generation_config.json",
)


class Policy(nn.Module):
    """A decoder with its head. `source` is the folder it came from; the tokenizer files are copied from there.

    A model that holds an adapter already goes on with it; `starts_plain` says that the plain model is what training
    starts from, so that switching the adapter off gives the reference.
    """

    def __init__(
        self,
        model: PreTrainedModel | PeftModel,
        source: Path | None,
        lora: LoraConfig | None,
        value_head: bool,
        score_head: bool = False,
    ) -> None:
        super().__init__()
        self.source = source
        goes_on = isinstance(model, PeftModel)
        self.starts_plain = lora is not None and not goes_on
        self.model: PreTrainedModel | PeftModel = model if lora is None or goes_on else _with_lora(model, lora)
        self.value_head: nn.Linear | None = None
        if value_head or score_head:  # a score has no bias: pairs could not teach it
            width, bias = model.config.hidden_size, not score_head
            self.value_head = nn.Linear(width, 1, bias=bias, dtype=model.dtype, device=model.device)
            for parameter in self.value_head.parameters():
                nn.init.zeros_(parameter)

    @property
    def plain(self) -> PreTrainedModel:
        """The transformers model itself, whose linear layers hold the adapter under LoRA."""
        return self.model.base_model.model if isinstance(self.model, PeftModel) else self.model

    def hidden(self, ids: Tensor, positions: Tensor, seen: Tensor) -> Tensor:
        """Last hidden states [R, N, H] of `ids` and `positions` [R, N] where `seen` [R, 1, N, N] is attended to."""
        body = self.plain.get_decoder()
        return body(input_ids=ids, position_ids=positions, attention_mask=seen, use_cache=False).last_hidden_state

    def hidden_apart(self, ids: Tensor, real: Tensor) -> Tensor:
        """Last hidden states [R, N, H] of plain right-padded sequences; `real` [R, N] is 1 where not padded."""
        body = self.plain.get_decoder()
        return body(input_ids=ids, attention_mask=real, use_cache=False).last_hidden_state

    def head(self, hidden: Tensor) -> Tensor:
        """Logits [..., V] of hidden states."""
        return self.plain.get_output_embeddings()(hidden)

    def reference(self) -> Any:
        """A context in which the policy is what training started from; only where it `starts_plain`."""
        return self.model.disable_adapter() if self.starts_plain else nullcontext()

    def frozen_copy(self) -> Policy:
        """The policy as it stands, never to be trained."""
        return copy.deepcopy(self).requires_grad_(False).eval()

    @torch.no_grad()
    def named_weights(self) -> Iterator[tuple[str, Tensor]]:
        """Tensors under the names of the plain transformers model, adapters merged in the weights' own precision."""
        if not isinstance(self.model, PeftModel):
            yield from self.plain.named_parameters()
            return
        merged: dict[str, Tensor] = {}
        for name, module in self.plain.named_modules():
            if "lora_A" in dict(module.named_children()):
                delta = module.get_delta_weight("default")
                merged[f"{name}.weight"] = module.base_layer.weight + delta.to(module.base_layer.weight.dtype)
        for name, tensor in self.plain.named_parameters():
            if ".lora_" in name:
                continue
            plain_name = name.replace(".base_layer.", ".")
            yield plain_name, merged.get(plain_name, tensor)

    def export(self, folder: Path, *, merge: bool = False) -> None:
        """A transformers folder, or under LoRA (unless merged) a PEFT adapter folder, with the tokenizer beside it."""
        folder.mkdir(parents=True, exist_ok=True)
        if isinstance(self.model, PeftModel) and not merge:
            self.model.save_pretrained(folder)
        else:
            weights = {name: tensor.detach() for name, tensor in self.named_weights()}
            self.plain.save_pretrained(folder, state_dict=weights)
        for name in TOKENIZER_FILES if self.source is not None else ():
            if (self.source / name).is_file():
                shutil.copy2(self.source / name, folder / name)


def load_policy(folder: Path, config: LearnerConfig, *, value_head: bool = False, score_head: bool = False) -> Policy:
    """The model in `folder`: float32 masters (float64 under float64), on the configured device.

    Its own dropout is off, else what is learned from is not the distribution that was sampled; LoRA's is as configured.
    An adapter folder is trained further as the same adapter under LoRA, else merged into its model.
    """
    dtype = torch.float64 if config.dtype == "float64" else torch.float32
    base = PeftConfig.from_pretrained(str(folder)).base_model_name_or_path if _is_adapter(folder) else folder.resolve()
    try:
        model = AutoModelForCausalLM.from_pretrained(base, dtype=dtype)
        _without_dropout(model)
        if config.activation_checkpointing:
            model.gradient_checkpointing_enable({"use_reentrant": False})
        if _is_adapter(folder):
            model = PeftModel.from_pretrained(model, str(folder), is_trainable=config.lora is not None)
    except (OSError, ValueError) as error:
        raise DataError(f"{folder}: not a causal language model that transformers loads: {error}") from error
    if isinstance(model, PeftModel):
        if config.lora is None:
            model = model.merge_and_unload().requires_grad_(True)
        else:
            _check_same(model, folder, config.lora)
    return Policy(model.to(config.device), folder, config.lora, value_head, score_head)


def _without_dropout(model: PreTrainedModel) -> None:
    for module in model.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.0
        for name, value in list(vars(module).items()):  # attention takes it as a number
            if "dropout" in name and isinstance(value, float):
                setattr(module, name, 0.0)


def _is_adapter(folder: Path) -> bool:
    return (folder / "adapter_config.json").is_file()


def _check_same(model: PeftModel, folder: Path, wanted: LoraConfig) -> None:
    held = model.peft_config["default"]
    if (held.r, held.lora_alpha) != (wanted.rank, wanted.alpha):
        raise ConfigError(
            f"learner.lora has rank {wanted.rank} and alpha {wanted.alpha:g}, but the adapter in {folder} has "
            f"rank {held.r} and alpha {held.lora_alpha:g}; give the same, or no lora to train the merged model"
        )


def _with_lora(model: PreTrainedModel, config: LoraConfig) -> PeftModel:
    targets = config.target_modules
    try:
        return get_peft_model(
            model,
            PeftConfig(
                r=config.rank,
                lora_alpha=config.alpha,
                lora_dropout=config.dropout,
                target_modules=targets if isinstance(targets, str) else list(targets),
                task_type="CAUSAL_LM",
            ),
        )
    except ValueError as error:
        raise ConfigError(f"learner.lora: {error}") from error


def merge_adapter(folder: Path, target: Path) -> Path:
    """The adapter in `folder` merged in float32 into the model it names, written to `target`."""
    base = PeftConfig.from_pretrained(str(folder)).base_model_name_or_path
    model = AutoModelForCausalLM.from_pretrained(base, dtype=torch.float32)
    PeftModel.from_pretrained(model, str(folder)).merge_and_unload().save_pretrained(target)
    for name in TOKENIZER_FILES:
        if (folder / name).is_file():
            shutil.copy2(folder / name, target / name)
    return target
