"""PTX text to a syntax tree: lexer, parser, nodes, types, and what the names of symbols say.

Source: PTX ISA, "Syntax", "Directives", "State Spaces, Types, and Variables".
"""
