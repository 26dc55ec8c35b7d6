"""The code that every kernel is linked with: the block scheduler, diagnosis of deadlocks, checked accesses."""
