"""Devices run the launch of a case and collect what happened. All of them share one launch path, which uses
ordinary host calls of ``numba.cuda``, and differ in what implements these calls.
"""

from kcheck.device.base import Device, unheard
from kcheck.device.choose import DEVICES, choose, choose_for, unused
from kcheck.device.host import HOST

__all__ = ["DEVICES", "HOST", "Device", "choose", "choose_for", "unheard", "unused"]
