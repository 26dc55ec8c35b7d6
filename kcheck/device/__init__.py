"""Devices: where a case's launch runs, and what is read off afterwards.

One launch path for all of them, by ordinary host calls of ``numba.cuda``; they differ in what is under it.
"""

from kcheck.device.base import Device, unheard
from kcheck.device.choose import DEVICES, choose, unused

__all__ = ["DEVICES", "Device", "choose", "unheard", "unused"]
