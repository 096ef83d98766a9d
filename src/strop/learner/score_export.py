"""A reward model as transformers loads it: AutoModelForSequenceClassification with one label, its score."""

from __future__ import annotations

import copy
from collections.abc import Collection
from pathlib import Path

import torch
from torch import nn
from transformers import AutoModelForSequenceClassification, AutoTokenizer, PreTrainedModel, PreTrainedTokenizerBase

from strop.core.errors import ConfigError
from strop.learner.policy import Policy


def check_scorable(policy: Policy) -> None:
    """ConfigError, before any work, when transformers could not load the trained reward model."""
    with torch.device("meta"):
        _head_name(_classifier(policy, None), policy)


@torch.no_grad()
def export_scorer(policy: Policy, folder: Path, *, ends: Collection[int]) -> None:
    """Body, adapters merged, and reward head as one classifier, with the tokenizer beside it.

    transformers reads the score at the last token that is not padding, by its id. So the pad token written is one that
    ends no answer (`ends` do), and none at all where there is none such: then it scores one answer at a time.
    """
    tokenizer = AutoTokenizer.from_pretrained(policy.source)
    pad = _padding(tokenizer, ends)
    if pad is not None:
        tokenizer.pad_token = tokenizer.convert_ids_to_tokens(pad)
    classifier = _classifier(policy, pad)
    weights = dict(policy.named_weights()) | {_head_name(classifier, policy): policy.value_head.weight}
    own = classifier.state_dict()
    classifier.load_state_dict({name: weights[name] for name in own if name in weights}, strict=False)
    classifier.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def _classifier(policy: Policy, pad: int | None) -> PreTrainedModel:
    config = copy.deepcopy(policy.plain.config)
    config.num_labels, config.pad_token_id = 1, pad
    try:
        return AutoModelForSequenceClassification.from_config(
            config, attn_implementation="eager", dtype=policy.plain.dtype
        )
    except ValueError as error:
        raise ConfigError(
            f"a reward model needs an architecture that transformers can classify sequences with, which "
            f"{config.model_type!r} is not; start from another model"
        ) from error


def _head_name(classifier: PreTrainedModel, policy: Policy) -> str:
    """The one parameter that the policy has not: a row of weights over the last state."""
    names = {name for name, _ in policy.plain.named_parameters()} | {name for name, _ in policy.named_weights()}
    new = [(name, parameter) for name, parameter in classifier.named_parameters() if name not in names]
    if (
        len(new) != 1
        or not isinstance(policy.value_head, nn.Linear)
        or new[0][1].shape != policy.value_head.weight.shape
    ):
        raise ConfigError(
            f"transformers classifies sequences of {policy.plain.config.model_type!r} by more than a row of weights "
            f"({', '.join(name for name, _ in new)}); start from another model"
        )
    return new[0][0]


def _padding(tokenizer: PreTrainedTokenizerBase, ends: Collection[int]) -> int | None:
    known = (tokenizer.pad_token_id, tokenizer.unk_token_id, *sorted(tokenizer.all_special_ids))
    return next((i for i in known if i is not None and i not in ends), None)
