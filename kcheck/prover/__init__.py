"""Proofs for all sizes: what a kernel does for every case that its spec allows (docs/prove.md).

From the spec and the PTX to a verdict::

    variants      the compiled kernels that the cases may launch
    launchers     the code of a launcher with terms, and (launched) what it launches
    assumptions   sizes, params, launch and contents of index arrays, as terms
    execute       the kernel with terms instead of numbers; loops for any number of iterations
    checks        memcheck, racecheck, synccheck, overflow, as questions to the prover
    verdicts      proved or undecided; refute runs the cases that the solver proposes
    kept          what was decided, for later processes; proofs: the verdicts as data
"""
