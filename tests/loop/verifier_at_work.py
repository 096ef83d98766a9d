"""What the workers of test_killed_workers.py run: it takes its time, and one kind of answer ends its process."""

import os
import time

WORK_S = 0.15


def deadly(token_ids):
    return token_ids[0] % 8 == 0


def verify(token_ids):
    """1 for an even first token; the answers that are `deadly` kill the worker they reach."""
    if deadly(token_ids):
        os._exit(9)
    time.sleep(WORK_S)
    return float(token_ids[0] % 2 == 0)
