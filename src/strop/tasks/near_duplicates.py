"""Near-duplicate texts, the same on every machine: MinHash finds candidates, the exact Jaccard similarity decides.

Broder 1997: of two sets the chance that a random order has the same first element is their Jaccard similarity. Rows of
a signature are cut into bands; texts that agree in a whole band are candidates (Leskovec et al., Mining of Massive
Datasets, 3.4).
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

SHINGLE_WORDS = 3
NUM_HASHES = 256
RECALL = 0.99  # of the pairs that are just similar enough, this share become candidates at least
SPREAD = 6 * 0.5 / NUM_HASHES**0.5  # six standard errors at most of a similarity that is told from signatures
WORD = re.compile(r"\w+")
NUMBER = re.compile(r"\d+")


@dataclass(frozen=True, kw_only=True, slots=True)
class NearDuplicate:
    """Text `index` repeats text `of`, which comes before it and is kept."""

    index: int
    of: int
    similarity: float


def near_duplicates(texts: Sequence[str], threshold: float, keys: Sequence[str] | None = None) -> list[NearDuplicate]:
    """Texts whose word shingles have a Jaccard similarity of at least `threshold` with an earlier text that is kept.

    Texts with different numbers are different problems, and so are texts with different `keys` (their answers): only
    within the same is anything a duplicate. Case, punctuation and spaces do not count. `threshold` is in (0, 1].
    """
    if not 0 < threshold <= 1:
        raise ValueError(f"threshold must be above 0 and at most 1, got {threshold}")
    rows = _rows_per_band(threshold)
    multipliers, offsets = _hash_family()
    signatures = np.zeros((len(texts), NUM_HASHES), np.uint32)
    buckets: dict[tuple[str, int, bytes], list[int]] = {}
    kept: dict[int, frozenset[int]] = {}
    found = []
    for index, text in enumerate(texts):
        words = words_of(text)
        shingles = shingles_of(words)
        signature = signatures[index] = _signature(shingles, multipliers, offsets)
        same = repr((sorted(NUMBER.findall(" ".join(words))), keys[index] if keys is not None else None))
        bands = [(same, n, signature[n : n + rows].tobytes()) for n in range(0, NUM_HASHES - rows + 1, rows)]
        candidates = np.array(sorted({other for band in bands for other in buckets.get(band, ())}), np.int64)
        alike = (signatures[candidates] == signature).mean(axis=1)
        likely = candidates[alike >= threshold - SPREAD].tolist()
        similarity, other = max(((jaccard(shingles, kept[other]), -other) for other in likely), default=(0.0, 0))
        if likely and similarity >= threshold:
            found.append(NearDuplicate(index=index, of=-other, similarity=similarity))
            continue
        kept[index] = shingles
        for band in bands:
            buckets.setdefault(band, []).append(index)
    return found


def words_of(text: str) -> list[str]:
    """Words in lower case, without punctuation, letters in their compatible form (NFKC)."""
    return WORD.findall(unicodedata.normalize("NFKC", text).lower())


def shingles_of(words: Sequence[str], size: int = SHINGLE_WORDS) -> frozenset[int]:
    """Hashes of every run of `size` words; a shorter text is one shingle."""
    runs = [words[n : n + size] for n in range(max(1, len(words) - size + 1))]
    return frozenset(run_hash(run) for run in runs)


def run_hash(words: Sequence[str]) -> int:
    """A 64-bit hash of a run of words, the same on every machine."""
    return int.from_bytes(blake2b(" ".join(words).encode(), digest_size=8).digest(), "big")


def jaccard(first: frozenset[int], second: frozenset[int]) -> float:
    return len(first & second) / len(first | second)


def _rows_per_band(threshold: float) -> int:
    """The most rows a band may have so that a pair at `threshold` is found with probability RECALL."""
    for rows in range(16, 1, -1):
        if 1 - (1 - threshold**rows) ** (NUM_HASHES // rows) >= RECALL:
            return rows
    return 1


def _hash_family() -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
    draw = np.random.default_rng(0)
    multipliers = draw.integers(0, 2**64, NUM_HASHES, dtype=np.uint64) | np.uint64(1)
    return multipliers, draw.integers(0, 2**64, NUM_HASHES, dtype=np.uint64)


def _signature(
    shingles: frozenset[int], multipliers: NDArray[np.uint64], offsets: NDArray[np.uint64]
) -> NDArray[np.uint32]:
    """[NUM_HASHES]: the smallest of the shingles' hashes a x + b mod 2^64, of which the upper half is well mixed."""
    values = np.array(sorted(shingles), np.uint64)
    hashes = (values[:, None] * multipliers + offsets) >> np.uint64(32)
    smallest: NDArray[np.uint32] = hashes.min(axis=0).astype(np.uint32)
    return smallest
