"""Seeds derive from where a draw stands in the run, never from when it happens or which attempt it is."""

from __future__ import annotations

import hashlib


def derive_seed(*path: int | str) -> int:
    """A 63-bit seed for the draw named by `path`, for example `(run_seed, ticket, index, turn)`.

    Equal paths give equal seeds on every machine and Python version; distinct paths give independent ones.
    """
    digest = hashlib.blake2b("/".join(f"{type(p).__name__}:{p}" for p in path).encode(), digest_size=8)
    return int.from_bytes(digest.digest(), "big") >> 1
