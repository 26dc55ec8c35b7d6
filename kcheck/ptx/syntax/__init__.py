"""PTX text to a syntax tree: lexer, parser, nodes, types, and what mangled symbols mean.

Source: PTX ISA, "Syntax", "Directives", "State Spaces, Types, and Variables".
"""
