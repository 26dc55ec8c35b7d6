"""What comes of comparing a launch with one lane to a vector with the same launch as usual."""

from __future__ import annotations

MOST_BYTES = 64 << 20  # of live memory that is kept and compared
MOST_SECONDS = 30.0  # that a launch may take with one lane

SAME, DIFFERENT = "same", "different"
REASONS = {
    "order": "gives other bits at the same width when blocks, warps and lanes run in another order",
    "ticket": "uses what an atomic operation returns, which is a thread's turn",
    "address": "stores addresses of local or shared memory, which differ",
    "threads": "not compared: launched beside other threads of the program, which use the device meanwhile",
    "fault": "ends with the same fault at both",
    "large": f"not compared: more than {MOST_BYTES >> 20} MiB are allocated",
    "slow": f"not compared: takes more than {MOST_SECONDS:.0f} s with one lane",
    "not compiled": "not compared: does not compile at either",
}
"""Why a launch does not have to give the same bits, by the name of its verdict."""
