"""The queue of calls that wait to be checked, with a limit on their memory."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import Generic, Literal, Protocol, TypeAlias, TypeVar

Policy: TypeAlias = Literal["drop-newest", "drop-oldest", "block"]
POLICIES: tuple[Policy, ...] = ("drop-newest", "drop-oldest", "block")


class Sized(Protocol):
    """Something that takes memory."""

    size: int


Item = TypeVar("Item", bound=Sized)


class Waiting(Generic[Item]):
    """A queue with a limit on the bytes of the calls that are being copied, waiting, or being checked.

    Args:
        most: the maximum number of bytes.
        items: the maximum number of waiting calls; 0: no limit except the bytes.
        policy: what to do with a call for which there is no room.
        dropped: called with each item that is dropped to make room for a newer one.

    Attributes:
        held: the current number of bytes.
        peak: the largest number of bytes so far.
        working: items that are being checked.
    """

    def __init__(self, most: int, items: int, policy: Policy, dropped: Callable[[Item], None]) -> None:
        self._most, self._items, self._policy, self._dropped = most, items, policy, dropped
        self._queue: deque[Item] = deque()
        self._changed = threading.Condition()
        self.held = self.peak = self.working = 0
        self._pauses = 0
        self.open = True

    def __len__(self) -> int:
        return len(self._queue)

    def reserve(self, size: int, *, item: bool) -> str:
        """Reserve bytes, and make room for them according to the policy.

        Args:
            item: whether the bytes are for a new item, not for one that already has some.

        Returns:
            Empty, or why there is no room: ``full``, ``too large`` or ``stopped``.
        """
        if size > self._most:
            return "too large"
        evicted: list[Item] = []
        try:
            with self._changed:
                while self.held + size > self._most or (item and self._items and len(self._queue) >= self._items):
                    if not self.open:
                        return "stopped"
                    if self._policy == "drop-oldest" and self._queue:
                        oldest = self._queue.popleft()
                        self.held -= oldest.size
                        evicted.append(oldest)
                    elif self._policy == "block" and (self._queue or self.working):
                        self._changed.wait()
                    else:
                        return "full"
                if not self.open:
                    return "stopped"
                self.held += size
                self.peak = max(self.peak, self.held)
                return ""
        finally:
            for oldest in evicted:
                self._dropped(oldest)

    def release(self, size: int) -> None:
        """Release reserved bytes."""
        with self._changed:
            self.held -= size
            self._changed.notify_all()

    def put(self, item: Item) -> bool:
        """Add an item whose bytes are reserved; False if the queue is closed."""
        with self._changed:
            if not self.open:
                self.held -= item.size
                return False
            self._queue.append(item)
            self._changed.notify_all()
            return True

    def take(self) -> Item | None:
        """Wait for the next item; None if the queue is closed and empty."""
        with self._changed:
            while not self._queue or self._pauses:
                if not self._queue and not self.open:
                    return None
                self._changed.wait()
            self.working += 1
            return self._queue.popleft()

    def done(self, item: Item) -> None:
        """Record that an item that was taken has been checked."""
        with self._changed:
            self.working -= 1
            self.held -= item.size
            self._changed.notify_all()

    def idle(self, timeout: float | None) -> bool:
        """Wait until no item waits or is being checked; False if the timeout is reached first."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._queue and not self.working, timeout)

    def pause(self, timeout: float, *, own: bool) -> None:
        """Stop returning items until ``resume``, and wait for running checks.

        Args:
            timeout: seconds.
            own: whether the calling thread is checking one of them.
        """
        with self._changed:
            self._pauses += 1
            self._changed.wait_for(lambda: self.working <= own, timeout)

    def resume(self) -> None:
        """End a pause."""
        with self._changed:
            self._pauses -= 1
            self._changed.notify_all()

    def close(self, *, drain: bool) -> list[Item]:
        """Accept no more items, and wake everyone. Without drain, the items that wait are returned instead."""
        with self._changed:
            self.open = False
            left = [] if drain else list(self._queue)
            if not drain:
                self._queue.clear()
                self.held -= sum(item.size for item in left)
            self._changed.notify_all()
            return left
