"""LLVM IR as text: the builder that every part of the code generator uses."""
