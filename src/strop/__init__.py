"""Strop: post-training reinforcement learning for language models."""
