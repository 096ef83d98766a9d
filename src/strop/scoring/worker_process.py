"""The inside of a worker: `python -P worker_process.py MODULE:FUNCTION MEMORY_BYTES ALARM_S`.

Reads one JSON list of arguments a line from stdin and writes one JSON object a line, `{"value": ...}` or
`{"error": ...}`. What the function prints goes nowhere. It ends with its stdin.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import resource
import signal
import sys


def serve(target: str, memory_bytes: int, alarm_s: int) -> None:
    """Answer calls until stdin ends."""
    replies = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_AS, (memory_bytes, memory_bytes))
    module, _, name = target.partition(":")
    function = getattr(importlib.import_module(module), name)
    for line in sys.stdin:
        signal.alarm(alarm_s)  # ends a busy worker whose owner is gone
        try:
            reply = {"value": function(*json.loads(line))}
        except MemoryError:
            os._exit(1)
        except Exception as error:  # the reward's border: an answer that makes the function raise is a failed call
            reply = {"error": f"{type(error).__name__}: {error}"[:300]}
        signal.alarm(0)
        replies.write(json.dumps(reply) + "\n")
        replies.flush()


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt, BrokenPipeError):
        serve(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
