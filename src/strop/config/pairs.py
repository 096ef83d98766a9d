"""The sections of stages that train on preference pairs."""

from __future__ import annotations

from pydantic import Field

from strop.config.section import Section


class RewardModelConfig(Section):
    """How a reward model is trained on pairs: `centre_coef` times (s_chosen + s_rejected)^2 keeps scores near zero."""

    centre_coef: float = Field(0.01, ge=0)


class PreferenceConfig(Section):
    """DPO. `label_smoothing` is the share of pairs taken to be labelled wrongly; `length_normalised` takes the mean per
    token instead of the sum, with a larger `beta`; `nll_coef` also teaches the chosen answers.
    """

    beta: float = Field(0.1, gt=0)
    label_smoothing: float = Field(0.0, ge=0, lt=0.5)
    length_normalised: bool = False
    nll_coef: float = Field(0.0, ge=0)
