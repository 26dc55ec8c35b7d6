"""racecheck: finds accesses of a launch that no barrier, warp-level synchronization or fence puts in order.

:mod:`layout` has the structures that the code and the host share. :mod:`facts`, :mod:`guards`, :mod:`updates` and
:mod:`pointers` analyze a kernel before it is lowered. :mod:`hooks` and :mod:`inflight` add calls while it is
lowered: to the functions of :mod:`cells` and :mod:`accesses`, which check and record accesses, and of :mod:`sync`,
which advance the time. :mod:`judge` records races.
"""
