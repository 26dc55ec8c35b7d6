"""racecheck: the accesses of a launch that no barrier, warp-level synchronization or fence puts in order.

:mod:`layout` is what the code and the host share, :mod:`facts` what is known of a kernel before it is lowered,
:mod:`hooks` what loads, stores and barriers call while they are lowered, :mod:`cells` and :mod:`accesses` the
functions that check and remember, :mod:`sync` those that move time on.
"""
