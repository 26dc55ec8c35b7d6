"""Checks beyond memory and barriers, compiled into the code only where they are on."""
