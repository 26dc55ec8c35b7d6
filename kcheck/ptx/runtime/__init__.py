"""What every kernel is linked with: the block scheduler, diagnosis of stuck blocks, checked memory access."""
