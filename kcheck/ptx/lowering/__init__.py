"""A function of PTX to LLVM IR: registers, masks, control flow, calls and loops."""
