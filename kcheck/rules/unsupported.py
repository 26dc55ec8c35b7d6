"""Not supported by this device."""

from __future__ import annotations

from kcheck.rules.rule import Rule

RULE = Rule(
    title="Not supported by this device",
    why="The device cannot run the kernel. This is a limit of the device and not a bug in the kernel.",
    no_example=(
        "the device cannot run the kernel. The reason depends on the device and its version ([the "
        "table](commands.md#devices))."
    ),
)
