"""Lowers PTX functions to LLVM IR: registers, masks, control flow, calls and loops."""
