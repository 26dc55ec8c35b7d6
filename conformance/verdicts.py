"""What comes of comparing a launch with one lane to a vector with the same launch as usual."""

from __future__ import annotations

MOST_BYTES = 64 << 20  # of live memory that is kept and compared
MOST_SECONDS = 30.0  # that a launch may take with one lane

SAME, DIFFERENT = "same", "different"
REASONS = {
    "order": "gives different bits at the same width when blocks, warps and lanes run in another order",
    "ticket": "uses the value that an atomic operation returns, which depends on the order of threads",
    "address": "stores addresses of local or shared memory, which differ",
    "threads": "not compared: other threads of the program use the device at the same time",
    "fault": "ends with the same fault at both widths",
    "large": f"not compared: more than {MOST_BYTES >> 20} MiB is allocated",
    "slow": f"not compared: takes more than {MOST_SECONDS:.0f} s with one lane",
    "not compiled": "not compared: does not compile at either width",
}
"""Why a launch does not have to give the same bits, by the name of its verdict."""
