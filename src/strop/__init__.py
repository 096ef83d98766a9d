"""Strop: post-training reinforcement learning for language models.

import strop
strop.train(model="smollm2-135m-instruct", domains={"mine": rows}, rewards=[my_reward])
"""

import strop.train  # noqa: F401  the submodule first, or importing it later would take the function's name
from strop.api import dpo, evaluate, reward_model, sft, train

__version__ = "0.1.0"
__all__ = ["dpo", "evaluate", "reward_model", "sft", "train"]
