"""Which rewards a run was begun with: a resumed run whose scores would mean something else is refused."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from pathlib import Path

from strop.core.errors import ConfigError
from strop.storage.records import write_whole

VERSIONS_FILE = "rewards.json"

Versions = Mapping[str, Mapping[str, str]]  # by domain, then by reward


def check_reward_versions(folder: Path, versions: Versions, accepted: Collection[str] = ()) -> None:
    """Note the versions in a new run; in one that goes on, compare them with those noted.

    ConfigError names the reward that has changed, its domain and both versions, unless it is among `accepted`; what was
    accepted is noted as the run's own from here on. So is a reward or domain that was not there before.
    """
    names = {name for rewards in versions.values() for name in rewards}
    unknown = sorted(set(accepted) - names)
    if unknown:
        raise ConfigError(f"--accept-reward {unknown[0]}: the run has no such reward, but {', '.join(sorted(names))}")
    file = folder / VERSIONS_FILE
    noted: Versions = json.loads(file.read_text()) if file.exists() else {}
    for domain, rewards in versions.items():
        for name, version in rewards.items():
            before = noted.get(domain, {}).get(name, version)
            if before != version and name not in accepted:
                raise ConfigError(
                    f"reward {name!r} of domain {domain!r} has changed since the run began: version {before} then, "
                    f"{version} now; bring back its code, parameters and files, or go on with --accept-reward {name}"
                )
    write_whole(file, json.dumps({**noted, **{d: {**noted.get(d, {}), **r} for d, r in versions.items()}}).encode())
