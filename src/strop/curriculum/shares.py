"""From weights to shares: nested groups of domains, and floors and ceilings kept by water-filling.

Shapes: D domains.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from strop.core.errors import ConfigError
from strop.core.protocols import Domain

Array = NDArray[np.float64]
ROUNDING = 1e-9


@dataclass(frozen=True, kw_only=True, slots=True)
class Bounds:
    """The least and the most a domain may have, as shares of the whole."""

    floor: float = 0.0
    ceiling: float = 1.0

    def __post_init__(self) -> None:
        if not 0 <= self.floor <= self.ceiling <= 1 or self.ceiling == 0:
            raise ConfigError(
                f"a floor of {self.floor:g} and a ceiling of {self.ceiling:g}: they are shares of the whole, "
                "0 <= floor <= ceiling <= 1, the ceiling above 0"
            )


@dataclass(frozen=True, kw_only=True, slots=True)
class DomainGroup:
    """A named set of domains and groups: those whose `parent` it is. Floor and ceiling are shares of the whole.

    `weight` is against its siblings; None is the sum of its members' weights, so that the group only bounds them.
    """

    name: str
    parent: str | None = None
    weight: float | None = None
    floor: float = 0.0
    ceiling: float = 1.0

    def __post_init__(self) -> None:
        Bounds(floor=self.floor, ceiling=self.ceiling)
        if self.weight is not None and not self.weight > 0:
            raise ConfigError(f"group {self.name!r} has weight {self.weight:g}: give it a positive one, or none")


@dataclass(frozen=True, slots=True)
class Node:
    """A domain (its number in `leaves`) or a group of nodes, with the bounds its members leave it."""

    name: str
    leaves: tuple[int, ...]
    children: tuple[Node, ...]
    weight: float | None
    low: float
    high: float


def share_tree(
    domains: Sequence[Domain], groups: Sequence[DomainGroup] = (), bounds: Mapping[str, Bounds] | None = None
) -> Node:
    """The nested groups as one node. ConfigError on unknown names, cycles, and bounds that cannot all be kept."""
    _check_names(domains, groups, bounds or {})
    return _group_node("the whole", None, Bounds(), None, (domains, groups, bounds or {}))


def prior_weights(root: Node, weights: Sequence[float]) -> Array:
    """Static weights [D] of domains: each node's weight is divided among its members in proportion to theirs.

    Without weights on groups these are the domains' own `weights`.
    """
    found = np.zeros(len(weights))

    def divide(node: Node, factor: float) -> None:
        for child in node.children:
            own = _plain_weight(child, weights)
            inner = factor if child.weight is None or not own else factor * child.weight / own
            if child.children:
                divide(child, inner)
            else:
                found[child.leaves[0]] = factor * weights[child.leaves[0]]

    divide(root, 1.0)
    return found


def shares_within(root: Node, weights: Array) -> Array:
    """Shares [D] that sum to 1, in proportion to `weights` as far as floors and ceilings allow.

    From the whole down, every node's share is divided among its members by `fill`.
    """
    shares = np.zeros(len(weights))

    def divide(node: Node, total: float) -> None:
        children = node.children
        wanted = np.array([weights[c.leaves[0]] if not c.children else weights[list(c.leaves)].sum() for c in children])
        parts = fill(wanted, np.array([c.low for c in children]), np.array([c.high for c in children]), total)
        for child, part in zip(children, parts.tolist(), strict=True):
            if child.children:
                divide(child, part)
            else:
                shares[child.leaves[0]] = part

    divide(root, 1.0)
    return shares


def fill(weights: Array, low: Array, high: Array, total: float) -> Array:
    """clip(mu * weights, low, high) [n] with the one mu that makes them sum to `total` (water-filling).

    Needs low.sum() <= total <= high.sum(), and low == high where a weight is 0.
    """
    parts: Array = total * (weights / sum(weights.tolist())) if weights.any() else np.zeros_like(weights)
    if weights.any() and (parts >= low).all() and (parts <= high).all():
        return parts
    if high.sum() <= total:
        return high
    mu = _level(weights, low, high, total)
    free = (mu * weights > low) & (mu * weights < high)
    parts = np.clip(mu * weights, low, high)
    if free.any():
        parts[free] = weights[free] * ((total - parts[~free].sum()) / weights[free].sum())
    return parts


def _level(weights: Array, low: Array, high: Array, total: float) -> float:
    """mu by bisection to the last bits; the caller solves for it exactly among the members it leaves free."""
    positive = weights > 0
    under, over = 0.0, float((high[positive] / weights[positive]).max())
    for _ in range(100):
        middle = (under + over) / 2
        if np.clip(middle * weights, low, high).sum() < total:
            under = middle
        else:
            over = middle
    return over


def _plain_weight(node: Node, weights: Sequence[float]) -> float:
    """What a domain weighs, or the members of a group in all, groups among them by their own weight."""
    if not node.children:
        return weights[node.leaves[0]]
    return sum(_plain_weight(c, weights) if c.weight is None else c.weight for c in node.children)


def _group_node(
    name: str,
    key: str | None,
    own: Bounds,
    weight: float | None,
    parts: tuple[Sequence[Domain], Sequence[DomainGroup], Mapping[str, Bounds]],
) -> Node:
    domains, groups, bounds = parts
    children: list[Node] = []
    for number, domain in enumerate(domains):
        if domain.parent == key:
            limits = bounds[domain.name] if domain.name in bounds else Bounds()
            high = limits.ceiling if domain.weight > 0 else limits.floor
            children.append(Node(domain.name, (number,), (), None, limits.floor, high))
    for group in groups:
        if group.parent == key:
            limits = Bounds(floor=group.floor, ceiling=group.ceiling)
            node = _group_node(f"group {group.name!r}", group.name, limits, group.weight, parts)
            children.extend([node] if node.leaves else [])
    low, high = sum(c.low for c in children), sum(c.high for c in children)
    if low > own.ceiling + ROUNDING:
        raise ConfigError(f"{name}: the floors within it sum to {low:g}, above its {own.ceiling:g}; lower one")
    if high < (1.0 if key is None else own.floor) - ROUNDING:
        least = 1.0 if key is None else own.floor
        raise ConfigError(f"{name}: the ceilings within it sum to {high:g}, below its {least:g}; raise one")
    leaves = tuple(leaf for child in children for leaf in child.leaves)
    return Node(name, leaves, tuple(children), weight, max(low, own.floor), min(high, own.ceiling))


def _check_names(domains: Sequence[Domain], groups: Sequence[DomainGroup], bounds: Mapping[str, Bounds]) -> None:
    if not any(domain.weight > 0 for domain in domains):
        raise ConfigError("every domain has weight 0: give at least one a positive weight")
    parents = {group.name: group.parent for group in groups}
    if len(parents) < len(groups):
        twice = next(g.name for g in groups if sum(g.name == other.name for other in groups) > 1)
        raise ConfigError(f"two groups are named {twice!r}: give each its own name")
    for what, name, parent in [("domain", d.name, d.parent) for d in domains] + [
        ("group", g.name, g.parent) for g in groups
    ]:
        if parent is not None and parent not in parents:
            raise ConfigError(f"{what} {name!r}: no group is named {parent!r}, its parent")
    for start in parents:
        above, passed = parents[start], {start}
        while above is not None and above not in passed:
            passed.add(above)
            above = parents[above]
        if above is not None:
            raise ConfigError(f"group {above!r} lies within itself: change its parent")
    unknown = sorted(set(bounds) - {domain.name for domain in domains})
    if unknown:
        raise ConfigError(f"bounds are given for {unknown[0]!r}, which is no domain")
