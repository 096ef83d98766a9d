"""How measurements of one step become the numbers that are logged."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from strop.core.types import Metric


def reduce_metrics(metrics: Iterable[Metric]) -> dict[str, float]:
    """Weighted mean of the metrics of each name; a name whose weights sum to 0 is left out rather than logged as 0."""
    sums: defaultdict[str, float] = defaultdict(float)
    weights: defaultdict[str, float] = defaultdict(float)
    for metric in metrics:
        sums[metric.name] += metric.value * metric.weight
        weights[metric.name] += metric.weight
    return {name: sums[name] / weight for name, weight in weights.items() if weight}
