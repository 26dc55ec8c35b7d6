"""``kcheck exec --autotune N``: Triton's autotuner tries only the first configurations of a kernel."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any


def try_first(autotuner: Any, limit: int) -> None:
    """Change ``triton.runtime.autotuner``: it chooses among the first configurations that run.

    A configuration that Triton rejects, for instance because it needs too much shared memory, does not count: the
    next one is tried instead.

    Args:
        autotuner: the module.
        limit: how many configurations of a kernel are tried.
    """
    tuner = autotuner.Autotuner
    prune, bench = tuner.prune_configs, tuner._bench

    def prune_configs(self: Any, kwargs: Any) -> Any:
        self.left_to_try = limit
        return prune(self, kwargs)

    def _bench(self: Any, *args: Any, config: Any, **meta: Any) -> Any:
        if not self.left_to_try:
            return [math.inf] * 3
        times = bench(self, *args, config=config, **meta)
        if times[0] < math.inf:
            self.left_to_try -= 1
        return times

    def check_disk_cache(self: Any, key: Any, configs: Any, choose: Callable[[], None]) -> bool:
        # A choice among a few configurations must not be stored: a later run without the option would use it.
        choose()
        return False

    tuner.prune_configs, tuner._bench, tuner.check_disk_cache = prune_configs, _bench, check_disk_cache
